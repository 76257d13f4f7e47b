import BLECore
import BLEHost
import BLEPacketLog
import BLESystem
import BLEWire

/// The open files of a recording. After the first failure they take nothing more and count what they miss.
struct RecordingFiles: ~Copyable {
  /// A class, since arrays hold no noncopyable values.
  private final class Table {
    let content: RecordedTable.Content
    var file: OutputFile
    var rowsTaken = 0
    var hasHeader: Bool

    init(_ table: RecordedTable, in directory: String) throws(SystemError) {
      var file = try OutputFile(creating: directory + "/" + table.fileName)
      hasHeader = !table.header.isEmpty
      if hasHeader {
        try file.append { $0 += table.header.utf8 }
        try file.flush()
      }
      self.file = file
      content = table.content
    }

    /// The file's first unit is its header.
    var rowsWritten: Int { max(0, file.writtenUnits - (hasHeader ? 1 : 0)) }
  }

  private let tables: [Table]
  private var log: OutputFile
  private let hasLog: Bool
  private var encoder: LinkLogWriter
  private var packetsTaken = 0
  private var failure: SystemError?

  /// - Parameter format: of the packet log; `nil` for none.
  init(
    in directory: String, _ descriptions: [RecordedTable], log format: CaptureLogFormat?
  ) throws(SystemError) {
    var tables: [Table] = []
    for description in descriptions { tables.append(try Table(description, in: directory)) }
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
    self.log = log
    self.encoder = encoder
  }

  /// Whether something waits for a flush or for the disk.
  var isPending: Bool {
    guard failure == nil else { return false }
    if log.isPending || log.isUnsynced { return true }
    return tables.contains { $0.file.isPending || $0.file.isUnsynced }
  }

  var hasFailed: Bool { failure != nil }

  var outcome: Recorder.Outcome {
    var outcome = Recorder.Outcome()
    outcome.rows = tables.map(\.rowsWritten)
    outcome.failure = failure
    if failure != nil {
      for table in tables where table.content == .samples {
        outcome.lostSamples += table.rowsTaken - table.rowsWritten
      }
      outcome.lostPackets = hasLog ? packetsTaken - (log.writtenUnits - 1) : 0
    }
    return outcome
  }

  /// Appends a row, its line feed included.
  mutating func append(to table: Int, _ row: (inout [UInt8]) -> Void) {
    tables[table].rowsTaken += 1
    guard failure == nil else { return }
    do throws(SystemError) { try tables[table].file.append(row) } catch { fail(error) }
  }

  /// The first line of a table that was made without, before any row.
  mutating func appendHeader(to table: Int, _ header: (inout [UInt8]) -> Void) {
    tables[table].hasHeader = true
    guard failure == nil else { return }
    do throws(SystemError) { try tables[table].file.append(header) } catch { fail(error) }
  }

  mutating func append(_ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ pdu: Span<UInt8>) {
    packetsTaken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      try log.append { encoder.append(pdu, PacketTap.Tag(tag), time, dropped: dropped, to: &$0) }
    } catch { fail(error) }
  }

  mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) {
      for table in tables.indices { try tables[table].file.flush() }
      try log.flush()
    } catch { fail(error) }
  }

  mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) {
      for table in tables.indices { try tables[table].file.sync() }
      try log.sync()
    } catch { fail(error) }
  }

  /// Saves what the other files can still take; a full disk may have room for a small rest.
  private mutating func fail(_ error: SystemError) {
    failure = error
    for table in tables { try? table.file.flush() }
    try? log.flush()
  }
}
