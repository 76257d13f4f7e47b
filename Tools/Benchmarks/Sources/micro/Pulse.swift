import BLEWire
import Physiology

/// Pulse measurement of a ring's ticks: light and three axes at 50 a second, of a person who runs.
extension Micro {
  static let pulseRate = 50.0
  /// A minute of 140 beats and 160 steps.
  static let minute: [SignalSample] = (0..<3_000).map { index in
    let (beat, step) = (triangle(index * 140), triangle(index * 160))
    return SignalSample(
      index: index, time: ReceiveTime(nanoseconds: Int64(index) * 20_000_000),
      light: 10_000 + 100 * beat + 300 * step,
      acceleration: Acceleration(x: 0.5 * step, y: 0.3 * triangle(index * 80), z: 1 - 0.2 * step))
  }

  /// From −1 to 1 and back in 3,000.
  private static func triangle(_ place: Int) -> Double { abs(Double(place % 3_000) / 750 - 2) - 1 }

  static func tick(_ number: Int) -> SignalSample {
    let sample = minute[number % minute.count]
    return SignalSample(
      index: opaque(number), time: ReceiveTime(nanoseconds: Int64(number) * 20_000_000), light: sample.light,
      acceleration: sample.acceleration)
  }

  static func measureBeats(_ count: Int) throws(PulseMeter.Refusal) -> UInt64 {
    var meter = try PulseMeter(rate: pulseRate)
    var sum: UInt64 = 0
    for number in 0..<count {
      if let window = meter.take(tick(number)) { sum &+= UInt64(window.beats) }
    }
    return sum
  }

  static func trackPulse(_ count: Int) throws(PulseMeter.Refusal) -> UInt64 {
    var tracker = try PulseTracker(rate: pulseRate)
    var sum: UInt64 = 0
    for number in 0..<count {
      tracker.take(tick(number))
      while let window = tracker.next() { sum &+= UInt64(window.pulse?.beatsPerMinute ?? 0) }
    }
    return sum
  }
}
