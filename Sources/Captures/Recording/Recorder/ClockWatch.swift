import BLELinux
public import BLEWire
import ColmiRing

/// Step of the wall clock.
public struct ClockStep: Hashable, Sendable {
  /// Time at which the step was detected, on the wall clock after the step.
  public let seenAt: ReceiveTime
  /// Size of the step; negative if the clock was set back.
  public let span: TimeSpan
  /// Number of rows in each table before the step, by table name; empty if no sample followed the step.
  public package(set) var rows: [String: Int] = [:]
  /// Whether the elapsed time across the step is known. It is unknown in an imported log.
  public package(set) var isElapsedKnown = true

  package init(seenAt: ReceiveTime, span: TimeSpan) { (self.seenAt, self.span) = (seenAt, span) }
}

/// Detects steps of the wall clock, and determines which timestamps were made after them.
///
/// The wall clock is compared with the boot clock repeatedly. A single comparison at the end would miss a
/// clock that was set and later set back.
struct ClockWatch: Sendable {
  /// Both clocks at one moment, in nanoseconds.
  struct Reading: Sendable {
    var wall: Int64
    var steady: Int64
    /// Maximum time between the two readings, in nanoseconds.
    var doubt: Int64 = 0

    var offset: Int64 { wall &- steady }

    /// Reads both clocks. Retries if the thread was preempted between the readings.
    static func now() -> Reading {
      var best = Reading(wall: 0, steady: 0, doubt: .max)
      for _ in 0..<8 where best.doubt > 20_000 {
        let before = SystemClock.sinceBoot().nanoseconds
        let wall = SystemClock.now().nanoseconds
        let after = SystemClock.sinceBoot().nanoseconds
        if after - before < best.doubt {
          best = Reading(wall: wall, steady: before + (after - before) / 2, doubt: after - before)
        }
      }
      return best
    }
  }

  /// Minimum size of a step, in nanoseconds. It increases by `slew` times the elapsed time, because the
  /// kernel slews a clock by at most a tenth (adjtimex(2), `tick`).
  static let tolerance: Int64 = 5_000_000
  private static let slew = 0.1
  static let limit = Limit(
    64, "steps of the wall clock in `session.json`", by: .program, whenFull: "further ones are counted",
    counted: "`clockStepCount` in `session.json`")
  /// Tolerated difference between timestamps and readings, in nanoseconds.
  private static let slack: Int64 = 10_000_000
  /// Maximum delay between the kernel's timestamp and its processing by this thread, in nanoseconds, unless
  /// the machine is overloaded.
  private static let latency: Int64 = 250_000_000

  /// Steps without a later timestamp so far.
  private struct Pending: Sendable {
    var span: Int64 = 0
    /// Time of the last reading before the steps, on the boot clock, in nanoseconds.
    var from: Int64
    /// Time of the first reading after the steps, on the boot clock, in nanoseconds.
    var to: Int64
    /// Offset of the wall clock before the steps, in nanoseconds.
    var offset: Int64
    var firstStep: Int
  }

  private var last: Reading
  private(set) var steps: [ClockStep] = []
  private(set) var count = 0
  /// Setting of the wall clock for the timestamps so far.
  private(set) var setting = ClockSetting()
  private var pending: Pending?
  /// The last timestamp, in nanoseconds.
  private var lastStamp: Int64?
  /// Usual time between timestamps, in nanoseconds.
  private var usual = 0.0
  /// Time at which the sample queue was last empty, on the boot clock, in nanoseconds.
  private var emptied: Int64

  init(_ reading: Reading) { (last, emptied) = (reading, reading.steady) }

  /// Whether the clock was set and no later timestamp was found yet.
  var isPending: Bool { pending != nil }

  /// Compares a reading of both clocks with the previous reading.
  mutating func look(_ reading: Reading) {
    let span = reading.offset &- last.offset
    let elapsed = Double(reading.steady &- last.steady)
    let least =
      Double(Self.tolerance) + Self.slew * max(0, elapsed) + Double(reading.doubt) + Double(last.doubt)
    defer { last = reading }
    guard Double(span.magnitude) > least else { return }
    count += 1
    if pending == nil {
      pending = Pending(
        from: last.steady, to: reading.steady, offset: last.offset, firstStep: steps.count)
    }
    pending?.span &+= span
    pending?.to = reading.steady
    guard steps.count < Self.limit.count else { return }
    steps.append(
      ClockStep(seenAt: ReceiveTime(nanoseconds: reading.wall), span: TimeSpan(nanoseconds: span)))
  }

  /// Returns whether to read the clocks before this timestamp is processed, because it does not closely
  /// follow the previous timestamp.
  func isApart(_ stamp: Int64) -> Bool {
    guard let lastStamp else { return true }
    return !(0...Self.tolerance).contains(stamp &- lastStamp)
  }

  /// Records the next timestamp.
  mutating func note(_ stamp: Int64) {
    defer { lastStamp = stamp }
    guard let lastStamp else { return }
    let passed = Double(stamp) - Double(lastStamp)
    // Only the first timestamp of a burst counts.
    guard passed > Double(Self.tolerance) else { return }
    usual = usual > 0 ? usual + (min(passed, 4 * usual) - usual) / 8 : passed
  }

  /// Records that the sample queue was empty at this reading.
  mutating func noteEmpty(_ reading: Reading) { emptied = reading.steady }

  /// Finds the first queued timestamp that was made after the steps.
  ///
  /// - Parameters:
  ///   - stamps: queued timestamps in order of arrival.
  ///   - now: current time on the boot clock, in nanoseconds.
  /// - Returns: the index of the timestamp; `nil` if all timestamps were made before the steps.
  func firstAfterStep(_ stamps: [Int64], now: Int64) -> Int? {
    guard let pending else { return nil }
    var before = lastStamp
    var (best, bestDistance) = (Int?.none, Double.infinity)
    for place in stamps.indices {
      let stamp = stamps[place]
      defer { before = stamp }
      guard let before else { return place }
      let old = stamp &- pending.offset
      let new = old &- pending.span
      let lastSteady = before &- pending.offset
      let fitsOld =
        old >= lastSteady - Self.slack && old <= pending.to + Self.slack && old >= emptied - Self.latency
      let fitsNew =
        new >= max(lastSteady, pending.from) - Self.slack && new <= now + Self.slack
      guard fitsNew else {
        // A timestamp after the detection of the step cannot use the old setting.
        if !fitsOld, old > pending.to + Self.slack { return best ?? place }
        continue
      }
      // Deviation from the usual interval, if this is the first timestamp after the steps.
      let passed = Double(stamp &- before)
      let distance = abs(passed - Double(pending.span) - usual)
      let isBetter = !fitsOld || distance < abs(passed - usual)
      if isBetter, distance < bestDistance { (best, bestDistance) = (place, distance) }
    }
    return best
  }

  /// Records that the next timestamp is the first one after the steps.
  ///
  /// - Parameter rows: number of rows in each table, by table name.
  mutating func begin(_ rows: @autoclosure () -> [String: Int]) {
    guard let pending else { return }
    self.pending = nil
    // Before the first timestamp, the step has no effect.
    guard lastStamp != nil else { return }
    setting.offset &+= pending.span
    lastStamp = nil
    let rows = rows()
    for place in steps.indices where place >= pending.firstStep { steps[place].rows = rows }
  }
}
