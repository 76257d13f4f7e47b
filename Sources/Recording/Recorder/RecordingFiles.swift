import BLECore
import BLEHost
package import BLELinux
import BLEWire

/// The open files of a recording. After the first failure they take nothing more and count what they miss.
package struct RecordingFiles: ~Copyable {
  private let tables: [TableFile]
  private var index: ColumnIndex?
  private var log: OutputFile
  private let hasLog: Bool
  private var encoder: LinkLogWriter
  private var packetsTaken = 0
  /// Who watches, if anybody does.
  let live: (any RecordingWatcher)?
  private var failure: SystemError?

  /// - Parameters:
  ///   - tableFormat: of the tables.
  ///   - format: of the packet log; `nil` for none.
  ///   - live: gets to see each row.
  package init(
    in directory: String, _ descriptions: [RecordedTable], as tableFormat: TableFormat = .csv,
    log format: CaptureLogFormat?, live: (any RecordingWatcher)? = nil
  ) throws(SystemError) {
    var tables: [TableFile] = []
    for description in descriptions {
      tables.append(try TableFile(description, as: tableFormat, in: directory))
    }
    index = tableFormat == .npy ? try ColumnIndex(creating: directory, tables) : nil
    var encoder = LinkLogWriter(format ?? .btsnoop)
    var log: OutputFile
    if let format {
      log = try OutputFile(creating: directory + "/" + format.fileName)
      try log.append { encoder.start(into: &$0) }
      try log.flush()
      hasLog = true
    } else {
      log = try OutputFile(creating: "/dev/null")
      hasLog = false
    }
    self.tables = tables
    self.live = live
    live?.open(descriptions)
    self.log = log
    self.encoder = encoder
  }

  /// Whether something waits for a flush or for the disk.
  var isPending: Bool {
    guard failure == nil else { return false }
    if log.isPending || log.isUnsynced { return true }
    return tables.contains(where: \.isPending)
  }

  package var hasFailed: Bool { failure != nil }

  /// Octets that the kernel has.
  var writtenByteCount: Int {
    tables.reduce(hasLog ? log.writtenByteCount : 0) { $0 + $1.writtenByteCount }
  }

  package var outcome: Recorder.Outcome {
    var outcome = Recorder.Outcome()
    outcome.rows = tables.map(\.rowsWritten)
    outcome.failure = failure
    if failure != nil {
      for table in tables where table.table.content == .samples {
        outcome.lostSamples += table.rowsTaken - table.rowsWritten
      }
      outcome.lostPackets = hasLog ? packetsTaken - (log.writtenUnits - 1) : 0
    }
    return outcome
  }

  /// Appends a row.
  package mutating func append(_ row: some RecordedRow, to table: Int) {
    tables[table].rowsTaken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      try tables[table].append(row)
      live?.take(row, table)
    } catch { fail(error) }
  }

  /// Tells the columns of a table that was made without, before any row.
  mutating func open(_ table: Int, with columns: [RecordedColumn]) {
    guard failure == nil else { return }
    do throws(SystemError) {
      try tables[table].open(with: columns)
      live?.open(table, with: columns)
      try index?.write(tables, isComplete: false)
    } catch { fail(error) }
  }

  mutating func append(_ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ pdu: Span<UInt8>) {
    packetsTaken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      try log.append { encoder.append(pdu, PacketTap.Tag(tag), time, dropped: dropped, to: &$0) }
      live?.take(pdu)
    } catch { fail(error) }
  }

  package mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) {
      // Not over the tables: unless optimised, each step of that allocates.
      for place in tables.indices { try tables[place].flush() }
      try log.flush()
    } catch { fail(error) }
  }

  package mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) {
      for place in tables.indices { try tables[place].sync() }
      try log.sync()
    } catch { fail(error) }
  }

  /// Nothing more comes: completes the index, if there is one.
  ///
  /// - Parameter rate: rows a second of the table of ticks.
  package mutating func end(rate: Double?) {
    guard index != nil else { return }
    flush()
    do throws(SystemError) { try index?.write(tables, isComplete: true, rate: rate) } catch {
      if failure == nil { fail(error) }
    }
  }

  /// Saves what the other files can still take; a full disk may have room for a small rest.
  private mutating func fail(_ error: SystemError) {
    failure = error
    for table in tables { try? table.flush() }
    try? log.flush()
  }
}
