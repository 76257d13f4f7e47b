import BLEWire
import ColmiRing

/// What a `TickStream` makes of such a link, against what the ring did.
package struct LinkOutcome: Sendable {
  package private(set) var rows = 0
  /// Ticks whose frames, as far as they came, are in more than one row.
  package private(set) var split = 0
  /// Rows with frames of two ticks.
  package private(set) var mixed = 0
  /// Rows without all three frames.
  package private(set) var partial = 0
  /// Ticks that were told as missing, and how many may be.
  package private(set) var told = 0
  package private(set) var atMost = 0
  /// Dropped ticks that the numbers of the rows have a place for, within a second; in a stall, within it.
  package private(set) var found = 0
  /// Ticks of which no frame came, between the first and the last that came.
  package private(set) var dropped = 0
  /// Off the ring's: parts per million.
  package private(set) var rateError = 0.0
  /// Fitted times less the ring's own, but for their mean: seconds, root mean square.
  package private(set) var deviation = 0.0
  /// The mean: seconds.
  package private(set) var offset = 0.0
  /// By how much all fitted times may be late, as told: seconds.
  package private(set) var offsetUncertainty = 0.0
  package private(set) var restarts = 0
  /// Parts per million; infinite where the report has none.
  package private(set) var rateUncertainty = 0.0
  /// How many seconds later than sent the last frame came: much, where the link is too slow for the ring.
  package private(set) var overload = 0.0

  /// Whether the link is told to be too slow: then no number of missing ticks is told.
  package private(set) var isToldTooSlow = false

  /// Whether the ring's rate is in the range that was told.
  package var holdsRate: Bool { abs(rateError) <= rateUncertainty }
  /// Whether no tick is told as missing and none as what may be, though the ring dropped some.
  package var isFalseNone: Bool { atMost == 0 && dropped > 0 }
  /// Whether the smallest delay is in the range that was told, within 2 ms.
  package var holdsOffset: Bool {
    offsetUncertainty.isInfinite || offset >= -0.002 && offset <= offsetUncertainty + 0.002
  }
  /// Ticks that were told as missing and that the ring did not drop.
  package var invented: Int { isToldTooSlow ? 0 : max(0, told - dropped) }
  /// Dropped ticks that were found, or counted: the number that the ring dropped is in the range that was told.
  package var counted: Int { holdsMissing ? dropped : found }
  /// Whether the number of dropped ticks is in the range that was told.
  package var holdsMissing: Bool { isToldTooSlow || told <= dropped && dropped <= atMost }

  package init(_ link: LossyLink) {
    var stream = TickStream()
    var counts = Counts(link)
    overload = link.run { frame in
      if frame.tick != counts.sent.last { counts.sent.append(frame.tick) }
      stream.take(frame.sample, at: frame.time, link: frame.link)
      while let placed = stream.next() { counts.take(placed) }
    }
    stream.finish()
    while let placed = stream.next() { counts.take(placed) }
    let report = stream.report
    (rows, mixed, partial) = (report.ticks, counts.mixed, counts.partial)
    split = counts.rows.count - Set(counts.rows.map(\.tick)).count
    (told, atMost) = (report.clock.missing, report.clock.missingAtMost ?? .max)
    isToldTooSlow = report.clock.isLinkTooSlow
    let sent = counts.sent
    dropped = (sent.last ?? 0) - (sent.first ?? 0) + 1 - Set(sent).count
    found = Self.found(counts.rows, near: Int(link.rate * (link.hasStalls ? 5 : 1)))
    let count = Double(max(1, counts.rows.count))
    offset = counts.sum / count
    deviation = max(0, counts.squares / count - offset * offset).squareRoot()
    rateError = ((report.rate ?? 0) / link.trueRate - 1) * 1e6
    restarts = report.clock.restarts
    rateUncertainty = (report.clock.rateUncertainty ?? .infinity) * 1e6
    offsetUncertainty = (report.clock.offsetUncertainty ?? .infinity) / 1e9
  }

  /// A dropped tick is found where the numbers before and after it differ by the ring's own count, a second around.
  private static func found(_ rows: [(tick: Int, index: Int)], near: Int) -> Int {
    var found = 0
    for row in 1..<max(1, rows.count) {
      let gap = rows[row].tick - rows[row - 1].tick - 1
      guard gap > 0 else { continue }
      let (before, after) = (rows[max(0, row - near)], rows[min(rows.count - 1, row + near)])
      // Numbers keep their distance from the ring's where each gap around has its place.
      if before.index - before.tick == after.index - after.tick { found += gap }
    }
    return found
  }

  private struct Counts {
    let link: LossyLink
    /// Of each tick of which a frame came.
    var sent: [Int] = []
    var rows: [(tick: Int, index: Int)] = []
    var mixed = 0
    var partial = 0
    var sum = 0.0
    var squares = 0.0

    init(_ link: LossyLink) { self.link = link }

    mutating func take(_ placed: PlacedTick) {
      let all = [
        placed.tick.spO2.map { Int($0.value) }, placed.tick.ppg.map { Int($0.value) },
        placed.tick.accelerometer.map { Int(UInt16(bitPattern: $0.x)) },
      ]
      if all.contains(nil) { partial += 1 }
      if Set(all.compactMap { $0 }).count > 1 { mixed += 1 }
      guard let tick = all.compactMap({ $0 }).first else { return }
      rows.append((tick, placed.index))
      let error = Double(placed.fittedTime.nanoseconds - LossyLink.epoch) / 1e9 - link.sensorTime(of: tick)
      sum += error
      squares += error * error
    }
  }
}
