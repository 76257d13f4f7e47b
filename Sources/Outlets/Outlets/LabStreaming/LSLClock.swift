import BLEWire

/// Converts times of the wall clock, by which samples are stamped, to LSL's clock, which is never set.
///
/// The kernel makes both of one clock, so the distance between them is a constant until somebody sets the wall clock: there is
/// nothing to smooth. It is measured when a recording begins, and again each time that samples leave. A measurement that differs
/// by more than it may be wrong is a step, between this look and the one before. Whether a sample was stamped before or after it
/// is told by its time: by the new distance it lies between that look and now, or it is of before, however late it comes. Where
/// a step is shorter than what lies between two looks, or than a ring's ticks are late, samples around it are off by its length.
struct LSLClock: Sendable {
  /// A look at the wall clock between two at LSL's, in nanoseconds.
  struct Reading: Sendable {
    let before: Int64
    let wall: Int64
    let after: Int64

    init(before: Int64, wall: Int64, after: Int64) {
      (self.before, self.wall, self.after) = (before, wall, after)
    }

    /// The shortest of a few, whose thread nobody interrupted.
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

    /// From LSL's clock to the wall clock.
    fileprivate var offset: TimeSpan { TimeSpan(from: before &+ (after &- before) / 2, to: wall) }
    /// By how much `offset` may be wrong: LSL's clock is a double, too.
    fileprivate var error: Int64 { (after &- before) / 2 &+ 100 }
  }

  /// By how much the time of a sample may lie ahead of now, as a fit has them, in nanoseconds.
  private static let slack: Int64 = 10_000_000

  private var offset: TimeSpan
  private var error: Int64
  private var now: Int64
  /// The offset before the last step, and the last look that still had it.
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

  /// Seconds on LSL's clock.
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
