import BLELinux
import BLEPacketLog
import BLEWire
import Synchronization

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
