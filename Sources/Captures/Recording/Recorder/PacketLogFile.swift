public import BLEHost
public import BLELinux
import BLEPacketLog
package import BLEWire
public import SensorSessions
import Synchronization

/// A log of all packets between a host and its controller, written on its own thread. The format is pcapng
/// with nanoseconds if the name ends in `.pcapng`, otherwise btsnoop.
///
/// A `CapturingTransport` fills `ring`. Packets dropped because the ring is full are counted in the records'
/// own drop field.
public final class PacketLogFile: Sendable {
  /// Final contents of the file.
  public struct Outcome: Hashable, Sendable {
    public var packets = 0
    /// Packets that were dropped because the queue was full or the disk failed.
    public var lost = 0
    public var failure: SystemError?

    package init() {}

    init(packets: Int, lost: Int, failure: SystemError?) {
      (self.packets, self.lost, self.failure) = (packets, lost, failure)
    }
  }

  private static let queueByteCount = 1 << 22

  private let ring = PacketQueue(byteCount: queueByteCount)
  private let writer: WriterThread<Outcome>
  private let announcement = Mutex<LogAnnouncement?>(nil)

  private init() throws(SystemError) { writer = try WriterThread() }

  /// Creates the file and starts to write.
  ///
  /// - Parameters:
  ///   - path: path of the log. It is pcapng if it ends in `.pcapng`, otherwise btsnoop.
  ///   - origin: description for other processes; the log is not announced if `nil`.
  ///   - onFailure: called once, on the writer's thread, if writing fails.
  /// - Throws: EEXIST if the file exists: recordings are never overwritten.
  public static func start(
    _ path: String, announcing origin: RunningLog.Origin? = nil,
    onFailure: @escaping @Sendable (SystemError) -> Void = { _ in }
  ) async throws(HostError) -> PacketLogFile {
    do throws(SystemError) {
      let log = try PacketLogFile()
      let ring = log.ring
      try await log.writer.start(named: "ringtap-log", orThrow: { $0 }) { () throws(SystemError) in
        try PacketLogJob(path, ring, onFailure)
      }
      // Announcing is best effort: the log does not depend on it.
      if let origin { log.announcement.withLock { $0 = try? LogAnnouncement(of: path, origin) } }
      return log
    } catch { throw .system(error) }
  }

  /// Returns a transport that logs its packets here.
  ///
  /// - Parameters:
  ///   - transport: the transport that carries the packets.
  ///   - keys: `logged` to keep keys, with which a sniffer's capture of the links can be decrypted.
  public func capturing(
    _ transport: any PacketTransport, keys: CapturingTransport.Keys = .concealed
  ) -> any PacketTransport {
    CapturingTransport(transport, into: ring, waking: writer.wake, keys: keys)
  }

  /// Logs an advertising report of an adapter without packets, as the HCI events that would report it. Call
  /// it on the receive thread only.
  package func log(_ report: borrowing AdvertisingReport, at time: ReceiveTime) {
    report.events { event in
      let packet = [UInt8](encoding: 1 + event.count) {
        $0.append(HCIPacketType.event.rawValue)
        $0.append(event)
      }
      ring.push(tag: UInt32(HCIDirection.controllerToHost.rawValue), time: time, packet.span)
    }
    writer.wake.signal()
  }

  /// Writes the queued packets and closes the file.
  public func finish() async -> Outcome {
    let outcome = await writer.finish()
    announcement.withLock { $0.take() }?.end()
    return outcome
  }
}

private struct PacketLogJob: WriterJob, ~Copyable {
  private let ring: PacketQueue
  private var file: OutputFile
  private var writer: PacketLogWriter
  private let order = PacketOrder()
  private var taken = 0
  private var droppedBefore = 0
  private var failure: SystemError?
  private let folder: OpenFolder
  private var isGone = false
  private var onFailure: (@Sendable (SystemError) -> Void)?

  init(
    _ path: String, _ ring: PacketQueue, _ onFailure: @escaping @Sendable (SystemError) -> Void
  ) throws(SystemError) {
    let folder = try OpenFolder(Files.folder(of: path))
    var file = try OutputFile.log(path, in: folder)
    var writer = CaptureLogFormat(path: path).writer
    try file.append { writer.start(into: &$0) }
    try file.flush()
    try file.writeOut(.begun)
    self.file = file
    self.folder = folder
    self.onFailure = onFailure
    self.writer = writer
    self.ring = ring
  }

  var isIdle: Bool { ring.isEmpty }
  var isPending: Bool { isHolding || failure == nil && (file.isPending || file.isUnsynced) }
  var isHolding: Bool { !order.isEmpty }
  // Packets are often few, and readers follow the log live.
  var isLive: Bool { true }

  var outcome: PacketLogFile.Outcome {
    // The header is the first unit.
    let packets = isGone ? 0 : file.writtenUnits - 1
    return PacketLogFile.Outcome(packets: packets, lost: taken - packets + ring.dropped, failure: failure)
  }

  mutating func drain(_ extent: WriterTurn, now: MonotonicTime) {
    while !ring.isEmpty {
      if !order.hasRoom { write(.need) }
      _ = ring.pop { order.take($0, $1, dropped: $2, $3) }
    }
  }

  private mutating func write(_ occasion: PacketOrder.Occasion) {
    let order = order
    order.write(occasion) { append($3, $0, $1, dropped: $2) }
  }

  private mutating func append(_ packet: Span<UInt8>, _ tag: UInt32, _ time: ReceiveTime, dropped: Int) {
    taken += 1
    // After a failure, packets are only counted.
    guard failure == nil else { return }
    var header = PacketRecordHeader()
    header.time = time
    header.type = HCIPacketType(rawValue: packet[0])
    header.direction = HCIDirection(rawValue: UInt8(truncatingIfNeeded: tag)) ?? .controllerToHost
    header.drops = UInt32(clamping: dropped - droppedBefore)
    droppedBefore = dropped
    let record = PacketRecord(header, packet: packet.extracting(1...))
    do throws(SystemError) { try file.append { writer.append(record, to: &$0) } } catch { failure = error }
  }

  mutating func flush() {
    write(.turn)
    guard failure == nil else { return }
    do throws(SystemError) { try file.flush() } catch { failure = error }
  }

  mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) { try file.sync() } catch { return failure = error }
    isGone = file.isGone(from: folder)
    if isGone { failure = file.goneError }
  }

  mutating func endTurn() { if let failure, let tell = onFailure.take() { tell(failure) } }
  mutating func end() { write(.end) }
}
