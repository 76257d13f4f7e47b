package import ArgumentParser
import CommandKit

/// The command `ringtap`.
package struct Ringtap: AsyncParsableCommand, ProgramRoot {
  package static let configuration = CommandConfiguration(
    commandName: "ringtap",
    abstract: "A raw Bluetooth LE host for Linux that records sensors.",
    discussion: """
      EXAMPLES
        ringtap scan                    devices in range
        ringtap capture --duration 60   record the first ring for a minute
        ringtap heart-rate              print a strap; other sensors: help commands
        ringtap help help               topics: modes, permissions, formats, outputs …
      """,
    version: Console.version,
    subcommands: [
      HeartRateCommand.self, ThermometerCommand.self, CyclingCommand.self, PolarCommand.self,
      AdaptersCommand.self, StatusCommand.self, DecodeCommand.self, OpenCommand.self, ExtcapCommand.self,
      HelpCommand.self,
    ],
    groupedSubcommands: [
      CommandGroup(name: "Find", subcommands: [ScanCommand.self, DevicesCommand.self]),
      CommandGroup(
        name: "Connect",
        subcommands: [
          GATTCommand.self, ReadCommand.self, WriteCommand.self, NotifyCommand.self, LinkCommand.self,
          PairCommand.self, RingToolCommand.self,
        ]),
      CommandGroup(name: "Record", subcommands: [CaptureCommand.self]),
      CommandGroup(
        name: "Look",
        subcommands: [AnalyseCommand.self, ReportCommand.self, AlignCommand.self, ConvertCommand.self]),
      CommandGroup(
        name: "Share", subcommands: [PublishCommand.self, CollectCommand.self, RelayCommand.self]),
      CommandGroup(name: "Log", subcommands: [LogCommand.self, ImportCommand.self]),
      CommandGroup(name: "Emulate", subcommands: [EmulateCommand.self, ServeCommand.self]),
      CommandGroup(
        name: "System", subcommands: [DaemonCommand.self, DoctorCommand.self, BenchCommand.self]),
    ])

  package init() {}

  package static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    await begin(privileges: ExtcapCommand.isMeant(by: arguments) ? ["extcap"] : arguments) {
      await status(of: arguments)
    }
  }

  /// Runs a command line, given without the program's name.
  ///
  /// - Returns: the exit status. All messages have then been printed.
  package static func status(of arguments: [String]) async -> CInt {
    if let word = arguments.first, !ExtcapCommand.isMeant(by: arguments),
      let refusal = CommandGuess.refusal(of: word, among: configuration.subcommands)
    {
      Console.usage("Error: \(refusal)")
      return 2
    }
    return await status(running: ExtcapCommand.isMeant(by: arguments) ? ["extcap"] + arguments : arguments)
  }
}
