import BLEWire

/// Converts wall-clock timestamps of samples to LSL's clock, which is never adjusted.
///
/// The kernel derives both clocks from one source, so their offset is constant until the wall clock is set.
/// The offset is measured when a recording starts and each time samples are pushed. If two measurements
/// differ by more than their error, the wall clock was set in between.
///
/// The timestamp of a sample shows whether the sample was taken before or after the step: after the step, its
/// time by the new offset is between the step and now. If the step is shorter than the time between two
/// readings, or than the delay of a ring's ticks, samples near the step have an error of the step's size.
struct LSLClock: Sendable {
  /// A reading of the wall clock between two readings of LSL's clock, in nanoseconds.
  struct Reading: Sendable {
    let before: Int64
    let wall: Int64
    let after: Int64

    init(before: Int64, wall: Int64, after: Int64) {
      (self.before, self.wall, self.after) = (before, wall, after)
    }

    /// Returns the shortest of a few readings, to reduce the effect of preemption.
    ///
    /// - Parameter lsl: reads LSL's clock.
    static func take(_ lsl: () -> Int64, _ wall: () -> Int64) -> Reading {
      var best = Reading(before: lsl(), wall: wall(), after: lsl())
      for _ in 0..<3 where best.error > 1_000 {
        let next = Reading(before: lsl(), wall: wall(), after: lsl())
        if next.error < best.error { best = next }
      }
      return best
    }

    /// Offset from LSL's clock to the wall clock.
    fileprivate var offset: TimeSpan { TimeSpan(from: before &+ (after &- before) / 2, to: wall) }
    /// Maximum error of `offset`. The error includes the rounding of LSL's clock, which is a double.
    fileprivate var error: Int64 { (after &- before) / 2 &+ 100 }
  }

  /// Maximum time by which a fitted timestamp may be later than now, in nanoseconds.
  private static let slack: Int64 = 10_000_000

  private var offset: TimeSpan
  private var error: Int64
  private var now: Int64
  /// The offset before the last step, and the time of the last reading with this offset.
  private var earlier: (offset: TimeSpan, seenAt: Int64)?

  init(_ reading: Reading) {
    (offset, error, now) = (reading.offset, reading.error, reading.after)
  }

  mutating func take(_ reading: Reading) {
    defer { now = reading.after }
    let isStep = (reading.offset - offset).nanoseconds.magnitude > (error &+ reading.error).magnitude
    if isStep { earlier = (offset, now) }
    guard isStep || reading.error < error else { return }
    (offset, error) = (reading.offset, reading.error)
  }

  /// Converts a timestamp to LSL's clock, in seconds.
  ///
  /// - Parameter wall: nanoseconds since the Unix epoch.
  func time(of wall: Int64) -> Double {
    let time = TimeSpan(nanoseconds: wall) - offset
    guard let earlier, time.nanoseconds < earlier.seenAt || time.nanoseconds > now &+ Self.slack else {
      return time.seconds
    }
    return (TimeSpan(nanoseconds: wall) - earlier.offset).seconds
  }
}
