import TestKit
import Testing

/// What each command says of itself, and that it can be called at all: swift-argument-parser looks at a command's options when
/// it is used.
@Suite struct HelpTests {
  @Test func eachCommandHasAnExampleAndEachOptionAText() async throws {
    let commands = try await Ringtap.commands()
    #expect(commands.count > 60)
    for command in commands where command.shouldDisplay {
      #expect(
        !command.subcommands.isEmpty || command.discussion?.contains("EXAMPLE") == true, "\(command.words)")
      let isSilent = command.arguments.contains { $0.shouldDisplay && $0.abstract?.isEmpty != false }
      #expect(!isSilent, "\(command.words)")
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
