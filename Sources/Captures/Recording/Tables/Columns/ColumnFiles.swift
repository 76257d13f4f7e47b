import BLELinux
import BLEWire
import JSONText

/// Table stored as a folder of NumPy arrays, one for each column.
///
/// Rows are buffered in memory of fixed size. A flush writes the cells of each column, then updates the
/// headers; the header of the first column, which contains the time, is updated last. Whenever the program
/// ends, no column has fewer elements than the first column. If the disk accepts only part of a flush, the
/// table is as long as its shortest column.
package struct ColumnFiles: ~Copyable {
  /// Maximum number of words of buffered rows.
  private static let wordLimit = 1 << 13

  private let columns: [RecordedColumn]
  private let arrays: [ArrayFile]
  private let folder: OpenFolder
  private let name: FileName
  private var rows: WordRow
  private var octets: [UInt8] = []
  /// Number of rows written to the kernel.
  private(set) var writtenRows = 0
  /// Number of rows in the headers.
  private var claimedRows = 0
  private var failure: SystemError?
  /// First cell of the first column: the start time of the table.
  private(set) var firstCell: UInt64?
  /// Last cell of the first column: the end time of the table.
  private(set) var lastCell: UInt64?

  /// Creates the folder and its empty arrays.
  ///
  /// - Parameters:
  ///   - columns: columns of the table.
  ///   - directory: folder of the capture.
  ///   - path: path of the new folder for messages.
  init(
    _ columns: [RecordedColumn], in directory: OpenFolder, _ path: String
  ) throws(SystemError) {
    precondition(!columns.isEmpty)
    name = FileName(Files.name(of: path))
    let folder = try directory.folder(name.text)
    var arrays: [ArrayFile] = []
    for column in columns {
      let name = Self.fileName(column)
      arrays.append(try ArrayFile(creating: name, in: folder, path + "/" + name, type: column.kind.type))
    }
    self.folder = folder
    self.columns = columns
    self.arrays = arrays
    rows = WordRow(columns, wordCapacity: Self.wordLimit)
    let rowLimit = Self.wordLimit / columns.count + 1
    octets.reserveCapacity(rowLimit * (columns.map(\.kind.byteCount).max() ?? 0))
  }

  package static func fileName(_ column: RecordedColumn) -> String { column.name + ".npy" }

  var isPending: Bool { !rows.words.isEmpty || claimedRows < writtenRows }
  /// Number of bytes in all arrays, without their headers.
  var writtenByteCount: Int { arrays.reduce(0) { $0 + $1.byteCount } }
  var isUnsynced: Bool {
    for place in arrays.indices where failure == nil && arrays[place].isUnsynced { return true }
    return false
  }

  /// Appends one row.
  ///
  /// - Throws: ENOSPC or similar when the buffer is full and cannot be written. All later calls throw the
  ///   same error.
  mutating func append(_ row: some RecordedRow) throws(SystemError) {
    if let failure { throw failure }
    row.encode(into: &rows)
    rows.endRow()
    if rows.words.count >= Self.wordLimit { try spill() }
  }

  /// Writes all rows and the headers to the kernel.
  mutating func flush() throws(SystemError) {
    if let failure { throw failure }
    try spill()
    do throws(SystemError) { try claim() } catch { try fail(error) }
  }

  /// Writes the elements of all arrays to disk; see `ArrayFile.writeOut`.
  mutating func writeOut(_ extent: WritingOut) throws(SystemError) {
    guard failure == nil else { return }
    do throws(SystemError) { for place in arrays.indices { try arrays[place].writeOut(extent) } } catch {
      failure = error
      throw error
    }
  }

  /// Waits until the written data is on disk. The first column is synced last, so that no other column has
  /// fewer elements.
  mutating func sync() throws(SystemError) {
    guard failure == nil else { return }
    do throws(SystemError) {
      for place in arrays.indices { try arrays[arrays.count - 1 - place].sync() }
    } catch {
      failure = error
      throw error
    }
  }

  /// Returns whether an array was removed or moved away, or the folder was moved out of the capture.
  func isGone(from directory: OpenFolder) -> Bool {
    if !directory.holds(name, folder) { return true }
    // Iterates over indices, because iterating over the arrays allocates on each step in unoptimised builds.
    for place in arrays.indices where arrays[place].isGone(from: folder) { return true }
    return false
  }

  /// Whether an array was truncated.
  var isCut: Bool {
    for place in arrays.indices where arrays[place].isCut { return true }
    return false
  }

  /// Writes the rows to the kernel without counting them in the headers.
  private mutating func spill() throws(SystemError) {
    let count = rows.words.count / columns.count
    guard count > 0 else { return }
    // If writing one column fails, write the other columns anyway. Only rows that are complete in all columns
    // count.
    var refusal: SystemError?
    for place in columns.indices {
      octets.removeAll(keepingCapacity: true)
      gather(place, count)
      do throws(SystemError) { try arrays[place].append(octets.span) } catch { refusal = refusal ?? error }
    }
    if let refusal { try fail(refusal) }
    noteEnds(count)
    writtenRows += count
    rows.removeAll()
  }

  private mutating func claim() throws(SystemError) {
    guard claimedRows < writtenRows else { return }
    for place in arrays.indices { try arrays[arrays.count - 1 - place].claim(writtenRows) }
    claimedRows = writtenRows
  }

  /// Handles an error, and keeps the rows that are complete in all columns.
  private mutating func fail(_ error: SystemError) throws(SystemError) {
    failure = error
    let whole = zip(arrays, columns).map { $0.byteCount / $1.kind.byteCount }.min() ?? 0
    noteEnds(whole - writtenRows)
    writtenRows = whole
    for (array, column) in zip(arrays, columns) { array.cut(to: whole * column.kind.byteCount) }
    // The headers overwrite existing bytes, which is possible on a full disk.
    do throws(SystemError) { try claim() } catch { writtenRows = claimedRows }
    rows.removeAll()
    throw error
  }

  /// Records the first and last cell of the first column.
  ///
  /// - Parameter count: number of buffered rows that were written to the kernel.
  private mutating func noteEnds(_ count: Int) {
    guard count > 0, count * columns.count <= rows.words.count else { return }
    if firstCell == nil { firstCell = rows.words[0] }
    lastCell = rows.words[(count - 1) * columns.count]
  }

  /// Encodes the cells of one column in the format of its array.
  private mutating func gather(_ column: Int, _ count: Int) {
    let (kind, words, stride) = (columns[column].kind, rows.words, columns.count)
    octets.append(addingCapacity: count * kind.byteCount) { output in
      var place = column
      for _ in 0..<count {
        output.append(words[place], kind)
        place += stride
      }
    }
  }
}

extension OutputSpan<UInt8> {
  fileprivate mutating func append(_ cell: UInt64, _ kind: RecordedColumn.Kind) {
    switch kind {
    case .int16, .uint16: append(u16: UInt16(truncatingIfNeeded: cell))
    case .int32: append(u32: UInt32(truncatingIfNeeded: cell))
    case .int64, .float64: append(u64: cell)
    case .float32: append(u32: Float(Double(bitPattern: cell)).bitPattern)
    case .word(let list):
      // UTF-32, padded with zeros.
      var rest = RecordedColumn.Kind.wordLimit
      if cell != TableCell.missing {
        for scalar in list[Int(cell)].unicodeScalars.prefix(rest) {
          append(u32: scalar.value)
          rest -= 1
        }
      }
      append(zeros: 4 * rest)
    }
  }
}

/// The `columns.json` of a recording in arrays: file, type and unit of each table's columns.
///
/// It is written at the start with `rows` set to `null`, because the arrays' headers contain the lengths. At
/// the end, it is replaced by a complete index. On a full disk, the complete index uses the space reserved at
/// the start.
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
  /// - Parameters:
  ///   - tables: tables of the recording.
  ///   - isComplete: whether the recording has ended.
  ///   - rate: rows per second of the table of ticks.
  ///   - folder: folder of the recording.
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
