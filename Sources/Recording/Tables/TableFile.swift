import BLELinux

/// The file or folder of one table. A class, since arrays hold no noncopyable values.
final class TableFile {
  /// Its columns become known with `open` at the latest.
  private(set) var table: RecordedTable
  var rowsTaken = 0
  private let format: TableFormat
  private let directory: String
  private var text: OutputFile?
  private var columns: ColumnFiles?

  init(_ table: RecordedTable, as format: TableFormat, in directory: String) throws(SystemError) {
    self.table = table
    self.format = format
    self.directory = directory
    if format == .csv { text = try OutputFile(creating: directory + "/" + table.fileName) }
    if !table.columns.isEmpty { try open() }
  }

  /// Tells the columns of a table that was made without.
  func open(with columns: [RecordedColumn]) throws(SystemError) {
    table.columns = columns
    try open()
  }

  private func open() throws(SystemError) {
    switch format {
    case .csv:
      let header = table.header
      try text?.append { $0 += header.utf8 }
      try text?.flush()
    case .npy: columns = try ColumnFiles(table.columns, in: directory + "/" + format.fileName(table.name))
    }
  }

  /// Rows that the kernel has; of text the first unit is the header.
  var rowsWritten: Int {
    switch format {
    case .csv: max(0, (text?.writtenUnits ?? 0) - 1)
    case .npy: columns?.writtenRows ?? 0
    }
  }

  /// Octets that the kernel has.
  var writtenByteCount: Int {
    switch format {
    case .csv: text?.writtenByteCount ?? 0
    case .npy: columns?.writtenByteCount ?? 0
    }
  }

  /// Cells of the first column, where the format keeps them.
  var firstCell: UInt64? { columns?.firstCell }
  var lastCell: UInt64? { columns?.lastCell }

  /// Whether something waits for a flush or for the disk.
  var isPending: Bool {
    switch format {
    case .csv: text?.isPending ?? false || text?.isUnsynced ?? false
    case .npy: columns?.isPending ?? false || columns?.isUnsynced ?? false
    }
  }

  func append(_ row: some RecordedRow) throws(SystemError) {
    switch format {
    case .csv: try text?.append { row.appendRow(to: &$0) }
    case .npy: try columns?.append(row)
    }
  }

  func flush() throws(SystemError) {
    try text?.flush()
    try columns?.flush()
  }

  func sync() throws(SystemError) {
    try text?.sync()
    try columns?.sync()
  }
}
