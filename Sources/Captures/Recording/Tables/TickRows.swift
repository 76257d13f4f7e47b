import BLEWire
package import ColmiRing

/// Produces the rows of the table `samples`: one for each tick by the sensor's own clock, with the kernel's
/// timestamp and the values of each subtype received.
package struct TickRows: Sendable {

  package init() {}
  package static let table = RecordedTable(
    name: "samples",
    columns: [.time("fitted_time_ns")]
      + ["tick", "missing_before", "fit"].map { RecordedColumn($0, .int64) }
      + [RingStream.spO2, .ppg, .accelerometer].flatMap {
        [.time("\($0.name)_time_ns")] + $0.values(.float32(decimals: 0))
      },
    content: .derived)

  /// Number of the current fit, from 1. Each restart of the sensor's clock and each step of the wall clock
  /// begins a new fit.
  private var fit = 1

  /// The row of the next tick.
  mutating func row(_ placed: PlacedTick) -> TickRow {
    if placed.isRestart || placed.isClockSet { fit += 1 }
    return TickRow(placed: placed, fit: fit)
  }

  package mutating func append(_ placed: PlacedTick, to text: inout [UInt8]) {
    row(placed).appendRow(to: &text)
  }
}

/// One tick in the table.
struct TickRow: RecordedRow {
  let placed: PlacedTick
  let fit: Int

  func encode<Output: RowOutput>(into output: inout Output) {
    output.append(placed.fittedTime.nanoseconds)
    output.append(Int64(placed.index))
    output.append(Int64(placed.missingBefore))
    output.append(Int64(fit))
    placed.tick.encode(.spO2, into: &output)
    placed.tick.encode(.ppg, into: &output)
    placed.tick.encode(.accelerometer, into: &output)
  }
}

extension RingTick {
  /// Appends timestamp and values, or empty cells if the part was not received.
  fileprivate func encode<Output: RowOutput>(_ part: Part, into output: inout Output) {
    guard let time = time(of: part), let sample = sample(of: part) else {
      return output.appendMissing(part == .accelerometer ? 7 : 5)
    }
    output.append(time.nanoseconds)
    output.append(sample)
  }

  private func sample(of part: Part) -> RingRawSample? {
    switch part {
    case .spO2: spO2.map { .spO2($0) }
    case .ppg: ppg.map { .ppg($0) }
    case .accelerometer: accelerometer.map { .accelerometer($0) }
    }
  }
}
