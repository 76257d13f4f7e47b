import BLECore
import BLESensors

/// The rows of `samples.csv`: one for each tick, on the sensor's own clock, with the kernel's stamp and the values of each
/// subtype that came.
struct TickRows: Sendable {
  static let table = RecordedTable(
    name: "samples",
    header: "fitted_time_ns,tick,missing_before,fit,"
      + "spo2_time_ns,spo2_value_counts,spo2_max_counts,spo2_min_counts,spo2_diff_counts,"
      + "ppg_time_ns,ppg_value_counts,ppg_max_counts,ppg_min_counts,ppg_diff_counts,"
      + "accelerometer_time_ns,x_counts,y_counts,z_counts,x_g,y_g,z_g\n",
    content: .derived)

  /// Counts from 1; each restart of the clock begins another.
  private var fit = 1

  mutating func append(_ placed: PlacedTick, to text: inout [UInt8]) {
    if placed.isRestart { fit += 1 }
    text.append(decimal: placed.fittedTime.nanoseconds)
    text.appendColumn(Int64(placed.index))
    text.appendColumn(Int64(placed.missingBefore))
    text.appendColumn(Int64(fit))
    placed.tick.appendColumns(of: .spO2, to: &text)
    placed.tick.appendColumns(of: .ppg, to: &text)
    placed.tick.appendColumns(of: .accelerometer, to: &text)
    text.append(UInt8(ascii: "\n"))
  }
}

extension RingTick {
  /// Stamp and values; empty where it did not come.
  fileprivate func appendColumns(of part: Part, to text: inout [UInt8]) {
    guard let time = time(of: part), let sample = sample(of: part) else {
      let columns = part == .accelerometer ? 7 : 5
      for _ in 0..<columns { text.append(UInt8(ascii: ",")) }
      return
    }
    text.appendColumn(time.nanoseconds)
    text.appendColumns(sample)
  }

  private func sample(of part: Part) -> RingRawSample? {
    switch part {
    case .spO2: spO2.map { .spO2($0) }
    case .ppg: ppg.map { .ppg($0) }
    case .accelerometer: accelerometer.map { .accelerometer($0) }
    }
  }
}
