import BLELinux
import BLEPacketLog
import BLEWire

/// Path, format and rotation of a log.
public struct LogFilePlan: Hashable, Sendable {
  /// Action if the log exists already.
  public enum Existing: Hashable, Sendable { case fail, append }

  /// File format of a log. Link type and opcodes are those of the Linux monitor, regardless of the source.
  public enum Format: Hashable, Sendable {
    /// The format of `btsnoop`'s monitor type (2001), as `btmon -w` writes it. Timestamps have microseconds;
    /// each record has the cumulative drop count.
    case btsnoop
    /// Timestamps have nanoseconds. Each adapter has its own interface and drop count.
    case pcapng
  }

  /// `-` is standard output.
  public var path: String
  public var format = Format.btsnoop
  public var existing = Existing.fail
  /// Maximum size of a file, in bytes. A file exceeds it only if its first record is larger.
  public var rotateByteCount: Int?
  /// Maximum time that one file covers.
  public var rotateTime: Duration?
  /// Maximum number of records in one file.
  public var rotateCount: Int?
  /// Number of files to keep; the oldest is deleted first.
  public var keptFiles: Int?

  public init(path: String) { self.path = path }

  /// Whether the log is split into PATH.1, PATH.2 and so on, the newest last. Otherwise it is the single file
  /// PATH.
  public var isSeries: Bool { rotateByteCount != nil || rotateTime != nil || rotateCount != nil }

  public func path(_ number: Int) -> String { isSeries ? "\(path).\(number)" : path }

  /// Numbers of the existing files of the series, in order.
  func numbersThere() -> [Int] {
    let prefix = Files.name(of: path) + "."
    return Files.names(in: Files.folder(of: path)).compactMap { name in
      guard name.hasPrefix(prefix), let number = Int(name.dropFirst(prefix.count)), number > 0,
        "\(number)" == name.dropFirst(prefix.count)
      else { return nil }
      return number
    }.sorted()
  }
}

/// The files of a recording, one after the other. After the first failure, further records are only counted
/// as lost.
struct LogFiles: ~Copyable {
  private let plan: LogFilePlan
  private var writer: PacketLogWriter
  /// Buffer for one record, or for a file's header or trailer.
  private var unit: [UInt8] = []
  private var file: OutputFile
  /// Numbers of the kept files; the current one is last.
  private var numbers: [Int]
  private var notes = AdapterNotes()
  /// Records in earlier files of this recording that were written to the kernel.
  private var finishedRecords = 0
  /// Records of the current file, including those written before this recording.
  private var fileRecords: Int
  private var fileByteCount: Int
  private var fileBegin: MonotonicTime
  /// Units of the current file that are not records: its header and trailer.
  private var otherUnits = 0
  /// Drops of the recording that the files record.
  private var dropsWritten = 0
  private(set) var taken = 0
  private var finishedByteCount = 0
  /// Offset of this recording's first record in the current file.
  private var firstRecordOffset: Int
  private(set) var failure: SystemError?
  /// `nil` for standard output.
  private let folder: OpenFolder?
  /// Whether the current file was removed, replaced or cut.
  private(set) var isGone = false
  /// Bytes of a torn record that opening the file cut off.
  let tornByteCount: Int

  /// - Throws: `exists`; `foreign` or `damaged` if the file to append to cannot be continued.
  static func open(_ plan: LogFilePlan, now: MonotonicTime) throws(LogFileError) -> LogFiles {
    let numbers = plan.isSeries ? plan.numbersThere() : []
    let isThere = plan.path != "-" && (plan.isSeries ? !numbers.isEmpty : Files.isOccupied(plan.path))
    let path = plan.path(numbers.last ?? 1)
    guard !isThere || plan.existing == .append else { throw .exists(path) }
    let tail = isThere ? try LogTail.of(path, plan.format) : LogTail()
    do throws(SystemError) {
      let folder = plan.path == "-" ? nil : try OpenFolder(Files.folder(of: path))
      let file = try open(path, isThere ? .extend(byteCount: tail.byteCount) : .fail, in: folder)
      var files = LogFiles(plan, folder, file, numbers.isEmpty ? [1] : numbers, tail, now)
      // Appended pcapng data is a section of its own, independent of earlier sections.
      if tail.byteCount == 0 || plan.format == .pcapng { try files.begin() }
      return files
    } catch { throw .system(error) }
  }

  private init(
    _ plan: LogFilePlan, _ folder: OpenFolder?, _ file: consuming OutputFile, _ numbers: [Int],
    _ tail: LogTail, _ now: MonotonicTime
  ) {
    self.plan = plan
    self.folder = folder
    self.file = file
    self.numbers = numbers
    writer = plan.format.writer
    writer.goOn(afterDrops: tail.drops)
    fileRecords = tail.records
    fileByteCount = tail.byteCount
    firstRecordOffset = tail.byteCount
    fileBegin = now
    tornByteCount = tail.tornByteCount
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

  var isPending: Bool { failure == nil && (file.isPending || file.isUnsynced) }
  var isPipe: Bool { plan.path == "-" }
  /// Records of this recording that were written to the kernel.
  var writtenRecords: Int { finishedRecords + (isGone ? 0 : file.writtenUnits - otherUnits) }
  /// Bytes of these records in the files.
  var writtenByteCount: Int {
    finishedByteCount + (isGone ? 0 : max(0, file.writtenByteCount - firstRecordOffset))
  }
  var lost: Int { taken - writtenRecords }
  var paths: [String] { numbers.map { plan.path($0) } }

  /// Appends a record.
  ///
  /// - Parameter drops: total records of this recording that were lost so far.
  mutating func append(
    _ payload: Span<UInt8>, of record: MonitorRecordHeader, drops: Int, now: MonotonicTime
  ) {
    taken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      if isFull(writer.byteCountLimit(packet: payload.count), now) { try rotate(at: record.time, now) }
      if plan.isSeries { notes.take(record, payload) }
      let drops = max(drops, dropsWritten)
      unit.removeAll(keepingCapacity: true)
      writer.append(payload, of: record, drops: UInt32(clamping: drops - dropsWritten), to: &unit)
      try file.append(unit)
      dropsWritten = drops
      fileRecords += 1
      fileByteCount += unit.count
    } catch { failure = error }
  }

  /// Flushes buffered records. Fails if the reader of a pipe has closed it.
  mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) {
      try file.flush()
      if isPipe, file.hasLostItsReader { throw SystemError.brokenPipe(plan.path) }
    } catch { failure = error }
  }

  /// Syncs the file. Fails if the file was removed, replaced or cut.
  mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) { try syncAndLook() } catch { failure = error }
  }

  private mutating func syncAndLook() throws(SystemError) {
    try file.sync()
    isGone = folder.map { file.isGone(from: $0) } ?? false
    if isGone { throw file.goneError }
  }

  /// Writes the current file's trailer.
  mutating func end() {
    guard failure == nil else { return }
    do throws(SystemError) { try endFile() } catch { failure = error }
  }

  private func isFull(_ needed: Int, _ now: MonotonicTime) -> Bool {
    guard fileRecords > 0 else { return false }
    if let limit = plan.rotateByteCount, fileByteCount + needed > limit { return true }
    if let limit = plan.rotateCount, fileRecords >= limit { return true }
    if let limit = plan.rotateTime, fileBegin.advanced(by: limit) <= now { return true }
    return false
  }

  /// Ends the current file and begins the next. Drops after the last record of the old file are recorded in
  /// the new one.
  private mutating func rotate(at time: ReceiveTime, _ now: MonotonicTime) throws(SystemError) {
    try endFile()
    try syncAndLook()
    let number = (numbers.last ?? 0) + 1
    let next = try Self.open(plan.path(number), .fail, in: folder)
    (finishedRecords, finishedByteCount) = (writtenRecords, writtenByteCount)
    file = next
    writer = plan.format.writer
    numbers.append(number)
    (otherUnits, fileRecords, fileByteCount) = (0, 0, 0)
    fileBegin = now
    try begin(at: time)
    while let kept = plan.keptFiles, numbers.count > kept {
      try Files.remove(plan.path(numbers.removeFirst()))
    }
  }

  /// Writes the file's header and, in a further file of a series, the present adapters, as one unit.
  private mutating func begin(at time: ReceiveTime? = nil) throws(SystemError) {
    var (start, writer) = ([UInt8](), writer)
    writer.start(into: &start)
    if let time {
      notes.forEach { record, payload in
        var record = record
        record.time = time
        writer.append(payload, of: record, drops: 0, to: &start)
      }
    }
    self.writer = writer
    try file.append(start)
    try file.flush()
    try file.writeOut(.begun)
    otherUnits = 1
    fileByteCount += start.count
    firstRecordOffset = fileByteCount
  }

  /// Writes the trailer, if the format has one, as one unit.
  private mutating func endFile() throws(SystemError) {
    try file.flush()
    unit.removeAll(keepingCapacity: true)
    writer.finish(into: &unit)
    guard !unit.isEmpty else { return }
    try file.append(unit)
    try file.flush()
    otherUnits += 1
  }
}

extension LogFilePlan.Format {
  fileprivate var writer: PacketLogWriter {
    switch self {
    case .btsnoop: PacketLogWriter(.btsnoop(.monitor))
    case .pcapng: PacketLogWriter(.pcapng(.linuxMonitor))
    }
  }

  /// Name of the format in messages.
  var name: StaticString {
    switch self {
    case .btsnoop: "btsnoop log of the monitor (2001)"
    case .pcapng: "pcapng file"
    }
  }
}
