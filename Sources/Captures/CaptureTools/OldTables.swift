package import Recording

/// Tables of format 1, as captures without a `formatVersion` have them, still to be read.
///
/// In them 0 is a dropout of a ring's light, the columns of the light bear one name in both tables, and a frame's samples
/// all bear its stamp.
package enum OldTables {
  package static let ring =
    RingStream.allCases.map { RecordedTable(name: $0.name, columns: columns($0)) } + [
      RecordedTable(name: TickRows.table.name, columns: ticks, content: .derived)
    ]

  /// That of a ring's stream.
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

  /// What a column is called now.
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

  /// Those of a Polar sensor: the stamp of the frame, the sensor's time, and the channels.
  package static func polar(named name: String, columnCount: Int) -> [RecordedTable] {
    PolarTables.tables(named: name, channelCount: columnCount - 2).map { table in
      RecordedTable(
        name: name,
        columns: [.time("time_ns"), .time("device_time_ns")] + table.columns.dropFirst(PolarRows.timeCount))
    }
  }
}
