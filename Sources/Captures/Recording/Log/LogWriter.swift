import BLEHost
import BLELinux
import BLEPacketLog
import BLEWire

/// Kind of records in a log's queue. It determines the meaning of a record's tag and bytes.
enum LogRecords: Hashable, Sendable {
  /// Records of the kernel's monitor. The tag contains opcode and adapter. They arrive in order.
  case monitor
  /// HCI packets with their H4 type byte. The tag is the direction.
  case packets
  /// Records of a `PacketTap`.
  case links

  /// Combines opcode and adapter to a tag of `monitor`. No record of the kernel has all bits set.
  static func tag(opcode: UInt16, adapter: UInt16) -> UInt32 { UInt32(adapter) << 16 | UInt32(opcode) }
}

/// Writes a packet log: sorts the records of a queue, encodes them, and starts a new file when the plan
/// requires it.
///
/// Used by one thread, which decides when to flush and sync. After the first failure, records are only
/// counted as lost.
final class LogWriter {
  private let plan: LogFilePlan
  private var encoder: PacketLogWriter
  /// The sorter of the records; `nil` if they arrive in order.
  private let order: PacketOrder?
  /// Receiver of the bytes of each record.
  private let watcher: (any RecordingWatcher)?
  /// Maximum number of records. Later records are ignored.
  private let limit: Int
  private var now: MonotonicTime
  private var file: OutputFile
  /// Numbers of the kept files; the last number is the current file.
  private var numbers: [Int]
  private var notes = AdapterNotes()
  /// Number of this recording's records that were written to the kernel in earlier files.
  private var finishedRecords = 0
  /// Number of records in the current file, including those written before this recording.
  private var fileRecords: Int
  private var fileByteCount: Int
  private var fileBegin: MonotonicTime
  /// Number of header and trailer units in the current file, which are not records.
  private var otherUnits = 0
  /// Number of dropped records stated in the files.
  private var dropsWritten = 0
  private(set) var taken = 0
  private var finishedByteCount = 0
  /// Offset of this recording's first record in the current file.
  private var firstRecordOffset: Int
  private(set) var failure: SystemError?
  /// Folder of the log; `nil` for standard output.
  private let folder: OpenFolder?
  /// Whether the current file was removed, replaced or truncated.
  private(set) var isGone = false
  /// Size in bytes of the incomplete record that was cut off when the file was opened.
  let tornByteCount: Int

  /// Opens the files of a plan.
  ///
  /// - Parameter limit: maximum number of records. Later records are ignored.
  /// - Throws: `exists`; `foreign` or `damaged` if the file to append to cannot be continued.
  static func open(
    _ plan: LogFilePlan, limit: Int = .max, now: MonotonicTime = SystemClock.monotonic()
  ) throws(LogFileError) -> LogWriter {
    let numbers = plan.isSeries ? plan.numbersThere() : []
    let isThere = plan.path != "-" && (plan.isSeries ? !numbers.isEmpty : Files.isOccupied(plan.path))
    let path = plan.path(numbers.last ?? 1)
    guard !isThere || plan.existing == .append else { throw .exists(path) }
    let tail = isThere ? try LogTail.of(path, plan.format) : LogTail()
    do throws(SystemError) {
      let folder = plan.path == "-" ? nil : try OpenFolder(Files.folder(of: path))
      let file = try open(path, isThere ? .extend(byteCount: tail.byteCount) : .fail, in: folder)
      let numbers = numbers.isEmpty ? [1] : numbers
      return try LogWriter(plan, folder, file, numbers, tail, limit: limit, now: now)
    } catch { throw .system(error) }
  }

  /// Creates a writer for one new file.
  ///
  /// - Parameters:
  ///   - file: the new file.
  ///   - folder: the folder that contains the file.
  ///   - format: format of the log.
  ///   - records: kind of records.
  ///   - watcher: receives the bytes of each record.
  convenience init(
    _ file: consuming OutputFile, in folder: OpenFolder, as format: CaptureLogFormat, of records: LogRecords,
    watcher: (any RecordingWatcher)? = nil
  ) throws(SystemError) {
    var plan = LogFilePlan(path: file.path)
    (plan.format, plan.records) = (format, records)
    try self.init(plan, folder, file, [1], LogTail(), watcher: watcher, now: SystemClock.monotonic())
  }

  private init(
    _ plan: LogFilePlan, _ folder: OpenFolder?, _ file: consuming OutputFile, _ numbers: [Int],
    _ tail: LogTail, watcher: (any RecordingWatcher)? = nil, limit: Int = .max, now: MonotonicTime
  ) throws(SystemError) {
    self.plan = plan
    self.folder = folder
    self.file = file
    self.numbers = numbers
    self.watcher = watcher
    self.limit = limit
    order = plan.records == .monitor ? nil : PacketOrder()
    encoder = plan.encoder
    encoder.goOn(afterDrops: tail.drops)
    fileRecords = tail.records
    fileByteCount = tail.byteCount
    firstRecordOffset = tail.byteCount
    fileBegin = now
    self.now = now
    tornByteCount = tail.tornByteCount
    // Data appended to a pcapng file is a separate section, independent of earlier sections.
    if tail.byteCount == 0 || plan.format == .pcapng { try begin() }
  }

  private static func open(
    _ path: String, _ existing: OutputFile.Existing, in folder: OpenFolder?
  ) throws(SystemError) -> OutputFile {
    guard let folder else { return try OutputFile(toStandardOutput: ()) }
    if existing == .fail { return try OutputFile.log(path, in: folder) }
    var file = try OutputFile(creating: path, ifExists: existing)
    file.watch(in: folder)
    return file
  }

  var isPending: Bool { failure == nil && !isGone && (file.isPending || file.isUnsynced) }
  /// Whether the log is written to standard output.
  var isPipe: Bool { folder == nil }
  var path: String { file.path }
  /// Number of this recording's records that were written to the kernel.
  var writtenRecords: Int { finishedRecords + (isGone ? 0 : file.writtenUnits - otherUnits) }
  /// Number of bytes of this recording's records in the files.
  var writtenByteCount: Int {
    finishedByteCount + (isGone ? 0 : max(0, file.writtenByteCount - firstRecordOffset))
  }
  /// Number of bytes of the current file that were written to the kernel.
  var kernelByteCount: Int { file.writtenByteCount }
  var lost: Int { taken - writtenRecords }
  var paths: [String] { numbers.map { plan.path($0) } }

  // MARK: Records

  /// Empties a queue.
  ///
  /// - Parameters:
  ///   - count: maximum number of records to take; ignored if records are sorted, because sorting requires
  ///     all records.
  ///   - dropsBefore: number of records that were lost before the queue.
  func drain(_ queue: PacketQueue, atMost count: Int = .max, dropsBefore: Int = 0, now: MonotonicTime) {
    self.now = now
    guard let order else {
      var rest = count
      while rest > 0, queue.pop({ append($0, $1, dropped: dropsBefore + $2, $3) }) { rest -= 1 }
      return
    }
    while !queue.isEmpty {
      if !order.hasRoom { write(.need) }
      _ = queue.pop { order.take($0, $1, dropped: dropsBefore + $2, $3) }
    }
  }

  /// Whether `limit` records were taken.
  var isFull: Bool { taken == limit }
  /// Whether records are sorted by time.
  var isSorting: Bool { order != nil }
  /// Whether records wait to be sorted.
  var isHolding: Bool { order?.isEmpty == false }

  /// Writes the sorted records that are due.
  func write(_ occasion: PacketOrder.Occasion) {
    order?.write(occasion) { append($0, $1, dropped: $2, $3) }
  }

  /// Appends a record, with the arguments of `PacketQueue.pop`.
  private func append(_ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ bytes: Span<UInt8>) {
    guard taken < limit else { return }
    taken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      if !isGone { try encode(tag, time, dropped: dropped, bytes) }
      watcher?.take(bytes)
    } catch { failure = error }
  }

  private func encode(
    _ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ bytes: Span<UInt8>
  ) throws(SystemError) {
    if plan.isSeries {
      if isFileFull(encoder.byteCountLimit(packet: bytes.count)) { try rotate(at: time) }
      notes.take(MonitorRecordHeader(tag, time), bytes)
    }
    let dropped = max(dropped, dropsWritten)
    let drops = UInt32(clamping: dropped - dropsWritten)
    try file.append { octets in
      let start = octets.count
      encoder.append(bytes, tag, time, as: plan.records, drops: drops, to: &octets)
      fileByteCount += octets.count - start
    }
    dropsWritten = dropped
    fileRecords += 1
  }

  // MARK: The disk

  /// Flushes buffered records. Fails if the reader of a pipe has closed it.
  func flush() {
    guard failure == nil, !isGone else { return }
    do throws(SystemError) {
      try file.flush()
      if isPipe, file.hasLostItsReader { throw SystemError.brokenPipe(plan.path) }
    } catch { failure = error }
  }

  /// Starts or completes writing the flushed records to disk.
  func writeOut(_ extent: WritingOut) {
    guard failure == nil, !isGone, file.isUnsynced else { return }
    do throws(SystemError) { try file.writeOut(extent) } catch { failure = error }
  }

  /// Waits until the flushed records are on disk.
  func sync() {
    guard failure == nil, !isGone else { return }
    do throws(SystemError) { try file.sync() } catch { failure = error }
  }

  /// Checks whether the current file was removed, replaced or truncated.
  ///
  /// - Returns: whether this call is the first to detect it.
  func look() -> Bool {
    guard failure == nil, !isGone, let folder else { return false }
    isGone = file.isGone(from: folder)
    return isGone
  }

  /// Error to report if `isGone`.
  var goneError: SystemError { file.goneError }
  /// Whether the file was truncated, not removed or replaced.
  var isCut: Bool { file.isCut }

  /// Stops after a failure of this log or of another file. Tries to flush the buffered records, because a
  /// full disk may have room for them.
  func stop(_ error: SystemError) {
    failure = failure ?? error
    try? file.flush()
  }

  /// Writes the remaining records, and the trailer of a monitor's log.
  func end() {
    write(.end)
    guard failure == nil, plan.records == .monitor else { return }
    do throws(SystemError) { try endFile() } catch { failure = error }
  }

  // MARK: The files

  private func isFileFull(_ needed: Int) -> Bool {
    guard fileRecords > 0 else { return false }
    if let limit = plan.rotateByteCount, fileByteCount + needed > limit { return true }
    if let limit = plan.rotateCount, fileRecords >= limit { return true }
    if let limit = plan.rotateTime, fileBegin.advanced(by: limit) <= now { return true }
    return false
  }

  /// Ends the current file and starts the next file. Drops after the last record of the old file are recorded
  /// in the new file.
  private func rotate(at time: ReceiveTime) throws(SystemError) {
    try endFile()
    try file.sync()
    if look() { throw goneError }
    let number = (numbers.last ?? 0) + 1
    let next = try Self.open(plan.path(number), .fail, in: folder)
    (finishedRecords, finishedByteCount) = (writtenRecords, writtenByteCount)
    file = next
    encoder = plan.encoder
    numbers.append(number)
    (otherUnits, fileRecords, fileByteCount) = (0, 0, 0)
    fileBegin = now
    try begin(at: time)
    while let kept = plan.keptFiles, numbers.count > kept {
      try Files.remove(plan.path(numbers.removeFirst()))
    }
  }

  /// Writes the file's header as one unit. In the second and later files of a series, the unit also contains
  /// the notes about the current adapters.
  private func begin(at time: ReceiveTime? = nil) throws(SystemError) {
    var start: [UInt8] = []
    encoder.start(into: &start)
    if let time {
      notes.forEach { record, payload in
        var record = record
        record.time = time
        encoder.append(payload, of: record, drops: 0, to: &start)
      }
    }
    try file.append(start)
    try file.flush()
    try file.writeOut(.begun)
    otherUnits = 1
    fileByteCount += start.count
    firstRecordOffset = fileByteCount
  }

  /// Writes the trailer, if the format has one, as one unit.
  private func endFile() throws(SystemError) {
    try file.flush()
    var trailer: [UInt8] = []
    encoder.finish(into: &trailer)
    guard !trailer.isEmpty else { return }
    try file.append(trailer)
    try file.flush()
    otherUnits += 1
  }
}

extension LogFilePlan {
  fileprivate var encoder: PacketLogWriter {
    switch (format, records) {
    case (.btsnoop, .monitor): PacketLogWriter(.btsnoop(.monitor))
    case (.btsnoop, _): PacketLogWriter(.btsnoop(.h4))
    case (.pcapng, .monitor): PacketLogWriter(.pcapng(.linuxMonitor))
    case (.pcapng, _): PacketLogWriter(.pcapng(.h4WithDirection))
    }
  }
}

extension PacketLogWriter {
  /// Appends a record to encoded data.
  fileprivate mutating func append(
    _ bytes: Span<UInt8>, _ tag: UInt32, _ time: ReceiveTime, as records: LogRecords, drops: UInt32,
    to octets: inout [UInt8]
  ) {
    switch records {
    case .monitor:
      append(bytes, of: MonitorRecordHeader(tag, time), drops: drops, to: &octets)
    case .packets:
      append(
        bytes.extracting(1...), type: HCIPacketType(rawValue: bytes[0]),
        direction: HCIDirection(rawValue: UInt8(truncatingIfNeeded: tag)) ?? .controllerToHost, at: time,
        drops: drops, to: &octets)
    case .links:
      let tag = PacketTap.Tag(tag)
      switch tag.content {
      case .attribute:
        append(
          attribute: bytes, handle: tag.handle, direction: tag.direction, at: time, drops: drops, to: &octets)
      case .event:
        append(bytes, type: .event, direction: tag.direction, at: time, drops: drops, to: &octets)
      }
    }
  }
}

extension MonitorRecordHeader {
  fileprivate init(_ tag: UInt32, _ time: ReceiveTime) {
    self.init(
      opcode: UInt16(truncatingIfNeeded: tag), adapter: UInt16(truncatingIfNeeded: tag >> 16), time: time)
  }
}

/// The latest monitor notes about each current adapter. They are repeated at the start of each later file, so
/// that every file of a series can be read separately.
private struct AdapterNotes {
  /// Maximum number of adapters whose notes are kept. By default, the kernel supports at most 16 adapters.
  private static let limit = 64

  private struct Note {
    var record: MonitorRecordHeader
    var payload: [UInt8]
  }

  private var notes: [Note] = []

  mutating func take(_ record: MonitorRecordHeader, _ payload: Span<UInt8>) {
    switch MonitorOpcode(rawValue: record.opcode) {
    case .newIndex, .deleteIndex:
      notes.removeAll { $0.record.adapter == record.adapter }
      guard record.opcode == MonitorOpcode.newIndex.rawValue else { return }
    case .openIndex, .indexInformation:
      notes.removeAll { $0.record.adapter == record.adapter && $0.record.opcode == record.opcode }
    case .closeIndex:
      notes.removeAll {
        $0.record.adapter == record.adapter && $0.record.opcode == MonitorOpcode.openIndex.rawValue
      }
      return
    default: return
    }
    guard notes.count < 3 * Self.limit else { return }
    notes.append(Note(record: record, payload: payload.indices.map { payload[$0] }))
  }

  /// Calls `body` with each note, in order of arrival.
  func forEach(_ body: (MonitorRecordHeader, Span<UInt8>) -> Void) {
    for note in notes {
      let payload = note.payload
      body(note.record, payload.span)
    }
  }
}

/// Result of checking a file to append to.
package struct LogTail: Hashable, Sendable {
  /// Offset of the end of the last complete record; 0 if even the file's header is incomplete.
  package var byteCount = 0
  package var records = 0
  /// Cumulative drop count in the last complete record; 0 for pcapng, where each section has its own count.
  package var drops = 0
  /// Number of bytes after the last complete record.
  package var tornByteCount = 0
}

extension LogTail {
  /// Returns the state of a log's end. Reads the file once, from its start.
  ///
  /// A killed writer leaves an incomplete record. A power failure may leave zeros after the last record that
  /// reached the disk. Both count as torn. Any other malformed record throws `damaged`.
  ///
  /// - Throws: `foreign`, `damaged`, `system`.
  package static func of(_ path: String, _ format: CaptureLogFormat) throws(LogFileError) -> LogTail {
    let expected = format.start
    var reader = PacketLogReader()
    var start: [UInt8] = []
    var (byteCount, contentByteCount) = (0, 0)
    var hasFailed = false
    do throws(SystemError) {
      try Files.read(path) { piece in
        for index in piece.indices.prefix(expected.count - start.count) { start.append(piece[index]) }
        if let last = piece.indices.last(where: { piece[$0] != 0 }) {
          contentByteCount = byteCount + last + 1
        }
        byteCount += piece.count
        do throws(WireError) { if !hasFailed { try reader.read(piece) { _ in } } } catch { hasFailed = true }
        return true
      }
    } catch { throw .system(error) }
    let whole = reader.wholeByteCount
    guard expected.starts(with: start), whole > 0 || !hasFailed else { throw .foreign(path, format) }
    // After the last complete record, only zeros may follow, or the start of the next record and then zeros.
    guard !hasFailed || contentByteCount <= whole + format.headByteCount else {
      throw .damaged(path, offset: whole)
    }
    return LogTail(
      byteCount: whole, records: reader.recordCount,
      drops: format == .btsnoop ? Int(reader.cumulativeDrops) : 0, tornByteCount: byteCount - whole)
  }
}

extension CaptureLogFormat {
  /// Number of bytes at the start of a record that can be on disk while the following bytes are still zero:
  /// 16 in btsnoop (the fields before the timestamp), 0 in pcapng, whose blocks start with their length.
  fileprivate var headByteCount: Int { self == .btsnoop ? 16 : 0 }

  /// First bytes of a monitor's log. They are the same in every log.
  fileprivate var start: [UInt8] {
    switch self {
    case .btsnoop:
      [UInt8](capacity: BTSnoopHeader.byteCount) { BTSnoopHeader(format: .monitor).encode(into: &$0) }
    // The type of a section header is the same in both byte orders.
    case .pcapng: [0x0A, 0x0D, 0x0D, 0x0A]
    }
  }
}
