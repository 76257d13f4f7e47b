package import ArgumentParser
import BLEHost
import BLEWire
package import SensorSessions

/// How long to go on without the device, on every command that keeps one connected.
package struct PatienceOptions: ParsableArguments {
  package init() {}

  /// A ring that is taken off its charger or out of a pocket is back long before.
  private static let standard = 60.0

  @Option(
    help: ArgumentHelp(
      "After a lost link, connect again for so long; 0: a lost link is the end. 60 if not given, in replay 0.",
      valueName: "seconds"), in: NumberRange(0...86_400, "seconds"))
  package var patience: Double?

  /// A log has what came back, if anything did: only who asks for it waits.
  package func duration(on radio: Radio) -> Duration {
    .seconds(patience ?? (radio.replay == nil ? Self.standard : 0))
  }
}

/// A gap in words.
package enum GapText {
  /// Why there is no link: `the link was lost: the device went silent (0x08, Connection Timeout)`.
  package static func cause(_ gap: SessionGap) -> String {
    guard let reason = gap.reason else { return "\(gap.end)" }
    let digits = String(reason.rawValue, radix: 16)
    return "\(gap.end) (0x\(digits.count < 2 ? "0" : "")\(digits), \(reason.name))"
  }

  /// Why there is no link, and when the next is tried: `…; connecting again in 2 s: 5 links in a row ended within 3 s`.
  package static func lost(_ gap: SessionGap) -> String {
    let start = cause(gap) + "; connecting again"
    guard gap.pause > .zero else { return start }
    let seconds = Double(gap.pause / .milliseconds(1)) / 1_000
    return start + " in \(seconds) s: \(gap.shortLinks) links in a row ended within 3 s"
  }
}
