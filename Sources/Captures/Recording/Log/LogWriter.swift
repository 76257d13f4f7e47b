import BLELinux
import BLEPacketLog
import BLEWire
import Synchronization

/// Writes records on its own thread. The receive thread only fills a bounded queue.
package final class LogWriter: Sendable {
  /// Final contents of the files.
  struct Outcome: Sendable {
    var records = 0
    var byteCount = 0
    var lostOnDisk = 0
    var tornByteCount = 0
    var paths: [String] = []
    var failure: SystemError?
    /// Whether the last file was removed, replaced or cut.
    var isRemoved = false
  }

  /// Why the writer stopped accepting records before `finish`.
  enum End: Hashable, Sendable { case count, failure }

  /// Size of the queue, in bytes: 13 s of 5,000 records of 40 bytes a second.
  private static let queueByteCount = 1 << 22

  let queue = PacketQueue(byteCount: queueByteCount)
  /// Signal this event after filling the queue.
  var wake: WakeEvent { thread.wake }
  /// Records lost before the queue so far; the source keeps it up to date.
  var sourceDrops: Int {
    get { sourceDropCount.load(ordering: .relaxed) }
    set { sourceDropCount.store(newValue, ordering: .relaxed) }
  }

  fileprivate let limit: Int
  fileprivate let onEnd: @Sendable (End) -> Void
  private let sourceDropCount = Atomic<Int>(0)
  private let recordCount = Atomic<Int>(0)
  private let byteCount = Atomic<Int>(0)
  private let thread: WriterThread<Outcome>

  private init(limit: Int, _ onEnd: @escaping @Sendable (End) -> Void) throws(SystemError) {
    self.limit = limit
    self.onEnd = onEnd
    thread = try WriterThread()
  }

  /// Opens the first file and starts to write.
  ///
  /// - Parameters:
  ///   - limit: maximum number of records; later ones are dropped.
  ///   - onEnd: called once, on the writer's thread.
  static func start(
    _ plan: LogFilePlan, limit: Int = .max, _ onEnd: @escaping @Sendable (End) -> Void
  ) async throws(LogFileError) -> LogWriter {
    let writer: LogWriter
    do throws(SystemError) { writer = try LogWriter(limit: limit, onEnd) } catch { throw .system(error) }
    try await writer.thread.start(named: "ringtap-log", orThrow: LogFileError.system) {
      () throws(LogFileError) in
      LogWriterJob(writer: writer, files: try LogFiles.open(plan, now: SystemClock.monotonic()))
    }
    return writer
  }

  /// Number of records accepted, and of bytes written, so far.
  var progress: (records: Int, byteCount: Int) {
    (recordCount.load(ordering: .relaxed), byteCount.load(ordering: .relaxed))
  }

  fileprivate func setProgress(records: Int, byteCount: Int) {
    recordCount.store(records, ordering: .relaxed)
    self.byteCount.store(byteCount, ordering: .relaxed)
  }

  /// Records lost before the files.
  var drops: Int { queue.dropped + sourceDrops }

  /// Writes the queued records, closes the file and returns the outcome.
  func finish() async -> Outcome { await thread.finish() }

  // MARK: The queue's tag

  /// Combines opcode and adapter into the queue's tag. No kernel record has all bits set.
  static func tag(opcode: UInt16, adapter: UInt16) -> UInt32 { UInt32(adapter) << 16 | UInt32(opcode) }
}

private struct LogWriterJob: WriterJob, ~Copyable {
  /// Maximum records between two reads of the clock.
  private static let turnLimit = 4096

  let writer: LogWriter
  var files: LogFiles
  private var hasEnded = false

  init(writer: LogWriter, files: consuming LogFiles) {
    self.writer = writer
    self.files = files
  }

  var isIdle: Bool { writer.queue.isEmpty }
  // A pipe's reader may close it while nothing is written.
  var isPending: Bool { files.isPending || isLive && files.failure == nil }
  var isLive: Bool { files.isPipe }

  var outcome: LogWriter.Outcome {
    LogWriter.Outcome(
      records: files.writtenRecords, byteCount: files.writtenByteCount, lostOnDisk: files.lost,
      tornByteCount: files.tornByteCount, paths: files.paths, failure: files.failure,
      isRemoved: files.isGone)
  }

  mutating func drain(_ extent: WriterTurn, now: MonotonicTime) {
    var rest = extent == .all ? Int.max : Self.turnLimit
    while rest > 0, writer.queue.pop({ append($3, $0, $1, dropped: $2, now) }) { rest -= 1 }
    writer.setProgress(records: files.taken, byteCount: files.writtenByteCount)
  }

  private mutating func append(
    _ payload: Span<UInt8>, _ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ now: MonotonicTime
  ) {
    guard files.taken < writer.limit else { return }
    let record = MonitorRecordHeader(
      opcode: UInt16(truncatingIfNeeded: tag), adapter: UInt16(truncatingIfNeeded: tag >> 16), time: time)
    files.append(payload, of: record, drops: dropped + writer.sourceDrops, now: now)
  }

  mutating func flush() { files.flush() }
  mutating func sync() { files.sync() }
  mutating func end() { files.end() }

  mutating func endTurn() {
    guard !hasEnded, files.failure != nil || files.taken == writer.limit else { return }
    hasEnded = true
    writer.onEnd(files.failure == nil ? .count : .failure)
  }
}
