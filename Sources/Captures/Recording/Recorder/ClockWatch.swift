import BLELinux
public import BLEWire

/// A time at which the wall clock was set.
public struct ClockStep: Hashable, Sendable {
  /// When it was seen, by the clock as it was set.
  public let seenAt: ReceiveTime
  /// By how much it was set: below zero back.
  public let span: TimeSpan

  package init(seenAt: ReceiveTime, span: TimeSpan) { (self.seenAt, self.span) = (seenAt, span) }
}

/// Compares the wall clock with the one that is never set, now and then: a clock that is set and set back leaves no mark
/// at the end.
struct ClockWatch: Sendable {
  /// What a slewed clock does not reach between two looks: nanoseconds.
  static let tolerance: Int64 = 1_000_000_000
  static let limit = Limit(
    64, "steps of the wall clock in `session.json`", by: .program, whenFull: "further ones are counted",
    counted: "`clockStepCount` in `session.json`")

  private var offset: TimeSpan
  private(set) var steps: [ClockStep] = []
  private(set) var count = 0

  init(_ wall: ReceiveTime, _ monotonic: MonotonicTime) {
    offset = TimeSpan(from: monotonic.nanoseconds, to: wall.nanoseconds)
  }

  /// Looks at both clocks.
  mutating func look(_ wall: ReceiveTime, _ monotonic: MonotonicTime) {
    let now = TimeSpan(from: monotonic.nanoseconds, to: wall.nanoseconds)
    let span = now - offset
    offset = now
    guard span.nanoseconds.magnitude > Self.tolerance.magnitude else { return }
    count += 1
    if steps.count < Self.limit.count { steps.append(ClockStep(seenAt: wall, span: span)) }
  }
}
