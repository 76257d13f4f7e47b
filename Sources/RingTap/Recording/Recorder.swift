import BLECore
import BLEHost
import BLESystem
import Synchronization

/// Writes the tables and the packet log of a capture on a thread of its own.
///
/// The receive thread only fills two bounded queues. The writer sleeps while they are empty; what it has taken
/// reaches the kernel within half a second.
final class Recorder: Sendable {
  /// What is in the files.
  struct Outcome: Sendable {
    /// By `RingStream.rawValue`.
    var samples = [Int](repeating: 0, count: RingStream.allCases.count)
    /// Samples and packets that the disk did not take.
    var lostSamples = 0
    var lostPackets = 0
    var failure: SystemError?
  }

  private struct State: Sendable {
    var outcome: Outcome?
    var waiter: CheckedContinuation<Outcome, Never>?
    var onFailure: (@Sendable () -> Void)?
  }

  /// Octets of packets that may wait: about 6 s of the fastest ring stream.
  static let packetQueueByteCount = 1 << 20
  private static let flushMilliseconds = 500

  let sink: RingSink
  let packets: RecordRing?
  /// Signal it when the queues have got something.
  let wake: WakeEvent
  private let isStopping = Atomic<Bool>(false)
  private let state = Mutex(State())

  private init(_ sink: RingSink, _ packets: RecordRing?) throws(SystemError) {
    self.sink = sink
    self.packets = packets
    wake = try WakeEvent()
  }

  /// Creates the files and starts the writer.
  ///
  /// - Parameters:
  ///   - directory: is there.
  ///   - packets: what a `PacketTap` fills; `nil` for no packet log.
  ///   - link: whose packets these are.
  static func start(
    in directory: String, _ sink: RingSink, packets: RecordRing?, link: RecordingFiles.LinkStart,
    format: CaptureLogFormat = .btsnoop
  ) async throws(SystemError) -> Recorder {
    let recorder = try Recorder(sink, packets)
    let result: Result<Void, SystemError> = await withCheckedContinuation { started in
      do throws(SystemError) {
        try SystemThread.start(named: "ringtap-writer") {
          recorder.run(in: directory, packets == nil ? .none : .link(link, format), started)
        }
      } catch { started.resume(returning: .failure(error)) }
    }
    try result.get()
    return recorder
  }

  /// Calls `body` once if the disk refuses to go on.
  func onFailure(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.onFailure = body } }

  /// Writes what waits, closes the files and tells what is in them.
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

  // MARK: The writer's thread

  private typealias Started = CheckedContinuation<Result<Void, SystemError>, Never>

  private func run(in directory: String, _ log: RecordingFiles.Log, _ started: Started) {
    var files: RecordingFiles
    do throws(SystemError) {
      files = try RecordingFiles(in: directory, log: log)
    } catch {
      started.resume(returning: .failure(error))
      return
    }
    started.resume(returning: .success(()))
    write(&files)
    let outcome = files.outcome
    let waiter = state.withLock { state in
      state.outcome = outcome
      return state.waiter
    }
    waiter?.resume(returning: outcome)
  }

  private func write(_ files: inout RecordingFiles) {
    let period = Duration.milliseconds(Self.flushMilliseconds)
    var lastFlush = SystemClock.monotonic()
    while true {
      // Read first: what came before the stop is drained below.
      let isLast = isStopping.load(ordering: .sequentiallyConsistent)
      drain(into: &files)
      let now = SystemClock.monotonic()
      if isLast || lastFlush.advanced(by: period) <= now {
        files.flush()
        lastFlush = now
      }
      if files.outcome.failure != nil { reportFailure() }
      if isLast { return }
      wake.sleep(milliseconds: files.isPending ? Self.flushMilliseconds : -1) {
        sink.samples.isEmpty && packets?.isEmpty ?? true
          && !isStopping.load(ordering: .sequentiallyConsistent)
      }
    }
  }

  private func drain(into files: inout RecordingFiles) {
    while let sample = sink.samples.pop() { files.append(sample) }
    guard let packets else { return }
    while packets.pop({ files.append($0, $1, dropped: $2, $3) }) {}
  }

  private func reportFailure() {
    let report = state.withLock { state in
      defer { state.onFailure = nil }
      return state.onFailure
    }
    report?()
  }
}
