import TestKit
import Testing

/// Help texts of each command, and a check that each command can be parsed at all: swift-argument-parser
/// validates a command's options when it is used.
@Suite struct HelpTests {
  @Test func eachCommandHasAnExampleAndEachOptionAText() async throws {
    let commands = try await Ringtap.commands()
    #expect(commands.count > 50)
    for command in commands where command.shouldDisplay || command.words.count == 1 {
      #expect(
        !command.subcommands.isEmpty || command.discussion?.contains("EXAMPLE") == true, "\(command.words)")
      // Lines in columns are not wrapped by the printer.
      let lines = command.discussion?.split(separator: "\n").drop { !$0.contains("EXAMPLE") } ?? []
      #expect(lines.allSatisfy { $0.count <= 80 || !$0.hasPrefix("  ") }, "\(command.words)")
      // Prose is wrapped by the printer, so each paragraph is one line.
      let text = command.discussion?.split(separator: "\n", omittingEmptySubsequences: false) ?? []
      let prose = text.prefix { !$0.contains("EXAMPLE") }
      let isFilled = zip(prose, prose.dropFirst()).allSatisfy { line, next in
        line.isEmpty || next.isEmpty || line.hasPrefix(" ") || next.hasPrefix(" ")
      }
      #expect(isFilled, "\(command.words)")
      let isSilent = command.arguments.contains { $0.shouldDisplay && $0.abstract?.isEmpty != false }
      #expect(!isSilent, "\(command.words)")
    }
  }

  /// The printer wraps a line that is too long for the terminal, and puts the rest into column 0.
  @Test func examplesStayAsTheyAreWritten() async throws {
    for command in try await Ringtap.commands() where command.words != ["decode"] {
      let written = command.discussion?.split(separator: "\n").filter { $0.hasPrefix("  ") } ?? []
      guard !written.isEmpty else { continue }
      let run = try await Ringtap.run(command.words + ["--help"])
      let printed = Set(run.outputLines)
      let broken = written.filter { !printed.contains(String($0)) }
      #expect(broken.isEmpty, "\(command.words): \(broken)")
    }
  }

  @Test(arguments: [
    "modes", "permissions", "formats", "outputs", "link", "virtual", "commands",
  ]) func topics(
    _ name: String
  ) async throws {
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
    #expect(unknown.errorLines.contains { $0.contains("there is no command or topic 'log shew'") })
  }

  @Test(arguments: [
    ("captur", "'captur' is not a command; did you mean 'capture'?"),
    ("gat", "'gat' is not a command; did you mean 'gatt'?"),
    ("analyz", "'analyz' is not a command; did you mean 'analyze'?"),
    ("\u{1B}[2J", "is not a command; `ringtap --help` lists all commands"),
  ]) func guessesWhatWasMeant(_ word: String, _ answer: String) async throws {
    let run = try await Ringtap.run([word, "--json"])
    #expect(run.status == 2 && run.outputLines.isEmpty)
    #expect(run.errorLines.count == 1 && run.errorLines[0].hasSuffix(answer), "\(run.errorLines)")
    #expect(!run.errors.contains("\u{1B}"))
  }

  /// A recording cannot be written to a stream: this is reported before the radio is opened.
  @Test(arguments: [("capture", "--to -"), ("heart-rate", "--json")])
  func standardOutputIsNoDirectory(_ command: String, _ instead: String) async throws {
    let run = try await Ringtap.run([command, "-o", "-"])
    #expect(run.status == 2 && run.errorLines.first?.contains(instead) == true, "\(run.errorLines)")
  }

  /// At most 30 commands, one per line, in groups. Commands that are not listed are in the topic `commands`.
  @Test func listsWhatPeopleUse() async throws {
    let lines = try await Ringtap.run(["--help"]).outputLines
    #expect(lines.allSatisfy { $0.count <= 80 })
    let groups = lines.filter { $0.hasSuffix(":") && !$0.hasPrefix(" ") }
    #expect(groups == ["FIND:", "CONNECT:", "RECORD:", "LOOK:", "SHARE:", "LOG:", "EMULATE:", "SYSTEM:"])
    let listed = lines.drop { $0 != "FIND:" }.filter {
      $0.hasPrefix("  ") && !$0.hasPrefix("  See ")
    }
    #expect(!listed.isEmpty && listed.count <= 30 && listed.allSatisfy { !$0.hasPrefix("   ") }, "\(listed)")
    let others = try await Ringtap.run(["help", "commands"]).output
    for command in try await Ringtap.commands() where command.words.count == 1 && !command.shouldDisplay {
      let isListed = others.contains("  \(command.words[0]) ") || others.contains(" \(command.words[0]),")
      #expect(
        command.words == ["help"] || isListed || others.contains(", \(command.words[0])\n"),
        "\(command.words)")
    }
  }

  /// What a person can take in: `capture --help` has at most 60 lines, `ringtap --help` 50. The rest is listed
  /// by `--help-all` and explained by topics.
  @Test func fitsTheEye() async throws {
    let all = try await Ringtap.run(["--help"]).output
    #expect(all.count { $0 == "\n" } <= 50)
    let lines = try await Ringtap.run(["capture", "--help"]).outputLines
    #expect(lines.count <= 60)
    let whole = try await Ringtap.run(["capture", "--help-all"]).output
    let link = try await Ringtap.run(["help", "link"]).output
    for option in [
      "--interval", "--latency", "--supervision-timeout", "--phy", "--data-length", "--spin", "--cpu",
    ] {
      #expect(!lines.contains { $0.hasPrefix("  \(option) ") } && link.contains("  \(option) "), "\(option)")
      #expect(whole.contains("  \(option) "), "\(option)")
    }
  }

  @Test func isSpeltEitherWay() async throws {
    let other = try await Ringtap.run(["analyze", "--help"])
    #expect(try await other.output == Ringtap.run(["analyse", "--help"]).output)
  }
}
