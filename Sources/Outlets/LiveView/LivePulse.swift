package import ColmiRing
import Physiology

/// Live pulse from a ring's light, computed as in `ringtap analyse`. Use it only on the thread that displays
/// it.
package struct LivePulse: Sendable {
  private var meter: PulseRateMeter?
  package private(set) var reading: LivePulseReading?

  package init() {}

  /// Adds a tick.
  ///
  /// - Parameter rate: tick rate in hertz; `nil` while it is unknown.
  package mutating func take(_ placed: PlacedTick, rate: Double?) {
    if meter == nil, reading == nil || reading == .waiting { begin(rate) }
    _ = meter?.take(placed.signal)
    while let window = meter?.next() { reading = .window(window) }
  }

  private mutating func begin(_ rate: Double?) {
    guard let rate else { return reading = .waiting }
    do throws(PulseMeter.Refusal) {
      meter = try PulseRateMeter(rate: rate)
      reading = .waiting
    } catch { reading = .refused("\(error)") }
  }
}
