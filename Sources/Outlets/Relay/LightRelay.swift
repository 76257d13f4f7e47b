import BLESensors
package import BLEWire
import ColmiRing
import Physiology
package import SensorSessions

/// Computes the heart rate from a ring's raw light, as in `ringtap analyse`. Sends a rate every two seconds
/// if the quality of the rate is sufficient.
///
/// The relayed sensor supports the contact feature. A pulse means contact. Constant, jumping or missing light
/// means no contact. If there is light but no reliable pulse, nothing is sent.
package struct LightRelay: RelaySource {
  package static let leastQuality = PulseEstimate.goodQuality

  private let leastQuality: Double
  private var stream = TickStream()
  private var meter: PulseRateMeter?
  private var stamps = LightStamps()
  package private(set) var silences = 0
  package private(set) var refusal: String?

  /// Creates a relay.
  ///
  /// - Parameter leastQuality: minimum quality of a pulse to send, 0 … 1.
  package init(leastQuality: Double = Self.leastQuality) { self.leastQuality = leastQuality }

  package static var service: RelayedService { .heartRate }

  package mutating func take(_ sample: RingRawReading, _ give: (RelayedValue) -> Void) {
    stream.take(sample.sample, at: sample.time)
    while let placed = stream.next() {
      stamps.add(placed)
      if meter == nil { begin() }
      _ = meter?.take(placed.signal)
      while let window = meter?.next() { tell(window, knownAt: sample.time, give) }
    }
  }

  private mutating func begin() {
    guard let period = stream.period, refusal == nil else { return }
    do throws(PulseMeter.Refusal) { meter = try PulseRateMeter(rate: 1e9 / period) } catch {
      refusal = "\(error)"
    }
  }

  private mutating func tell(
    _ window: PulseRateWindow, knownAt time: ReceiveTime, _ give: (RelayedValue) -> Void
  ) {
    let measuredAt = stamps.stamp(ofFitted: window.end) ?? window.end
    var measurement = HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected)
    switch window.absence {
    case .noise, .octave, .noAccelerometer, .unsteadyBeats:
      silences += 1
      return
    case .missingSamples, .unsettled, .noSignal, nil: break
    }
    if let pulse = window.pulse {
      guard pulse.quality >= leastQuality else {
        silences += 1
        return
      }
      measurement = HeartRateMeasurement(
        beatsPerMinute: UInt16(pulse.beatsPerMinute.rounded()), contact: .detected)
    }
    give(
      RelayedValue(
        .heartRate(measurement), measuredAt: measuredAt, knownAt: time, quality: window.pulse?.quality))
  }

  package mutating func lost(at time: ReceiveTime) -> RelayedValue? {
    (stream, meter, refusal) = (TickStream(), nil, nil)
    stamps = LightStamps()
    return .noContact(at: time)
  }
}

/// Kernel timestamps of the latest ticks, with their times on the sensor's clock, in fixed memory.
private struct LightStamps: Sendable {
  /// Capacity in ticks. The capacity exceeds the meter's delay at 200 ticks per second.
  private static let capacity = 1 << 12

  private var ticks: [(fitted: Int64, stamp: Int64)] = []
  private var count = 0

  mutating func add(_ placed: PlacedTick) {
    guard let stamp = placed.tick.time(of: .ppg) else { return }
    let entry = (placed.fittedTime.nanoseconds, stamp.nanoseconds)
    if ticks.count < Self.capacity { ticks.append(entry) } else { ticks[count % Self.capacity] = entry }
    count += 1
  }

  /// Returns the kernel timestamp of the last tick in a window that ends at `end`.
  func stamp(ofFitted end: ReceiveTime) -> ReceiveTime? {
    for number in stride(from: count - 1, through: max(0, count - ticks.count), by: -1) {
      let tick = ticks[number % Self.capacity]
      if tick.fitted < end.nanoseconds { return ReceiveTime(nanoseconds: tick.stamp) }
    }
    return nil
  }
}
