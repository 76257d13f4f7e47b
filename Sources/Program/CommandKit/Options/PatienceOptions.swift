package import ArgumentParser
import BLEHost
import BLEWire
package import SensorSessions

/// How long to try to reconnect, for every command that keeps a device connected.
package struct PatienceOptions: ParsableArguments {
  package init() {}

  /// Default in seconds. A ring takes less time to return from its charger or a pocket.
  private static let standard = 60.0

  @Option(
    help: ArgumentHelp(
      "How long to try to reconnect; 0 for not at all (default: 60, in replay 0).",
      valueName: "seconds"), in: NumberRange(0...86_400, "seconds"))
  package var patience: Double?

  /// Returns the time limit for reconnecting. The default in replay is 0: a reconnection, if there was one,
  /// is already in the log.
  package func duration(on radio: Radio) -> Duration {
    .seconds(patience ?? (radio.replay == nil ? Self.standard : 0))
  }
}

/// Text about a gap in a recording, for the user.
package enum GapText {
  /// Why the link ended: `the link was lost: the device went silent (0x08, Connection Timeout)`.
  package static func cause(_ gap: SessionGap) -> String {
    guard let reason = gap.reason else { return "\(gap.end)" }
    let digits = String(reason.rawValue, radix: 16)
    return "\(gap.end) (0x\(digits.count < 2 ? "0" : "")\(digits), \(reason.name))"
  }

  /// Why the link ended, and when the next attempt starts: `…; reconnecting in 2.0 s: 5 links in a row ended
  /// within 3 s`.
  package static func lost(_ gap: SessionGap) -> String {
    let start = cause(gap) + "; reconnecting"
    guard gap.pause > .zero else { return start }
    let seconds = Double(gap.pause / .milliseconds(1)) / 1_000
    return start + " in \(seconds) s: \(gap.shortLinks) links in a row ended within 3 s"
  }
}
