import BLECore
import BLEPacketLog
import BLESystem
import Synchronization

/// Writes records on a thread of its own. The receive thread only fills a bounded queue.
final class LogWriter: Sendable {
  /// What is in the files.
  struct Outcome: Sendable {
    var records = 0
    var byteCount = 0
    var lostOnDisk = 0
    var tornByteCount = 0
    var paths: [String] = []
    var failure: SystemError?
  }

  /// Why it takes no more, before it is finished.
  enum End: Hashable, Sendable { case count, failure }

  /// Octets of records that may wait: 13 s of 5,000 records of 40 octets a second.
  private static let queueByteCount = 1 << 22
  private static let flushMilliseconds = 500
  /// Records between two looks at the clock.
  private static let turnLimit = 4096

  let queue = RecordRing(byteCount: queueByteCount)
  /// Signal it when the queue has got something.
  let wake: WakeEvent
  /// Records that the kernel dropped so far, kept up by the receive thread.
  var kernelDrops: Int {
    get { kernelDropCount.load(ordering: .relaxed) }
    set { kernelDropCount.store(newValue, ordering: .relaxed) }
  }

  private let kernelDropCount = Atomic<Int>(0)
  private let limit: Int
  private let onEnd: @Sendable (End) -> Void
  private let isStopping = Atomic<Bool>(false)
  private let recordCount = Atomic<Int>(0)
  private let byteCount = Atomic<Int>(0)
  private let state = Mutex(State())

  private struct State: Sendable {
    var outcome: Outcome?
    var waiter: CheckedContinuation<Outcome, Never>?
  }

  private init(limit: Int, _ onEnd: @escaping @Sendable (End) -> Void) throws(SystemError) {
    self.limit = limit
    self.onEnd = onEnd
    wake = try WakeEvent()
  }

  /// Opens the first file and starts to write.
  ///
  /// - Parameters:
  ///   - limit: records; what comes after them is left out.
  ///   - onEnd: called once, on the writer's thread.
  static func start(
    _ plan: LogFilePlan, _ format: any MonitorLogFormat, limit: Int = .max,
    _ onEnd: @escaping @Sendable (End) -> Void
  ) async throws(LogFileError) -> LogWriter {
    let result: Result<LogWriter, LogFileError> = await withCheckedContinuation { started in
      do throws(SystemError) {
        let writer = try LogWriter(limit: limit, onEnd)
        try SystemThread.start(named: "ringtap-log") { writer.run(plan, format, started) }
      } catch { started.resume(returning: .failure(.system(error))) }
    }
    return try result.get()
  }

  /// How many records and octets were taken so far.
  var progress: (records: Int, byteCount: Int) {
    (recordCount.load(ordering: .relaxed), byteCount.load(ordering: .relaxed))
  }

  /// Records lost before the files.
  var drops: Int { queue.dropped + kernelDrops }

  /// Writes what waits, closes the file and tells what is in it.
  func finish() async -> Outcome {
    isStopping.store(true, ordering: .sequentiallyConsistent)
    return await withCheckedContinuation { continuation in
      let outcome = state.withLock { state in
        if state.outcome == nil { state.waiter = continuation }
        return state.outcome
      }
      if let outcome { continuation.resume(returning: outcome) }
      wake.signal()
    }
  }

  // MARK: The queue's tag

  /// Opcode and adapter in the number that the queue carries; no record of the kernel's has all bits set.
  static func tag(opcode: UInt16, adapter: UInt16) -> UInt32 { UInt32(adapter) << 16 | UInt32(opcode) }

  // MARK: The writer's thread

  private typealias Started = CheckedContinuation<Result<LogWriter, LogFileError>, Never>

  private func run(_ plan: LogFilePlan, _ format: any MonitorLogFormat, _ started: Started) {
    do throws(LogFileError) {
      var files = try LogFiles.open(plan, format, now: SystemClock.monotonic())
      started.resume(returning: .success(self))
      write(&files)
      let outcome = Outcome(
        records: files.writtenRecords, byteCount: files.writtenByteCount, lostOnDisk: files.lost,
        tornByteCount: files.tornByteCount, paths: files.paths, failure: files.failure)
      let waiter = state.withLock { state in
        state.outcome = outcome
        return state.waiter
      }
      waiter?.resume(returning: outcome)
    } catch { started.resume(returning: .failure(error)) }
  }

  private func write(_ files: inout LogFiles) {
    let period = Duration.milliseconds(Self.flushMilliseconds)
    var lastFlush = SystemClock.monotonic()
    var hasEnded = false
    while true {
      // Read first: what came before the stop is drained below.
      let isLast = isStopping.load(ordering: .sequentiallyConsistent)
      let now = SystemClock.monotonic()
      // What comes meanwhile is the next turn's, so that a fast source does not put off the flush.
      drain(into: &files, atMost: isLast ? .max : Self.turnLimit, now)
      if isLast || lastFlush.advanced(by: period) <= now {
        files.flush()
        lastFlush = now
      }
      if !hasEnded, files.failure != nil || files.taken == limit {
        hasEnded = true
        onEnd(files.failure == nil ? .count : .failure)
      }
      if isLast { return }
      wake.sleep(milliseconds: files.isPending ? Self.flushMilliseconds : -1) {
        queue.isEmpty && !isStopping.load(ordering: .sequentiallyConsistent)
      }
    }
  }

  private func drain(into files: inout LogFiles, atMost limit: Int, _ now: MonotonicTime) {
    var rest = limit
    while rest > 0,
      queue.pop({ tag, time, dropped, payload in
        guard files.taken < self.limit else { return }
        let record = MonitorRecordHeader(
          opcode: UInt16(truncatingIfNeeded: tag), adapter: UInt16(truncatingIfNeeded: tag >> 16), time: time)
        files.append(
          payload, of: record, drops: dropped + kernelDrops, now: now)
      })
    { rest -= 1 }
    recordCount.store(files.taken, ordering: .relaxed)
    byteCount.store(files.writtenByteCount, ordering: .relaxed)
  }
}
