import BLECore
import BLEHost
import BLESystem
import Synchronization

/// Writes the tables and the packet log of a capture on a thread of its own.
///
/// The receive thread only fills two bounded queues.
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

  /// Whether the source waits for the writer.
  enum Pace: Hashable, Sendable { case held, free }

  /// Octets of packets that may wait: about 6 s of the fastest ring stream.
  static let packetQueueByteCount = 1 << 20

  fileprivate let sink: RingSink
  fileprivate let packets: RecordRing?
  private let writer: WriterThread<Outcome>
  private let failureReport = Mutex<(@Sendable () -> Void)?>(nil)

  /// Signal it when the queues have got something.
  var wake: WakeEvent { writer.wake }

  private init(_ sink: RingSink, _ packets: RecordRing?) throws(SystemError) {
    self.sink = sink
    self.packets = packets
    writer = try WriterThread()
  }

  /// Creates the files and starts the writer.
  ///
  /// - Parameters:
  ///   - directory: is there.
  ///   - packets: what a `PacketTap` fills; `nil` for no packet log.
  ///   - link: whose packets these are.
  ///   - pace: `.held` where the source waits until the queues are empty, as a replayed log does.
  static func start(
    in directory: String, _ sink: RingSink, packets: RecordRing?, link: RecordingFiles.LinkStart,
    format: CaptureLogFormat = .btsnoop, pace: Pace = .held
  ) async throws(SystemError) -> Recorder {
    let recorder = try Recorder(sink, packets)
    try await recorder.writer.start(named: "ringtap-writer", orThrow: { $0 }) { () throws(SystemError) in
      let log: RecordingFiles.Log = packets == nil ? .none : .link(link, format)
      return RecorderJob(
        recorder: recorder, files: try RecordingFiles(in: directory, log: log), gathers: pace == .free)
    }
    return recorder
  }

  /// Calls `body` once if the disk refuses to go on.
  func onFailure(_ body: @escaping @Sendable () -> Void) { failureReport.withLock { $0 = body } }

  /// Writes what waits, closes the files and tells what is in them.
  func finish() async -> Outcome { await writer.finish() }

  fileprivate func reportFailure() { failureReport.withLock { $0.take() }?() }
}

private struct RecorderJob: WriterJob, ~Copyable {
  let recorder: Recorder
  var files: RecordingFiles
  let gathers: Bool

  var isIdle: Bool { recorder.sink.samples.isEmpty && recorder.packets?.isEmpty ?? true }
  var isPending: Bool { files.isPending }
  var isLive: Bool { false }
  var outcome: Recorder.Outcome { files.outcome }

  mutating func drain(_ extent: WriterTurn, now: MonotonicTime) {
    while let sample = recorder.sink.samples.pop() { files.append(sample) }
    guard let packets = recorder.packets else { return }
    while packets.pop({ files.append($0, $1, dropped: $2, $3) }) {}
  }

  mutating func flush() { files.flush() }
  mutating func sync() { files.sync() }
  mutating func endTurn() { if files.hasFailed { recorder.reportFailure() } }
  mutating func end() {}
}
