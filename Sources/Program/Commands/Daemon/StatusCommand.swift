import ArgumentParser
import BLELinux
import CommandKit
import Daemon
import JSONText
import Recording

/// The command `ringtap status`.
struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show the status of the daemon.",
    discussion: """
      Prints one line for `ringtap daemon` and one for each device: its state (connecting, streaming, reconnecting \
      or waiting), samples received and lost since the daemon started, rates, and the reason for waiting.

      EXAMPLES
        ringtap status
        ringtap status --json \\
          | jq '.devices[] | select(.state != "streaming") | .name'
      Exit status: 1 if no daemon answers.
      """,
    shouldDisplay: false)

  @Option(help: ArgumentHelp("The daemon's statusSocket (default: the usual ones).", valueName: "path"))
  var socket: String?

  @Flag(help: "Print one JSON object.")
  var json = false

  func run() throws {
    let places = socket.map { [$0] } ?? RuntimeFolder.all.map { $0 + "/status" }
    var failure: SystemError?
    for place in places {
      let octets: [UInt8]
      do throws(SystemError) {
        octets = try RequestClient.answer(of: place, to: json ? "json" : "text")
      } catch {
        failure = failure ?? error
        continue
      }
      if json { return try Console.write(octets) }
      for line in String(decoding: octets, as: UTF8.self).split(separator: "\n") {
        try Console.print(String(line).printable)
      }
      return
    }
    throw Failure(
      "no daemon responds at \(places.joined(separator: " or ")) (\(failure.map { "\($0)" } ?? "")); "
        + "start one with `ringtap daemon FILE`, or give its --socket")
  }
}
