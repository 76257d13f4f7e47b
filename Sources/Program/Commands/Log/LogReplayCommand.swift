import ArgumentParser
import BLEHost
import BLEReplay
import CaptureTools
import CommandKit
import JSONText
import Recording

extension LogCommand {
  /// `ringtap log replay`: drives the host stack with a log.
  struct Replay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "replay",
      abstract: "Drive the host stack with a packet log, and compare its packets with the recorded ones.",
      discussion: """
        EXAMPLES
          ringtap log replay packets.btsnoop
              where ringtap's stack differs from the recorded host

          ringtap log replay btsnoop_hci.log --json | jq .differences
              for programs: one object

          ringtap log replay hci.pcapng --speed 10x --link 2
              the second connection, ten times as fast

          ringtap capture --transport replay:packets.btsnoop --output again
              not this command: records from a log as from a ring

        The stack starts whatever the recorded host started: commands, ATT requests, \
        signalling. Its responses are compared: ATT responses and confirmations, \
        signalling, how many commands and data packets it sends before the controller \
        has room, and how it fragments frames.

        Reads the formats of `log show`. Differences are a result: the exit status is 0, \
        or 1 with --strict. A log that ends within a record is played up to there; the \
        exit status is 1.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Option(help: ArgumentHelp("1x, 10x or any whole factor; max does not wait.", valueName: "speed"))
    var speed = "max"

    @Option(
      help: ArgumentHelp("Only this connection, counted from 1 as in `log stats`.", valueName: "number"),
      in: .count)
    var link: Int?

    @Flag(help: "Fail if anything differs.")
    var strict = false

    @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func validate() throws {
      if ReplaySpeed(speed) == nil {
        throw ValidationError("--speed must be 1x, 10x, any whole factor, or max")
      }
    }

    func run() async throws {
      let (file, link, speed, keys) = (file, link, ReplaySpeed(speed) ?? .max, air.keys)
      let log = try failing { () throws(HostError) in
        try ReplayLog.read(file, keys: keys) { Console.progress("read \($0) packets …") }
      }
      Console.progress("")
      let report = try await Interruption.cancelling {
        try await failing { () async throws(HostError) in
          try await LogReplay(log, speed: speed, link: link).run { played, count in
            Console.progress("\(played) of \(count) packets   (Ctrl-C ends)")
          }
        }
      }
      Console.progress("")
      if json {
        var line = JSONLine()
        line.value(report, log)
        line.endLine()
        try Console.write(line.octets)
      } else {
        try Console.print(ReplayText.lines(report, log).joined(separator: "\n"))
      }
      if let problem = log.problem { throw Failure("\(file == "-" ? "standard input" : file): \(problem)") }
      if strict, report.findings.differenceCount > 0 { throw ExitCode.failure }
    }
  }
}
