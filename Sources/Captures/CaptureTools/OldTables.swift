package import Recording

/// Tables of format 1, which captures without a `formatVersion` have and which remain readable.
///
/// In them 0 marks a dropout of a ring's light, both light tables use the same column names, and all samples
/// of a frame have its timestamp.
package enum OldTables {
  package static let ring =
    RingStream.allCases.map { RecordedTable(name: $0.name, columns: columns($0)) } + [
      RecordedTable(name: TickRows.table.name, columns: ticks, content: .derived)
    ]

  /// Columns of the table of a ring's stream.
  package static func columns(_ stream: RingStream) -> [RecordedColumn] {
    stream == .accelerometer ? stream.columns : [.time("time_ns")] + light("", .uint16)
  }

  private static let ticks: [RecordedColumn] =
    TickRows.table.columns.prefix { $0.name != "spo2_time_ns" }
    + [.time("spo2_time_ns")] + light("spo2_", .float32(decimals: 0))
    + [.time("ppg_time_ns")] + light("ppg_", .float32(decimals: 0))
    + TickRows.table.columns.drop { $0.name != "accelerometer_time_ns" }

  private static func light(_ prefix: String, _ kind: RecordedColumn.Kind) -> [RecordedColumn] {
    var columns = ["value", "max", "min", "diff"].map {
      RecordedColumn.counts("\(prefix)\($0)_counts", kind)
    }
    columns[0].zeroIsDropout = true
    return columns
  }

  /// Returns the current name of an old column.
  ///
  /// - Parameter table: the name of the column's table.
  package static func presentName(_ column: RecordedColumn, of table: String) -> String {
    for stream in [RingStream.ppg, .spO2] {
      let prefix = table == stream.name ? "" : stream.name + "_"
      let old = light(prefix, .uint16).map(\.name)
      guard let place = old.firstIndex(of: column.name) else { continue }
      return stream.values(.uint16)[place].name
    }
    return column.name
  }

  /// Tables of a Polar sensor: the timestamp of the frame, the sensor's time, and the channels.
  package static func polar(named name: String, columnCount: Int) -> [RecordedTable] {
    PolarTables.tables(named: name, channelCount: columnCount - 2).map { table in
      RecordedTable(
        name: name,
        columns: [.time("time_ns"), .time("device_time_ns")] + table.columns.dropFirst(PolarRows.timeCount))
    }
  }
}
