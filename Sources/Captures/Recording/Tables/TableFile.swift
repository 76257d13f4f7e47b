import BLELinux

/// File or folder of one table. A class, because arrays cannot hold noncopyable values.
final class TableFile {
  /// Description of the table. Its columns are known after `open` at the latest.
  private(set) var table: RecordedTable
  var rowsTaken = 0
  /// Whether the table's file was deleted, moved or truncated. The table then accepts no rows and reports no
  /// rows as written.
  private(set) var isGone = false
  private let format: TableFormat
  private let directory: String
  private var text: OutputFile?
  private var columns: ColumnFiles?

  init(
    _ table: RecordedTable, as format: TableFormat, in folder: OpenFolder, _ directory: String
  ) throws(SystemError) {
    self.table = table
    self.format = format
    self.directory = directory
    if format == .csv {
      text = try OutputFile(creating: table.fileName, in: folder, directory + "/" + table.fileName)
    }
    if !table.columns.isEmpty { try open(in: folder) }
  }

  /// Sets the columns of a table that was created without columns.
  func open(with columns: [RecordedColumn], in folder: OpenFolder) throws(SystemError) {
    table.columns = columns
    try open(in: folder)
  }

  private func open(in folder: OpenFolder) throws(SystemError) {
    switch format {
    case .csv:
      let header = table.header
      try text?.append { $0 += header.utf8 }
      try text?.flush()
      try text?.writeOut(.begun)
    case .npy: columns = try ColumnFiles(table.columns, in: folder, directory + "/" + fileName)
    }
  }

  /// Number of rows written to the kernel. The first unit of a text file is the header.
  var rowsWritten: Int {
    if isGone { return 0 }
    return switch format {
    case .csv: max(0, (text?.writtenUnits ?? 0) - 1)
    case .npy: columns?.writtenRows ?? 0
    }
  }

  /// Number of bytes written to the kernel.
  var writtenByteCount: Int {
    switch format {
    case .csv: text?.writtenByteCount ?? 0
    case .npy: columns?.writtenByteCount ?? 0
    }
  }

  /// First cell of the first column, if the format stores it.
  var firstCell: UInt64? { columns?.firstCell }
  /// Last cell of the first column, if the format stores it.
  var lastCell: UInt64? { columns?.lastCell }

  /// Whether rows are waiting for a flush or sync.
  var isPending: Bool {
    if isGone { return false }
    return switch format {
    case .csv: text?.isPending ?? false || text?.isUnsynced ?? false
    case .npy: columns?.isPending ?? false || columns?.isUnsynced ?? false
    }
  }

  /// Name of the file in the capture's directory.
  var fileName: String { format.fileName(table.name) }

  /// Checks whether the table still exists.
  ///
  /// - Returns: whether it was removed since the last check.
  func hasGone(from folder: OpenFolder) -> Bool {
    guard !isGone else { return false }
    isGone = text?.isGone(from: folder) ?? columns?.isGone(from: folder) ?? false
    return isGone
  }

  /// Whether the table counts as removed because it was truncated.
  var isCut: Bool { text?.isCut ?? columns?.isCut ?? false }

  func append(_ row: some RecordedRow) throws(SystemError) {
    if isGone { return }
    switch format {
    case .csv: try text?.append { row.appendRow(to: &$0) }
    case .npy: try columns?.append(row)
    }
  }

  func flush() throws(SystemError) {
    if isGone { return }
    try text?.flush()
    try columns?.flush()
  }

  func writeOut(_ extent: WritingOut) throws(SystemError) {
    if isGone { return }
    if text?.isUnsynced == true { try text?.writeOut(extent) }
    try columns?.writeOut(extent)
  }

  func sync() throws(SystemError) {
    if isGone { return }
    try text?.sync()
    try columns?.sync()
  }
}
