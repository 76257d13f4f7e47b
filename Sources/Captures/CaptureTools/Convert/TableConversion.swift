import BLELinux
import BLEWire
import JSONText
import Recording

/// Writes the tables of a capture row by row: as text, as arrays, or with one line per row.
enum TableConversion {
  /// Writes a directory that is a capture itself. `session.json` is included, but not the packet log.
  static func run(
    _ capture: RecordedCapture, to folder: String, _ format: TableFormat, _ report: inout ConversionReport,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) {
    do throws(SystemError) {
      try Files.createDirectory(folder)
      var files = try RecordingFiles(in: folder, capture.tables, as: format, log: nil)
      for (place, table) in capture.tables.enumerated() {
        try forEachRow(capture, table, &report, progress) { row throws(SystemError) in
          files.append(row, to: place)
          if files.hasFailed, let failure = files.outcome.failure { throw failure }
        }
      }
      files.end(rate: capture.tickRate)
      files.flush()
      files.sync()
      let outcome = files.outcome
      for (place, rows) in outcome.rows.enumerated() { report.tables[place].rows = rows }
      if let failure = outcome.failure { throw failure }
      if let file = outcome.removed.first { throw .removed(folder + "/" + file.name) }
      try copySession(capture, to: folder, format)
    } catch { throw .output(error) }
  }

  /// Writes a line for each row, table after table. The line is a JSON object with `table` and the columns by
  /// name, or InfluxDB's line protocol (`LineProtocol`).
  static func writeLines(
    _ capture: RecordedCapture, to path: String, _ report: inout ConversionReport,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) {
    do throws(SystemError) {
      var file =
        try path == "-" ? OutputFile(toStandardOutput: ()) : OutputFile(creating: path, ifExists: .refuse)
      var line = JSONLine()
      for table in capture.tables {
        var points = LineProtocol(
          table.name, table.columns, device: capture.session?["device"]?["address"]?.text)
        let isInflux = report.format == .influx
        try forEachRow(capture, table, &report, progress) { row throws(SystemError) in
          if isInflux { return try file.append { points.append(row.words, to: &$0) } }
          line.removeAll()
          encode(row, table, into: &line)
          try file.append { $0 += line.octets }
        }
        if points.empty > 0 {
          report.leftOut.append(
            "\(table.name): \(counted(points.empty, "row without a value is", "rows without a value are")) left out: the line protocol cannot "
              + "store them")
        }
      }
      try file.finish()
    } catch { throw .output(error) }
  }

  private static func encode(_ row: WordCells, _ table: RecordedTable, into line: inout JSONLine) {
    line.object { line in
      line.member("table", table.name)
      line.members(row.columns, row.words)
    }
    line.endLine()
  }

  private static func forEachRow(
    _ capture: RecordedCapture, _ table: RecordedTable, _ report: inout ConversionReport,
    _ progress: (ConversionProgress) -> Void, _ body: (WordCells) throws(SystemError) -> Void
  ) throws(SystemError) {
    let reader = try capture.reader(table)
    while reader.next() {
      try body(WordCells(columns: table.columns, words: reader.words))
      if reader.rows.isMultiple(of: 65_536) { progress(ConversionProgress(table.name, reader.rows)) }
    }
    report.tables.append(ConversionReport.Table(name: table.name, rows: reader.rows))
    if let problem = reader.problem { report.problems.append(problem) }
  }

  /// Copies `session.json` with the new file names of the tables.
  private static func copySession(
    _ capture: RecordedCapture, to folder: String, _ format: TableFormat
  ) throws(SystemError) {
    guard capture.session != nil else { return }
    var text = String(
      decoding: try Files.octets(of: capture.directory + "/session.json", limit: 1 << 24), as: UTF8.self)
    for table in capture.tables {
      text = text.replacing(
        #""file":"\#(capture.format.fileName(table.name))""#, #""file":"\#(format.fileName(table.name))""#)
    }
    let octets = Array(text.utf8)
    try Files.replace(folder + "/session.json", with: octets.span)
  }
}

extension String {
  /// Returns the text with all occurrences of `old` replaced by `new`.
  fileprivate func replacing(_ old: String, _ new: String) -> String {
    let (octets, pattern) = (Array(utf8), Array(old.utf8))
    var result: [UInt8] = []
    var place = 0
    while place < octets.count {
      if octets[place...].starts(with: pattern) {
        result += new.utf8
        place += pattern.count
      } else {
        result.append(octets[place])
        place += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }
}
