import BLECore
import ColmiRing

/// What a `TickStream` makes of such a link, against what the ring did.
package struct LinkOutcome: Sendable {
  package private(set) var rows = 0
  /// Rows without all three frames, or with frames of two ticks.
  package private(set) var split = 0
  package private(set) var mixed = 0
  /// Ticks that were told as missing.
  package private(set) var told = 0
  /// Dropped ticks that the numbers of the rows have a place for, within a second; in a stall, within it.
  package private(set) var found = 0
  package private(set) var dropped = 0
  /// Off the ring's: parts per million.
  package private(set) var rateError = 0.0
  /// Fitted times less the ring's own, but for their mean: seconds, root mean square.
  package private(set) var deviation = 0.0
  /// The mean: seconds.
  package private(set) var offset = 0.0
  package private(set) var restarts = 0
  package private(set) var rateUncertainty = 0.0
  /// How many seconds later than sent the last frame came: much, where the link is too slow for the ring.
  package private(set) var overload = 0.0

  package init(_ link: LossyLink) {
    var stream = TickStream()
    var sent: [Int] = []
    var (sum, squares) = (0.0, 0.0)
    var shift = 0
    var outcome = Counts()
    func take(_ placed: PlacedTick) {
      let tick = sent[outcome.rows]
      let all = [
        placed.tick.spO2.map { Int($0.value) }, placed.tick.ppg.map { Int($0.value) },
        placed.tick.accelerometer.map { Int(UInt16(bitPattern: $0.x)) },
      ]
      if all.contains(nil) { outcome.split += 1 }
      if Set(all.compactMap { $0 }).count > 1 { outcome.mixed += 1 }
      outcome.rows += 1
      let error =
        Double(placed.fittedTime.nanoseconds - LossyLink.epoch) / 1e9 - link.sensorTime(of: tick)
      sum += error
      squares += error * error
      shift = placed.index - tick
      outcome.trace.append(shift)
    }
    var lastTick = -1
    overload = link.run { frame in
      if frame.tick != lastTick { sent.append(frame.tick) }
      lastTick = frame.tick
      stream.take(frame.sample, at: frame.time)
      while let placed = stream.next() { if outcome.rows < sent.count { take(placed) } }
    }
    stream.finish()
    while let placed = stream.next() {
      if outcome.rows < sent.count { take(placed) } else { outcome.split += 1 }
    }
    let report = stream.report
    (rows, split, mixed, told) = (report.ticks, outcome.split, outcome.mixed, report.clock.missing)
    dropped = link.ticks - sent.count
    let near = Int(link.rate * (link.hasStalls ? 5 : 1))
    // A dropped tick is found where the numbers before and after it differ by the ring's own count, a second around.
    var before = 0
    for row in 1..<max(1, outcome.trace.count) {
      let gap = sent[row] - sent[row - 1] - 1
      guard gap > 0 else { continue }
      before = outcome.trace[max(0, row - near)]
      let after = outcome.trace[min(outcome.trace.count - 1, row + near)]
      // Numbers keep their distance from the ring's where each gap around has its place.
      if before == after { found += gap }
    }
    let count = Double(max(1, outcome.rows))
    offset = sum / count
    deviation = max(0, squares / count - offset * offset).squareRoot()
    let rate = report.rate ?? 0
    rateError = (rate * (1 + link.slow * 1e-6) / link.rate - 1) * 1e6
    restarts = report.clock.restarts
    rateUncertainty = (report.clock.rateUncertainty ?? 1) * 1e6
  }

  private struct Counts {
    var rows = 0
    var split = 0
    var mixed = 0
    var trace: [Int] = []
  }
}
