import Foundation
import TestKit
import Testing

/// What each command says of itself, and that it can be called at all: swift-argument-parser looks at a command's options when
/// it is used.
@Suite struct HelpTests {
  private struct Command: Decodable {
    var commandName: String
    var discussion: String?
    var shouldDisplay: Bool
    var subcommands: [Command]?
    var arguments: [Argument]?

    struct Argument: Decodable {
      var valueName: String?
      var abstract: String?
      var shouldDisplay: Bool
    }

    /// With those below it, each by all its words.
    func all(below words: [String] = []) -> [(words: [String], command: Command)] {
      [(words, self)] + (subcommands ?? []).flatMap { $0.all(below: words + [$0.commandName]) }
    }
  }

  private struct Dump: Decodable {
    var command: Command
  }

  @Test func eachCommandHasAnExampleAndEachOptionAText() async throws {
    let run = try await Ringtap.run(["--experimental-dump-help"])
    let dump = try JSONDecoder().decode(Dump.self, from: Data(run.outputLines.joined(separator: "\n").utf8))
    let commands = dump.command.all()
    #expect(commands.count > 60)
    // swift-argument-parser adds a `help` of its own behind ours.
    for (words, command) in commands where command.shouldDisplay && words != ["help"] {
      let isGroup = command.subcommands?.isEmpty == false
      #expect(isGroup || command.discussion?.contains("EXAMPLE") == true, "\(words)")
      let isSilent = command.arguments?.contains { $0.shouldDisplay && $0.abstract?.isEmpty != false }
      #expect(isSilent != true, "\(words)")
    }
  }

  @Test(arguments: ["modes", "permissions", "formats"]) func topics(_ name: String) async throws {
    let run = try await Ringtap.run(["help", name])
    #expect(run.status == 0)
    #expect(run.outputLines.first == name.uppercased())
    #expect(run.outputLines.allSatisfy { $0.count <= 80 })
  }

  @Test func commandsAreFoundByTheirWords() async throws {
    let run = try await Ringtap.run(["help", "log", "show"])
    #expect(run.outputLines.contains { $0.hasPrefix("USAGE: ringtap log show") })
    #expect(try await Ringtap.run(["help"]).outputLines == Ringtap.run(["--help"]).outputLines)
    let unknown = try await Ringtap.run(["help", "log", "shew"])
    #expect(unknown.status == 2)
    #expect(unknown.errorLines.contains { $0.contains("no command and no topic 'log shew'") })
  }
}
