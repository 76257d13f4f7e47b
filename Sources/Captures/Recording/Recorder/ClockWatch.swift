import BLELinux
public import BLEWire
import ColmiRing

/// A time at which the wall clock was set.
public struct ClockStep: Hashable, Sendable {
  /// When the step was noticed, by the clock after it.
  public let seenAt: ReceiveTime
  /// Size of the step; negative if the clock was set back.
  public let span: TimeSpan
  /// Rows of each table before it, by the table's name; empty if no sample came after it.
  public package(set) var rows: [String: Int] = [:]
  /// Whether it is known how much time really passed there. An imported log does not tell.
  public package(set) var isElapsedKnown = true

  package init(seenAt: ReceiveTime, span: TimeSpan) { (self.seenAt, self.span) = (seenAt, span) }
}

/// Compares the wall clock with the one that is never set, now and then: a clock that is set and set back leaves no mark
/// at the end. And tells of each timestamp which setting of the wall clock made it.
struct ClockWatch: Sendable {
  /// The two clocks at one moment: nanoseconds.
  struct Reading: Sendable {
    var wall: Int64
    var steady: Int64
    /// How far apart the two may have been read.
    var doubt: Int64 = 0

    var offset: Int64 { wall &- steady }

    /// Reads both, once more if this thread was kept from it in between.
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

  /// Less than this is no step, nor what a clock that is slewed makes between two looks: nanoseconds, and a share. The kernel
  /// slews by a tenth at most (adjtimex(2), `tick`).
  static let tolerance: Int64 = 5_000_000
  private static let slew = 0.1
  static let limit = Limit(
    64, "steps of the wall clock in `session.json`", by: .program, whenFull: "further ones are counted",
    counted: "`clockStepCount` in `session.json`")
  /// By how much timestamps and looks may disagree: nanoseconds.
  private static let slack: Int64 = 10_000_000
  /// Nothing that the kernel has stamped takes longer to this thread, unless the machine is overloaded: nanoseconds.
  private static let latency: Int64 = 250_000_000

  /// Steps that no timestamp has shown yet.
  private struct Pending: Sendable {
    var span: Int64 = 0
    /// The looks before and after: nanoseconds by the clock that is never set.
    var from: Int64
    var to: Int64
    /// Of the wall clock before.
    var offset: Int64
    var firstStep: Int
  }

  private var last: Reading
  private(set) var steps: [ClockStep] = []
  private(set) var count = 0
  /// Of the timestamps so far.
  private(set) var setting = ClockSetting()
  private var pending: Pending?
  /// The last timestamp, and how far apart they usually are: nanoseconds.
  private var lastStamp: Int64?
  private var usual = 0.0
  /// When the queue of samples was last empty, by the clock that is never set: nanoseconds.
  private var emptied: Int64

  init(_ reading: Reading) { (last, emptied) = (reading, reading.steady) }

  /// Whether timestamps by another setting may come.
  var isPending: Bool { pending != nil }

  /// Looks at both clocks.
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

  /// Whether a timestamp is worth a look: it does not follow closely on the one before.
  func isApart(_ stamp: Int64) -> Bool {
    guard let lastStamp else { return true }
    return !(0...Self.tolerance).contains(stamp &- lastStamp)
  }

  /// Takes the next timestamp.
  mutating func note(_ stamp: Int64) {
    defer { lastStamp = stamp }
    guard let lastStamp else { return }
    let passed = Double(stamp) - Double(lastStamp)
    // Of a burst only the first counts.
    guard passed > Double(Self.tolerance) else { return }
    usual = usual > 0 ? usual + (min(passed, 4 * usual) - usual) / 8 : passed
  }

  /// The queue of samples was found to be empty at a look.
  mutating func noteEmpty(_ reading: Reading) { emptied = reading.steady }

  /// Finds the first of the timestamps that wait, in order of arrival, that is by the clock as it is now.
  ///
  /// - Returns: its place; `nil` if all are by the clock as it was before.
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
        // Nothing that came after the step was seen can be by the old clock.
        if !fitsOld, old > pending.to + Self.slack { return best ?? place }
        continue
      }
      // By how much it would be off what is usual.
      let passed = Double(stamp &- before)
      let distance = abs(passed - Double(pending.span) - usual)
      let isBetter = !fitsOld || distance < abs(passed - usual)
      if isBetter, distance < bestDistance { (best, bestDistance) = (place, distance) }
    }
    return best
  }

  /// The next timestamp is the first after the steps.
  ///
  /// - Parameter rows: of each table, by name.
  mutating func begin(_ rows: @autoclosure () -> [String: Int]) {
    guard let pending else { return }
    self.pending = nil
    // Before the first timestamp there is nothing to set apart.
    guard lastStamp != nil else { return }
    setting.offset &+= pending.span
    lastStamp = nil
    let rows = rows()
    for place in steps.indices where place >= pending.firstStep { steps[place].rows = rows }
  }
}
