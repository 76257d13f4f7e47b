import Foundation

extension Ringtap {
  /// A command in the dump of swift-argument-parser.
  package struct Command: Decodable {
    package struct Argument: Decodable {
      private struct Name: Decodable {
        var kind: String
        var name: String
      }

      package var valueName: String?
      package var abstract: String?
      package var defaultValue: String?
      package var shouldDisplay: Bool
      private var kind: String
      private var names: [Name]?

      /// `--name` of an option that takes a value; `nil` for flags and positional arguments.
      package var option: String? {
        guard kind == "option" else { return nil }
        return names?.first { $0.kind == "long" }.map { "--" + $0.name }
      }

      /// Whether this is a flag of that name.
      package func isFlag(_ name: String) -> Bool {
        kind == "flag" && names?.contains { "--" + $0.name == name } == true
      }
    }

    /// Words of the command line that select the command.
    package var words: [String] = []
    package var discussion: String?
    package var shouldDisplay: Bool
    package var subcommands: [Command]
    package var arguments: [Argument]
    private var commandName: String

    private enum CodingKeys: String, CodingKey {
      case commandName, discussion, shouldDisplay, subcommands, arguments
    }

    package init(from decoder: any Decoder) throws {
      let members = try decoder.container(keyedBy: CodingKeys.self)
      commandName = try members.decode(String.self, forKey: .commandName)
      discussion = try members.decodeIfPresent(String.self, forKey: .discussion)
      shouldDisplay = try members.decode(Bool.self, forKey: .shouldDisplay)
      subcommands = try members.decodeIfPresent([Command].self, forKey: .subcommands) ?? []
      arguments = try members.decodeIfPresent([Argument].self, forKey: .arguments) ?? []
      // The parser's own help command, which ours replaces.
      subcommands.removeAll { $0.commandName == "help" && $0.discussion == nil }
    }

    fileprivate func all(below words: [String]) -> [Command] {
      var this = self
      this.words = words
      return [this] + subcommands.flatMap { $0.all(below: words + [$0.commandName]) }
    }
  }

  /// All commands and groups of commands.
  package static func commands() async throws -> [Command] {
    struct Dump: Decodable {
      var command: Command
    }
    let run = try await Ringtap.run(["--experimental-dump-help"])
    let dump = try JSONDecoder().decode(Dump.self, from: Data(run.output.utf8))
    return dump.command.all(below: [])
  }
}
