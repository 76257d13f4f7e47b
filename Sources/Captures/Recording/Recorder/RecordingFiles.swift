import BLEHost
package import BLELinux
import BLEWire

/// Open files of a recording. After the first failure, rows and packets are only counted as lost.
package struct RecordingFiles: ~Copyable {
  private let folder: OpenFolder
  private let tables: [TableFile]
  private var index: ColumnIndex?
  /// Packet log; `nil` for a recording without packet log.
  private let log: LogWriter?
  /// Watcher of the recording; `nil` for no watcher.
  let live: (any RecordingWatcher)?
  private var failure: SystemError?
  /// Files that were removed, with the time of detection.
  private var gone: [RemovedFile] = []
  /// Removed files that were not reported yet.
  private var news: [RemovedFile] = []

  /// Creates the files.
  ///
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
    let log = try Self.log(format, in: folder, directory, live)
    index = tableFormat == .npy ? try ColumnIndex(in: folder, directory, tables) : nil
    (self.folder, self.tables, self.log) = (folder, tables, log)
    self.live = live
    live?.open(descriptions)
  }

  private static func log(
    _ format: CaptureLogFormat?, in folder: OpenFolder, _ directory: String, _ live: (any RecordingWatcher)?
  ) throws(SystemError) -> LogWriter? {
    guard let format else { return nil }
    let file = try OutputFile(creating: format.fileName, in: folder, directory + "/" + format.fileName)
    return try LogWriter(file, in: folder, as: format, of: .links, watcher: live)
  }

  /// Whether data is waiting for a flush or sync. This must not allocate, because it is first called when a
  /// stream pauses.
  var isPending: Bool {
    guard failure == nil else { return false }
    if let log, log.isPending || log.isHolding { return true }
    for place in tables.indices where tables[place].isPending { return true }
    return false
  }

  /// Number of rows in each sample table, by table name.
  package var rowsOfSamples: [String: Int] {
    var rows: [String: Int] = [:]
    for table in tables where table.table.content == .samples { rows[table.table.name] = table.rowsTaken }
    return rows
  }

  package var hasFailed: Bool { failure != nil }

  /// Number of bytes written to the kernel.
  var writtenByteCount: Int {
    tables.reduce(log?.kernelByteCount ?? 0) { $0 + $1.writtenByteCount }
  }

  package var outcome: Recorder.Outcome {
    var outcome = Recorder.Outcome()
    outcome.rows = tables.map(\.rowsWritten)
    outcome.failure = failure
    for table in tables where table.table.content == .samples && (failure != nil || table.isGone) {
      outcome.lostSamples += table.rowsTaken - table.rowsWritten
    }
    if let log, failure != nil || log.isGone { outcome.lostPackets = log.lost }
    outcome.removed = gone.map { file in
      var file = file
      file.rows = tables.first { $0.fileName == file.name }?.rowsTaken ?? log?.taken ?? 0
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

  /// Sets the columns of a table that was created without columns. Call this before its first row.
  mutating func open(_ table: Int, with columns: [RecordedColumn]) {
    guard failure == nil else { return }
    do throws(SystemError) {
      try tables[table].open(with: columns, in: folder)
      live?.open(table, with: columns)
      try index?.write(tables, isComplete: false, in: folder)
    } catch { fail(error) }
  }

  /// Empties the queue of the packet log.
  mutating func drain(_ packets: PacketQueue, now: MonotonicTime) {
    log?.drain(packets, now: now)
    noteLogFailure()
  }

  /// Writes the due packets to the packet log.
  mutating func writePackets(_ occasion: PacketOrder.Occasion) {
    log?.write(occasion)
    noteLogFailure()
  }

  package mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) {
      // Iterates over indices, because `for table in tables` allocates on each step in unoptimised builds.
      for place in tables.indices { try tables[place].flush() }
    } catch { return fail(error) }
    log?.flush()
    noteLogFailure()
  }

  /// Waits until the written data is on disk.
  ///
  /// First, the bytes of all files are written. Then the log is synced, which makes ext4 commit the lengths
  /// of all files. No length therefore reaches the disk before the bytes, and no array's header before its
  /// length. One commit is sufficient for all files.
  package mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) {
      try writeOut(.begun)
      try writeOut(.done)
      log?.sync()
      if let error = log?.failure { throw error }
      for place in tables.indices { try tables[place].sync() }
    } catch { return fail(error) }
  }

  private func writeOut(_ extent: WritingOut) throws(SystemError) {
    log?.writeOut(extent)
    if let error = log?.failure { throw error }
    for place in tables.indices { try tables[place].writeOut(extent) }
  }

  /// Checks whether files were removed.
  mutating func lookForRemoved() {
    guard failure == nil else { return }
    for place in tables.indices where tables[place].hasGone(from: folder) {
      note(tables[place].fileName, tables[place].isCut ? .cut : .removed)
    }
    if let log, log.look() { note(Files.name(of: log.path), log.isCut ? .cut : .removed) }
  }

  private mutating func note(_ name: String, _ change: RemovedFile.Change) {
    let file = RemovedFile(name: name, change: change, noticedAt: SystemClock.now())
    gone.append(file)
    news.append(file)
  }

  /// Returns the files whose removal was detected since the last call; `nil` if nothing changed.
  mutating func takeRemoval() -> FileRemoval? {
    if news.isEmpty { return nil }
    defer { news = [] }
    let hasOthers = gone.count < tables.count + (log == nil ? 0 : 1)
    return FileRemoval(files: news, leaves: hasOthers ? .others : .nothing)
  }

  /// Ends the recording, and completes the index of a recording in arrays.
  ///
  /// - Parameter rate: rows per second of the table of ticks.
  package mutating func end(rate: Double?) {
    guard index != nil else { return }
    flush()
    // The index contains the number of rows, so the rows must be on disk first.
    sync()
    do throws(SystemError) { try index?.write(tables, isComplete: true, rate: rate, in: folder) } catch {
      if failure == nil { fail(error) }
    }
  }

  /// Flushes the other files after a failure. A full disk may have room for their last rows.
  private mutating func fail(_ error: SystemError) {
    failure = error
    for table in tables { try? table.flush() }
    log?.stop(error)
  }

  private mutating func noteLogFailure() {
    if failure == nil, let error = log?.failure { fail(error) }
  }
}
