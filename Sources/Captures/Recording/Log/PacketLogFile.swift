public import BLEHost
public import BLELinux
package import BLEWire
public import SensorSessions
import Synchronization

/// Packet log with its own writer thread. The receive thread only fills a bounded queue.
///
/// A `CapturingTransport` fills the queue with all packets between a host and its controller. Packets dropped
/// because the queue is full are counted in the drop field of the records.
public final class PacketLogFile: Sendable {
  /// Result of writing the files.
  public struct Outcome: Hashable, Sendable {
    public var packets = 0
    public var failure: SystemError?
    var lostInQueue = 0
    var lostOnDisk = 0
    var byteCount = 0
    var tornByteCount = 0
    var paths: [String] = []
    /// Whether the last file was removed, replaced or truncated.
    var isRemoved = false

    /// Number of packets lost because the queue was full or the disk failed.
    public var lost: Int { lostInQueue + lostOnDisk }

    package init() {}
  }

  /// Size of the queue in bytes: enough for 13 s at 5,000 records of 40 bytes per second.
  private static let queueByteCount = 1 << 22

  let queue = PacketQueue(byteCount: queueByteCount)
  /// Event to signal after filling the queue.
  var wake: WakeEvent { thread.wake }
  /// Number of records lost before the queue. The source updates it.
  var sourceDrops: Int {
    get { sourceDropCount.load(ordering: .relaxed) }
    set { sourceDropCount.store(newValue, ordering: .relaxed) }
  }

  fileprivate let onEnd: @Sendable (SystemError?) -> Void
  private let sourceDropCount = Atomic<Int>(0)
  private let recordCount = Atomic<Int>(0)
  private let byteCount = Atomic<Int>(0)
  private let thread: WriterThread<Outcome>
  private let announcement = Mutex<LogAnnouncement?>(nil)

  private init(_ onEnd: @escaping @Sendable (SystemError?) -> Void) throws(SystemError) {
    self.onEnd = onEnd
    thread = try WriterThread()
  }

  /// Creates the log of a transport and starts the writer. The format is pcapng with nanoseconds if the name
  /// ends in `.pcapng`, otherwise btsnoop.
  ///
  /// - Parameters:
  ///   - path: path of the log.
  ///   - origin: source of the packets, for the announcement to other processes; `nil` for no announcement.
  ///   - onFailure: called once, on the writer's thread, if writing fails.
  /// - Throws: EEXIST if the file exists. Recordings are never overwritten.
  public static func start(
    _ path: String, announcing origin: RunningLog.Origin? = nil,
    onFailure: @escaping @Sendable (SystemError) -> Void = { _ in }
  ) async throws(HostError) -> PacketLogFile {
    do throws(SystemError) {
      let log = try PacketLogFile { if let failure = $0 { onFailure(failure) } }
      try await log.start(orThrow: { $0 }) { () throws(SystemError) in
        let folder = try OpenFolder(Files.folder(of: path))
        let file = try OutputFile.log(path, in: folder)
        return try LogWriter(file, in: folder, as: CaptureLogFormat(path: path), of: .packets)
      }
      // Announcing is best effort. A failure does not affect the log.
      if let origin { log.announcement.withLock { $0 = try? LogAnnouncement(of: path, origin) } }
      return log
    } catch { throw .system(error) }
  }

  /// Opens the first file of a plan, and starts writing the records in `queue`.
  ///
  /// - Parameters:
  ///   - limit: maximum number of records. Later records are ignored.
  ///   - onEnd: called once, on the writer's thread, when the log accepts no more records. The argument is
  ///     the error, or `nil` if the limit is reached.
  static func start(
    _ plan: LogFilePlan, limit: Int = .max, onEnd: @escaping @Sendable (SystemError?) -> Void
  ) async throws(LogFileError) -> PacketLogFile {
    let log: PacketLogFile
    do throws(SystemError) { log = try PacketLogFile(onEnd) } catch { throw .system(error) }
    try await log.start(orThrow: LogFileError.system) { () throws(LogFileError) in
      try LogWriter.open(plan, limit: limit)
    }
    return log
  }

  private func start<Failure: Error>(
    orThrow failure: (SystemError) -> Failure, _ open: @escaping @Sendable () throws(Failure) -> LogWriter
  ) async throws(Failure) {
    try await thread.start(named: "ringtap-log", orThrow: failure) { () throws(Failure) in
      PacketLogJob(log: self, writer: try open())
    }
  }

  /// Wraps a transport so that its packets are written to this log.
  ///
  /// - Parameters:
  ///   - transport: the transport that carries the packets.
  ///   - keys: `logged` to keep keys in the log. A sniffer's capture of the links can be decrypted with these
  ///     keys.
  public func capturing(
    _ transport: any PacketTransport, keys: CapturingTransport.Keys = .concealed
  ) -> any PacketTransport {
    CapturingTransport(transport, into: queue, waking: wake, keys: keys)
  }

  /// Logs an advertising report as HCI events, for an adapter without access to packets. Call this on the
  /// receive thread only.
  package func log(_ report: borrowing AdvertisingReport, at time: ReceiveTime) {
    report.events { event in
      let packet = [UInt8](encoding: 1 + event.count) {
        $0.append(HCIPacketType.event.rawValue)
        $0.append(event)
      }
      queue.push(tag: UInt32(HCIDirection.controllerToHost.rawValue), time: time, packet.span)
    }
    wake.signal()
  }

  /// Numbers of accepted records and of written bytes so far.
  var progress: (records: Int, byteCount: Int) {
    (recordCount.load(ordering: .relaxed), byteCount.load(ordering: .relaxed))
  }

  fileprivate func setProgress(records: Int, byteCount: Int) {
    recordCount.store(records, ordering: .relaxed)
    self.byteCount.store(byteCount, ordering: .relaxed)
  }

  /// Number of records lost before they reached the files.
  var drops: Int { queue.dropped + sourceDrops }

  /// Writes the queued packets, closes the file and returns the outcome.
  public func finish() async -> Outcome {
    let outcome = await thread.finish()
    announcement.withLock { $0.take() }?.end()
    return outcome
  }
}

private struct PacketLogJob: WriterJob, ~Copyable {
  /// Maximum number of records between two reads of the clock.
  private static let turnLimit = 4096

  let log: PacketLogFile
  let writer: LogWriter
  private var hasEnded = false

  init(log: PacketLogFile, writer: LogWriter) {
    self.log = log
    self.writer = writer
  }

  var isIdle: Bool { log.queue.isEmpty }
  // The reader of a pipe may close it while nothing is written, so a pipe is always checked.
  var isPending: Bool { isHolding || writer.isPending || writer.isPipe && writer.failure == nil }
  var isHolding: Bool { writer.isHolding }
  // A transport often has few packets, and readers follow the log live.
  var isLive: Bool { writer.isPipe || writer.isSorting }

  var outcome: PacketLogFile.Outcome {
    var outcome = PacketLogFile.Outcome()
    (outcome.packets, outcome.byteCount) = (writer.writtenRecords, writer.writtenByteCount)
    (outcome.lostOnDisk, outcome.lostInQueue) = (writer.lost, log.queue.dropped)
    (outcome.tornByteCount, outcome.paths) = (writer.tornByteCount, writer.paths)
    (outcome.failure, outcome.isRemoved) = (writer.failure, writer.isGone)
    return outcome
  }

  mutating func drain(_ extent: WriterTurn, now: MonotonicTime) {
    writer.drain(
      log.queue, atMost: extent == .all ? .max : Self.turnLimit, dropsBefore: log.sourceDrops, now: now)
    log.setProgress(records: writer.taken, byteCount: writer.writtenByteCount)
  }

  mutating func flush() {
    writer.write(.turn)
    writer.flush()
  }

  mutating func sync() {
    writer.sync()
    if writer.look() { writer.stop(writer.goneError) }
  }

  mutating func end() { writer.end() }

  mutating func endTurn() {
    guard !hasEnded, writer.failure != nil || writer.isFull else { return }
    hasEnded = true
    log.onEnd(writer.failure)
  }
}
