import BLECore
import BLEPacketLog
import BLESystem

/// Where a log goes, and when another file is begun.
public struct LogFilePlan: Hashable, Sendable {
  /// What to do with a log that is there already.
  public enum Existing: Hashable, Sendable { case fail, append }

  /// `-` is standard output.
  public var path: String
  public var existing = Existing.fail
  /// A file is never larger than this, unless by its first record. In octets.
  public var rotateByteCount: Int?
  /// How long records go into one file.
  public var rotateTime: Duration?
  /// Records in one file.
  public var rotateCount: Int?
  /// How many files are kept; the oldest goes.
  public var keptFiles: Int?

  public init(path: String) { self.path = path }

  /// Then the files are PATH.1, PATH.2 and so on, the newest last; else there is one, PATH.
  public var isSeries: Bool { rotateByteCount != nil || rotateTime != nil || rotateCount != nil }

  public func path(_ number: Int) -> String { isSeries ? "\(path).\(number)" : path }

  /// Numbers of the series' files that are there, in order.
  func numbersThere() -> [Int] {
    let slash = path.lastIndex(of: "/")
    let folder = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let prefix = (slash.map { String(path[path.index(after: $0)...]) } ?? path) + "."
    return Files.names(in: folder).compactMap { name in
      guard name.hasPrefix(prefix), let number = Int(name.dropFirst(prefix.count)), number > 0,
        "\(number)" == name.dropFirst(prefix.count)
      else { return nil }
      return number
    }.sorted()
  }
}

/// The files of a recording, one after the other. After the first failure they take nothing more and count what they
/// miss.
struct LogFiles: ~Copyable {
  private let plan: LogFilePlan
  private let format: any MonitorLogFormat
  private var file: OutputFile
  /// Numbers of the files that are kept, the current one last.
  private var numbers: [Int]
  private var notes = AdapterNotes()
  /// Records in earlier files of this recording that the kernel has.
  private var finishedRecords = 0
  /// Records of the current file, those that were there before included.
  private var fileRecords: Int
  private var fileByteCount: Int
  private var fileBegin: MonotonicTime
  /// 1 where the current file's header is a unit of ours.
  private var headerUnits: Int
  /// Added to the drops of the recording, it gives those of the current file.
  private var dropsOffset: Int
  private var dropsWritten = 0
  private(set) var taken = 0
  private var finishedByteCount = 0
  /// Where the current file's records of this recording begin.
  private var firstRecordOffset: Int
  private(set) var failure: SystemError?
  /// What a repair cut off.
  let tornByteCount: Int

  /// - Throws: `exists`; `foreign` and `damaged` of what is to be continued.
  static func open(
    _ plan: LogFilePlan, _ format: any MonitorLogFormat, now: MonotonicTime
  ) throws(LogFileError) -> LogFiles {
    let numbers = plan.isSeries ? plan.numbersThere() : []
    let isThere = plan.path != "-" && (plan.isSeries ? !numbers.isEmpty : Files.exists(plan.path))
    let path = plan.path(numbers.last ?? 1)
    guard !isThere || plan.existing == .append else { throw .exists(path) }
    let tail = isThere ? try format.tail(of: path) : LogTail()
    do throws(SystemError) {
      let file = try open(path, isThere ? .extend(byteCount: tail.byteCount) : .fail)
      var files = LogFiles(plan, format, file, numbers.isEmpty ? [1] : numbers, tail, now)
      if tail.byteCount == 0 { try files.begin() }
      return files
    } catch { throw .system(error) }
  }

  private init(
    _ plan: LogFilePlan, _ format: any MonitorLogFormat, _ file: consuming OutputFile, _ numbers: [Int],
    _ tail: LogTail, _ now: MonotonicTime
  ) {
    self.plan = plan
    self.format = format
    self.file = file
    self.numbers = numbers
    fileRecords = tail.records
    fileByteCount = tail.byteCount
    firstRecordOffset = tail.byteCount
    fileBegin = now
    headerUnits = 0
    dropsOffset = tail.drops
    tornByteCount = tail.tornByteCount
  }

  private static func open(
    _ path: String, _ existing: OutputFile.Existing
  ) throws(SystemError) -> OutputFile {
    path == "-" ? try OutputFile(toStandardOutput: ()) : try OutputFile(creating: path, ifExists: existing)
  }

  var isPending: Bool { failure == nil && file.isPending }
  /// Records of this recording that the kernel has.
  var writtenRecords: Int { finishedRecords + file.writtenUnits - headerUnits }
  /// Octets of them in the files.
  var writtenByteCount: Int { finishedByteCount + max(0, file.writtenByteCount - firstRecordOffset) }
  var lost: Int { taken - writtenRecords }
  var paths: [String] { numbers.map { plan.path($0) } }

  /// Takes a record.
  ///
  /// - Parameter drops: records of this recording that were lost before it.
  mutating func append(
    _ payload: Span<UInt8>, of record: MonitorRecordHeader, drops: Int, now: MonotonicTime
  ) {
    taken += 1
    guard failure == nil else { return }
    let needed = format.recordByteCount(payload: payload.count)
    do throws(SystemError) {
      if isFull(needed, now) { try rotate(at: record.time, now) }
      if plan.isSeries { notes.take(record, payload) }
      let format = format
      let drops = max(drops, dropsWritten)
      let fileDrops = drops + dropsOffset
      try file.append { format.append(payload, of: record, drops: fileDrops, to: &$0) }
      dropsWritten = drops
      fileRecords += 1
      fileByteCount += needed
    } catch { failure = error }
  }

  mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) { try file.flush() } catch { failure = error }
  }

  private func isFull(_ needed: Int, _ now: MonotonicTime) -> Bool {
    guard fileRecords > 0 else { return false }
    if let limit = plan.rotateByteCount, fileByteCount + needed > limit { return true }
    if let limit = plan.rotateCount, fileRecords >= limit { return true }
    if let limit = plan.rotateTime, fileBegin.advanced(by: limit) <= now { return true }
    return false
  }

  /// Ends the current file and begins the next. Drops after the last record of the one are told by the other.
  private mutating func rotate(at time: ReceiveTime, _ now: MonotonicTime) throws(SystemError) {
    try file.flush()
    let number = (numbers.last ?? 0) + 1
    let next = try Self.open(plan.path(number), .fail)
    (finishedRecords, finishedByteCount) = (writtenRecords, writtenByteCount)
    file = next
    numbers.append(number)
    fileRecords = 0
    fileBegin = now
    dropsOffset = -dropsWritten
    try begin(at: time)
    while let kept = plan.keptFiles, numbers.count > kept {
      try Files.remove(plan.path(numbers.removeFirst()))
    }
  }

  /// The file's header and, in a further file, the adapters that are there: one unit.
  private mutating func begin(at time: ReceiveTime? = nil) throws(SystemError) {
    let (format, notes) = (format, notes)
    var start: [UInt8] = []
    format.appendHeader(to: &start)
    if let time {
      notes.forEach { record, payload in
        var record = record
        record.time = time
        format.append(payload, of: record, drops: 0, to: &start)
      }
    }
    try file.append { $0 += start }
    try file.flush()
    headerUnits = 1
    fileByteCount = start.count
    firstRecordOffset = start.count
  }
}
