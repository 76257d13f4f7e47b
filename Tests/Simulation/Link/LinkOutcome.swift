import BLEWire
import ColmiRing

/// Result of a `TickStream` for a simulated link, compared with the ring's actual ticks.
package struct LinkOutcome: Sendable {
  package private(set) var rows = 0
  /// Number of ticks whose received frames are in different rows.
  package private(set) var split = 0
  /// Number of rows with frames of two ticks.
  package private(set) var mixed = 0
  /// Number of rows without all three frames.
  package private(set) var partial = 0
  /// Number of ticks reported as missing, and the reported maximum.
  package private(set) var told = 0
  package private(set) var atMost = 0
  /// Number of dropped ticks for which the row numbers have a gap within a second of the right place, or, in
  /// a stall, within the stall.
  package private(set) var found = 0
  /// Number of ticks without any received frame, between the first and the last received.
  package private(set) var dropped = 0
  /// Error of the ring's rate, in parts per million.
  package private(set) var rateError = 0.0
  /// Root mean square of the differences between fitted times and the ring's own, without their mean, in
  /// seconds.
  package private(set) var deviation = 0.0
  /// Mean of these differences, in seconds.
  package private(set) var offset = 0.0
  /// Reported uncertainty of the offset of all fitted times, in seconds.
  package private(set) var offsetUncertainty = 0.0
  package private(set) var restarts = 0
  /// Reported uncertainty of the rate, in parts per million; infinite if it is not reported.
  package private(set) var rateUncertainty = 0.0
  /// Delay of the last frame, in seconds; large if the link is too slow for the ring.
  package private(set) var overload = 0.0

  /// Whether the link is reported as too slow. No number of missing ticks is reported then.
  package private(set) var isToldTooSlow = false

  /// Whether the reported range includes the ring's rate.
  package var holdsRate: Bool { abs(rateError) <= rateUncertainty }
  /// Whether no missing and no possibly missing ticks are reported although the ring dropped some.
  package var isFalseNone: Bool { atMost == 0 && dropped > 0 }
  /// Whether the reported range includes the smallest delay, within 2 ms.
  package var holdsOffset: Bool {
    offsetUncertainty.isInfinite || offset >= -0.002 && offset <= offsetUncertainty + 0.002
  }
  /// Number of ticks that were reported as missing although the ring did not drop them.
  package var invented: Int { isToldTooSlow ? 0 : max(0, told - dropped) }
  /// Number of dropped ticks that count: all of them if the reported range includes their number, otherwise
  /// those that were located.
  package var counted: Int { holdsMissing ? dropped : found }
  /// Whether the reported range includes the number of dropped ticks.
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

  /// Counts the dropped ticks for which the row numbers a second before and after differ by the ring's own
  /// count.
  private static func found(_ rows: [(tick: Int, index: Int)], near: Int) -> Int {
    var found = 0
    for row in 1..<max(1, rows.count) {
      let gap = rows[row].tick - rows[row - 1].tick - 1
      guard gap > 0 else { continue }
      let (before, after) = (rows[max(0, row - near)], rows[min(rows.count - 1, row + near)])
      // The difference from the ring's numbers is constant if each gap in between has its place.
      if before.index - before.tick == after.index - after.tick { found += gap }
    }
    return found
  }

  private struct Counts {
    let link: LossyLink
    /// Numbers of the ticks with at least one received frame.
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
