import ColmiRing
import Physiology

/// The pulse for the live view, by the meter that `ringtap analyse` has. On the view's side.
struct LivePulse: Sendable {
  private var meter: PulseMeter?
  private(set) var reading: LivePulseReading?

  /// - Parameter rate: ticks a second, once it is known.
  mutating func take(_ placed: PlacedTick, rate: Double?) {
    if meter == nil, reading == nil || reading == .waiting { begin(rate) }
    guard let window = meter?.take(placed.signal) else { return }
    reading = .window(window)
  }

  private mutating func begin(_ rate: Double?) {
    guard let rate else { return reading = .waiting }
    do throws(PulseMeter.Refusal) {
      meter = try PulseMeter(rate: rate)
      reading = .waiting
    } catch { reading = .refused("\(error)") }
  }
}
