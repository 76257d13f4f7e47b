import BLELinux
import BLEPacketLog
import BLEWire
import Synchronization

/// Passes records from the kernel's monitor to a log's writer, on the receive thread.
actor MonitorSource: RecordSource {
  /// Maximum number of batches per turn. Other jobs of the loop run between turns.
  private static let turnLimit = 8
  private static let slots = 32

  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private let descriptor: FileDescriptor
  private var slab: ReceiveSlab
  private let adapter: UInt16?
  private var writer: PacketLogFile?
  private var token: UInt64?
  /// Number of records shorter than their own header.
  private(set) var malformed = 0

  /// Opens the monitor. Records wait in the socket until `start`.
  ///
  /// - Parameter adapter: the adapter to record; `nil` for all. Records that belong to no adapter are always
  ///   kept.
  init(adapter: UInt16?) throws(SystemError) {
    let descriptor = try MonitorSocket.open()
    loop = try EventLoop(name: "ringtap-monitor")
    slab = try ReceiveSlab(slots: Self.slots, slotByteCount: MonitorSocket.recordByteCountLimit)
    self.descriptor = descriptor
    self.adapter = adapter
  }

  func start(into writer: PacketLogFile, onEnd: @escaping @Sendable () -> Void) throws(SystemError) {
    self.writer = writer
    let source = ActorSource {
      self.service($0)
    } deadline: {
      nil
    } expired: { _ in
    } stopped: {
    }
    token = try loop.add(source, descriptor, for: .readable)
  }

  /// Passes on the records that wait in the socket, and ends.
  func close() {
    if let token {
      receive(batches: .max)
      self.token = nil
      loop.remove(token, descriptor)
    }
    loop.stop()
  }

  // MARK: The receive thread

  private func service(_ readiness: Readiness) { receive(batches: Self.turnLimit) }

  private func receive(batches: Int) {
    guard let writer else { return }
    var rest = batches
    while rest > 0 {
      // The monitor's socket has no peer and no errors of its own. A failure here is a temporary lack of
      // memory.
      guard let count = try? slab.receive(from: descriptor), count > 0 else { break }
      writer.sourceDrops = descriptor.receiveQueueDrops ?? slab.drops
      for index in 0..<count {
        push(slab.datagram(index), slab.time(index) ?? SystemClock.now(), into: writer.queue)
      }
      writer.wake.signal()
      // Leave records that arrive later to the next turn.
      rest = count < slab.slots ? 0 : rest - 1
    }
  }

  private func push(_ octets: Span<UInt8>, _ time: ReceiveTime, into queue: PacketQueue) {
    guard octets.count >= MonitorSocket.headerByteCount else {
      malformed += 1
      return
    }
    let opcode = UInt16(octets[0]) | UInt16(octets[1]) << 8
    let index = UInt16(octets[2]) | UInt16(octets[3]) << 8
    if let adapter, index != adapter, index != MonitorSocket.noAdapter { return }
    queue.push(
      tag: LogRecords.tag(opcode: opcode, adapter: index), time: time,
      octets.extracting(MonitorSocket.headerByteCount...))
  }
}

/// Follows the log of another process and passes its records to a writer, as if they came from the monitor.
///
/// The source reads the file, so it cannot delay the other process or cause drops. Flushed records are read
/// at most 100 ms later.
final class CaptureSource: RecordSource {
  private static let pauseMilliseconds = 100

  private let log: RunningLog
  private let pause: WakeEvent
  private let isStopping = Atomic<Bool>(false)
  private let hasStarted = Atomic<Bool>(false)
  /// Stream that ends when the thread ends.
  private let done: AsyncStream<Never>
  private let doneContinuation: AsyncStream<Never>.Continuation

  /// Opens a log.
  ///
  /// - Throws: ENOENT if the log or its process no longer exists.
  init(_ log: RunningLog) throws(SystemError) {
    self.log = log
    _ = try LockWatch(log.word)
    _ = try FileDescriptor.regularFile(log.path)
    pause = try WakeEvent()
    (done, doneContinuation) = AsyncStream.makeStream(of: Never.self)
  }

  func start(into writer: PacketLogFile, onEnd: @escaping @Sendable () -> Void) throws(SystemError) {
    let log = log
    try SystemThread.start(named: "ringtap-source") {
      // If the log cannot be read further, it has ended.
      try? self.follow(log, into: writer)
      self.doneContinuation.finish()
      onEnd()
    }
    hasStarted.store(true, ordering: .relaxed)
  }

  func close() async {
    isStopping.store(true, ordering: .sequentiallyConsistent)
    pause.signal()
    guard hasStarted.load(ordering: .relaxed) else { return }
    for await _ in done {}
  }

  private func follow(_ log: RunningLog, into writer: PacketLogFile) throws {
    let reader = try LogReader(regularFile: log.path)
    let watch = try LockWatch(log.word)
    while true {
      // Check this first, so that records written before the end are still read below.
      let isGrowing = watch.isHeld && !isStopping.load(ordering: .sequentiallyConsistent)
      while reader.read(to: .growing, { push($0, into: writer) }) { writer.wake.signal() }
      guard isGrowing, reader.problem == nil else { return }
      rest()
    }
  }

  private func push(_ record: borrowing PacketRecord, into writer: PacketLogFile) {
    guard let header = MonitorRecordHeader(record.header) else { return }
    let byteCount = record.packet.count
    while !writer.queue.hasRoom(for: byteCount) {
      if isStopping.load(ordering: .sequentiallyConsistent) { return }
      writer.wake.signal()
      rest()
    }
    writer.sourceDrops = Int(record.header.cumulativeDrops)
    writer.queue.push(
      tag: LogRecords.tag(opcode: header.opcode, adapter: header.adapter), time: header.time, record.packet)
  }

  private func rest() {
    pause.sleep(milliseconds: Self.pauseMilliseconds) {
      !isStopping.load(ordering: .sequentiallyConsistent)
    }
  }
}
