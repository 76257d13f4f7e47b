import BLEHost
package import BLELinux
import BLEWire

/// The open files of a recording. After the first failure, rows and packets are only counted as lost.
package struct RecordingFiles: ~Copyable {
  /// A class, so that it can be optional.
  private final class PacketLog {
    var file: OutputFile
    /// See `TableFile`.
    var isGone = false

    init(_ file: consuming OutputFile) { self.file = file }
  }

  private let folder: OpenFolder
  private let tables: [TableFile]
  private var index: ColumnIndex?
  /// `nil` if there is no packet log.
  private let log: PacketLog?
  private var encoder: LinkLogWriter
  private var packetsTaken = 0
  /// Watcher of the recording, if any.
  let live: (any RecordingWatcher)?
  private var failure: SystemError?
  /// Files that were found to be removed, with the time.
  private var gone: [RemovedFile] = []
  /// The removed files that were not reported yet.
  private var news: [RemovedFile] = []

  /// - Parameters:
  ///   - tableFormat: file format of the tables.
  ///   - format: format of the packet log; `nil` for none.
  ///   - live: watcher that receives each row.
  package init(
    in directory: String, _ descriptions: [RecordedTable], as tableFormat: TableFormat = .csv,
    log format: CaptureLogFormat?, live: (any RecordingWatcher)? = nil
  ) throws(SystemError) {
    let folder = try OpenFolder(directory)
    var tables: [TableFile] = []
    for description in descriptions {
      tables.append(try TableFile(description, as: tableFormat, in: folder, directory))
    }
    var encoder = LinkLogWriter(format ?? .btsnoop)
    let log = try Self.log(format, &encoder, in: folder, directory)
    index = tableFormat == .npy ? try ColumnIndex(in: folder, directory, tables) : nil
    (self.folder, self.tables, self.log, self.encoder) = (folder, tables, log, encoder)
    self.live = live
    live?.open(descriptions)
  }

  private static func log(
    _ format: CaptureLogFormat?, _ encoder: inout LinkLogWriter, in folder: OpenFolder, _ directory: String
  ) throws(SystemError) -> PacketLog? {
    guard let format else { return nil }
    var head: [UInt8] = []
    encoder.start(into: &head)
    var log = try OutputFile(creating: format.fileName, in: folder, directory + "/" + format.fileName)
    try log.append(head)
    try log.flush()
    try log.writeOut(.begun)
    return PacketLog(log)
  }

  /// Whether data is waiting for a flush or a sync. Like `flush`, it must not allocate, because it is first
  /// called when a stream pauses.
  var isPending: Bool {
    guard failure == nil else { return false }
    if let log, !log.isGone, log.file.isPending || log.file.isUnsynced { return true }
    for place in tables.indices where tables[place].isPending { return true }
    return false
  }

  /// Number of rows of each sample table, by table name.
  package var rowsOfSamples: [String: Int] {
    var rows: [String: Int] = [:]
    for table in tables where table.table.content == .samples { rows[table.table.name] = table.rowsTaken }
    return rows
  }

  package var hasFailed: Bool { failure != nil }

  /// Bytes written to the kernel.
  var writtenByteCount: Int {
    tables.reduce(log?.file.writtenByteCount ?? 0) { $0 + $1.writtenByteCount }
  }

  package var outcome: Recorder.Outcome {
    var outcome = Recorder.Outcome()
    outcome.rows = tables.map(\.rowsWritten)
    outcome.failure = failure
    for table in tables where table.table.content == .samples && (failure != nil || table.isGone) {
      outcome.lostSamples += table.rowsTaken - table.rowsWritten
    }
    if let log, failure != nil || log.isGone {
      outcome.lostPackets = packetsTaken - (log.isGone ? 0 : log.file.writtenUnits - 1)
    }
    outcome.removed = gone.map { file in
      var file = file
      file.rows = tables.first { $0.fileName == file.name }?.rowsTaken ?? packetsTaken
      return file
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

  /// Sets the columns of a table that was created without any, before its first row.
  mutating func open(_ table: Int, with columns: [RecordedColumn]) {
    guard failure == nil else { return }
    do throws(SystemError) {
      try tables[table].open(with: columns, in: folder)
      live?.open(table, with: columns)
      try index?.write(tables, isComplete: false, in: folder)
    } catch { fail(error) }
  }

  mutating func append(_ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ pdu: Span<UInt8>) {
    packetsTaken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      if let log, !log.isGone {
        try log.file.append { encoder.append(pdu, PacketTap.Tag(tag), time, dropped: dropped, to: &$0) }
      }
      live?.take(pdu)
    } catch { fail(error) }
  }

  package mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) {
      // Not `for table in tables`: in unoptimised builds each step of that allocates.
      for place in tables.indices { try tables[place].flush() }
      if let log, !log.isGone { try log.file.flush() }
    } catch { fail(error) }
  }

  /// Waits until the written data is on disk.
  ///
  /// The bytes of all files are written first. The log is synced next; with it, ext4 commits the lengths of
  /// all files. So no length reaches the disk before the bytes, and no array's header before its length. One
  /// commit suffices for all files.
  package mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) {
      try writeOut(.begun)
      try writeOut(.done)
      if let log, !log.isGone { try log.file.sync() }
      for place in tables.indices { try tables[place].sync() }
    } catch { return fail(error) }
  }

  private func writeOut(_ extent: WritingOut) throws(SystemError) {
    if let log, !log.isGone, log.file.isUnsynced { try log.file.writeOut(extent) }
    for place in tables.indices { try tables[place].writeOut(extent) }
  }

  /// Checks whether files were removed.
  mutating func lookForRemoved() {
    guard failure == nil else { return }
    for place in tables.indices where tables[place].hasGone(from: folder) {
      note(tables[place].fileName, tables[place].isCut ? .cut : .removed)
    }
    if let log, !log.isGone, log.file.isGone(from: folder) {
      log.isGone = true
      note(Files.name(of: log.file.path), log.file.isCut ? .cut : .removed)
    }
  }

  private mutating func note(_ name: String, _ change: RemovedFile.Change) {
    let file = RemovedFile(name: name, change: change, noticedAt: SystemClock.now())
    gone.append(file)
    news.append(file)
  }

  /// Returns the files found to be removed since the last call; `nil` if nothing changed.
  mutating func takeRemoval() -> FileRemoval? {
    if news.isEmpty { return nil }
    defer { news = [] }
    let hasOthers = gone.count < tables.count + (log == nil ? 0 : 1)
    return FileRemoval(files: news, leaves: hasOthers ? .others : .nothing)
  }

  /// Ends the recording: completes the index, if there is one.
  ///
  /// - Parameter rate: rows a second of the table of ticks.
  package mutating func end(rate: Double?) {
    guard index != nil else { return }
    flush()
    // The index states the number of rows, so they must be on disk first.
    sync()
    do throws(SystemError) { try index?.write(tables, isComplete: true, rate: rate, in: folder) } catch {
      if failure == nil { fail(error) }
    }
  }

  /// Flushes the other files after a failure; a full disk may have room for a small remainder.
  private mutating func fail(_ error: SystemError) {
    failure = error
    for table in tables { try? table.flush() }
    try? log?.file.flush()
  }
}
