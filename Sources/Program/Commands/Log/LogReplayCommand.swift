import ArgumentParser
import BLEHost
import BLEReplay
import CaptureTools
import CommandKit
import JSONText
import Recording

extension LogCommand {
  /// `ringtap log replay`: the host stack, driven by a log.
  struct Replay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "replay",
      abstract: "Drive the host stack by a packet log, and compare what it says with what was said.",
      discussion: """
        EXAMPLES
          ringtap log replay packets.btsnoop
              what our stack answers otherwise than the recorded host

          ringtap log replay btsnoop_hci.log --json | jq .differences
              for programs: one object

          ringtap log replay hci.pcapng --speed 10x --link 2
              the second connection, ten times as fast as it was

          ringtap capture --transport replay:packets.btsnoop --output again
              not this command: records from a log as from a ring

        What the recorded host began, our stack begins too: commands, ATT requests,
        signalling. What a host has to answer is compared: ATT responses and
        confirmations, signalling, how many commands and data it sends before the
        controller has room, and how it cuts frames.

        Reads what `log show` reads. Differences are a finding: the exit status is 0,
        with --strict 1. A log that ends inside a record is played up to there; the
        exit status is 1.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Option(help: ArgumentHelp("1x, 10x or any factor; max does not wait.", valueName: "speed"))
    var speed = "max"

    @Option(
      help: ArgumentHelp("Only this connection, from 1, as `log stats` lists them.", valueName: "number"),
      in: .count)
    var link: Int?

    @Flag(help: "Fail where anything differs.")
    var strict = false

    @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func validate() throws {
      if ReplaySpeed(speed) == nil { throw ValidationError("--speed is 1x, 10x, any whole factor, or max") }
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
