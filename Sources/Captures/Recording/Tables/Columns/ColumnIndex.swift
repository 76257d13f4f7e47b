import BLELinux
import JSONText

/// The `columns.json` of a recording in arrays: file, type and unit of each table's columns.
///
/// It is written at the start, with `rows` set to `null`; the lengths are in the arrays' headers. At the end,
/// a complete index replaces it; on a full disk, it uses the space reserved at the start.
package struct ColumnIndex: ~Copyable {
  package static let fileName = "columns.json"
  private static let reservedByteCount = 16_384

  private var file: OutputFile

  init(
    in folder: OpenFolder, _ directory: String, _ tables: [TableFile]
  ) throws(SystemError) {
    var file = try OutputFile(creating: Self.fileName, in: folder, directory + "/" + Self.fileName)
    let octets = Self.text(tables, isComplete: false, nil)
    try file.replace(with: octets.span)
    try file.writeOut(.begun)
    self.file = file
  }

  /// Replaces the contents.
  ///
  /// - Parameter rate: rows per second of the table of ticks.
  mutating func write(
    _ tables: [TableFile], isComplete: Bool, rate: Double? = nil, in folder: OpenFolder
  ) throws(SystemError) {
    let octets = Self.text(tables, isComplete: isComplete, rate)
    try file.replace(with: octets.span, in: folder)
  }

  private static func text(_ tables: [TableFile], isComplete: Bool, _ rate: Double?) -> [UInt8] {
    var line = JSONLine()
    line.object { line in
      line.member("format", "ringtap-columns-2")
      line.member("complete", isComplete)
      line.member("timeBase", "nanoseconds since 1970-01-01T00:00:00Z, without leap seconds")
      line.member("missingInteger", "\(Int64.min)")
      line.member("tables") { line in
        for table in tables where !table.table.columns.isEmpty {
          line.member(table.table.name) { line in
            encode(table, isComplete, table.table.content == .derived ? rate : nil, into: &line)
          }
        }
      }
    }
    line.endLine()
    var octets = line.octets
    // White space before the final line feed keeps the JSON valid.
    let missing = isComplete ? 0 : max(0, reservedByteCount - octets.count)
    octets.insert(contentsOf: [UInt8](repeating: UInt8(ascii: " "), count: missing), at: octets.count - 1)
    return octets
  }

  private static func encode(
    _ table: TableFile, _ isComplete: Bool, _ rate: Double?, into line: inout JSONLine
  ) {
    line.key("rows")
    if isComplete { line.value(table.rowsWritten) } else { line.null() }
    if let rate { line.member("rateHz", rate) }
    if let cell = table.firstCell { line.member("startNs", nanoseconds: Int64(bitPattern: cell)) }
    if let cell = table.lastCell { line.member("endNs", nanoseconds: Int64(bitPattern: cell)) }
    line.member(
      "columns",
      array: { line in
        for column in table.table.columns {
          line.object { line in
            line.member("name", column.name)
            line.member("file", table.table.name + "/" + ColumnFiles.fileName(column))
            line.member("dtype", column.kind.type)
            if !column.unit.isEmpty { line.member("unit", column.unit) }
            line.member("missing", column.kind.missingName)
          }
        }
      })
  }
}

extension RecordedColumn.Kind {
  /// Representation of a missing value.
  fileprivate var missingName: String {
    switch self {
    case .int16, .uint16, .int32: "never"
    case .int64: "-9223372036854775808"
    case .float32, .float64: "nan"
    case .word: "empty"
    }
  }
}
