package import ArgumentParser
import CommandKit
import Glibc

/// The command `ringtap`.
package struct Ringtap: AsyncParsableCommand {
  package static let configuration = CommandConfiguration(
    commandName: "ringtap",
    abstract: "A raw Bluetooth LE host for Linux: records sensors with kernel timestamps.",
    discussion: """
      EXAMPLES
        ringtap scan                      devices in range
        ringtap capture --duration 60     record the first ring for a minute
        ringtap gatt 70:CB:0D:00:A1:B2    show a device's attributes
        ringtap help modes                also permissions, formats, commands

      Exit status: 0 success, 1 failure, 2 wrong usage, 3 complete but samples were lost, 4 complete but not fully \
      published, 130 interrupted. After a signal a command ends within a second and its files are complete.
      """,
    version: Console.version,
    subcommands: [
      DecodeCommand.self, OpenCommand.self, ScriptPeerCommand.self, ExtcapCommand.self, HelpCommand.self,
    ],
    groupedSubcommands: [
      CommandGroup(
        name: "Find",
        subcommands: [ScanCommand.self, DevicesCommand.self, AdaptersCommand.self, DoctorCommand.self]),
      CommandGroup(
        name: "Connect",
        subcommands: [
          GATTCommand.self, ReadCommand.self, WriteCommand.self, NotifyCommand.self, LinkCommand.self,
          PairCommand.self,
          RingToolCommand.self,
        ]),
      CommandGroup(
        name: "Record",
        subcommands: [
          CaptureCommand.self, HeartRateCommand.self, ThermometerCommand.self, CyclingCommand.self,
          PolarCommand.self,
          DaemonCommand.self, StatusCommand.self,
        ]),
      CommandGroup(
        name: "Look",
        subcommands: [
          AnalyseCommand.self, ReportCommand.self, AlignCommand.self, ConvertCommand.self, ImportCommand.self,
          LogCommand.self, BenchCommand.self,
        ]),
      CommandGroup(
        name: "Share",
        subcommands: [
          PublishCommand.self, CollectCommand.self, RelayCommand.self, ServeCommand.self, EmulateCommand.self,
        ]),
    ])

  package init() {}

  package static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    Confinement.begin(ExtcapCommand.isMeant(by: arguments) ? ["extcap"] : arguments)
    do {
      try OpenFiles.check()
      try Interruption.take()
    } catch { Glibc.exit(status(after: error)) }
    Glibc.exit(await status(of: arguments))
  }

  /// Runs a command line without the program's name.
  ///
  /// - Returns: the exit status. All messages have been printed.
  package static func status(of arguments: [String]) async -> CInt {
    if let word = arguments.first, !ExtcapCommand.isMeant(by: arguments),
      let refusal = CommandGuess.refusal(of: word, among: configuration.subcommands)
    {
      Console.usage("Error: \(refusal)")
      return 2
    }
    var command: any ParsableCommand
    do {
      command = try parseAsRoot(
        ExtcapCommand.isMeant(by: arguments) ? ["extcap"] + arguments : arguments)
    } catch { return status(refusing: error) }
    do {
      if var command = command as? any AsyncParsableCommand {
        try ThreadLimit.check()
        try await command.run()
      } else {
        try command.run()
      }
      return Console.takeFailure() ? EXIT_FAILURE : EXIT_SUCCESS
    } catch { return status(after: error) }
  }

  /// Prints the parser's message: the requested help, or the error and where to find help, one per line.
  private static func status(refusing error: any Error) -> CInt {
    let text = fullMessage(for: error)
    guard text.hasPrefix("Error: ") else {
      do { try Console.print(text) } catch { return status(after: error) }
      return EXIT_SUCCESS
    }
    let lines = text.split(separator: "\n")
    tell(lines)
    if let place = lines.last(where: { $0.hasPrefix("  See ") }) { Console.usage(String(place)) }
    return 2
  }

  /// A help text with shortened headings of command groups: the parser writes FIND SUBCOMMANDS.
  static func named(_ help: String) -> String {
    let ending = " SUBCOMMANDS:"
    return help.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.hasSuffix(ending) ? line.dropLast(ending.count) + ":" : line
    }.joined(separator: "\n")
  }

  /// Prints the error without the parser's usage lines.
  private static func tell(_ lines: [Substring]) {
    let message = lines.prefix {
      !$0.hasPrefix("Help:") && !$0.hasPrefix("Usage:") && !$0.hasPrefix("  See ")
    }
    Console.usage(message.joined(separator: " "))
  }

  /// Maps every way out of a command to the exit status that the help documents.
  private static func status(after error: any Error) -> CInt {
    switch error {
    case Console.WriteError.readerGone: return EXIT_SUCCESS
    case Console.WriteError.failed(let error):
      Console.note(Failure(error).message)
      return EXIT_FAILURE
    case is CancellationError:
      Console.note(Interruption.cause ?? "interrupted")
      return Interruption.cause == nil ? 130 : EXIT_FAILURE
    case let failure as Failure:
      Console.note(failure.message)
      return EXIT_FAILURE
    default: break
    }
    let code = exitCode(for: error)
    let text = fullMessage(for: error)
    // The error of a running command does not say which command it was.
    if code == .validationFailure {
      tell(text.split(separator: "\n"))
      return 2
    }
    if code.isSuccess {
      do { try Console.print(named(text)) } catch { return status(after: error) }
    } else if !text.isEmpty {
      Console.usage(text)
    }
    return code.rawValue
  }
}
