import BLEHost
package import BLELinux
import BLEWire
import ColmiRing
import Synchronization

/// Writes the tables and the packet log of a recording on its own thread.
///
/// The receive thread only fills two bounded queues. A `SampleTables` type defines the samples and tables.
package final class Recorder: Sendable {
  /// Result of writing the files.
  package struct Outcome: Sendable {
    /// Number of rows of each table.
    package var rows: [Int] = []
    /// Number of samples without a reading, by table index; `nil` if a table does not record dropouts. May be
    /// shorter than the list of tables.
    var dropouts: [Int?] = []
    /// Number of restarts of the sensor's counters, by table index; `nil` if a table has no counters. May be
    /// shorter than the list of tables.
    var restarts: [Int?] = []
    /// Summary of the sensor's clock.
    var ticks: TickReport?
    /// Index of the table of ticks in `rows`.
    var tickTable: Int?
    /// Numbers of samples without a row.
    var account = TableAccount()
    /// Number of samples lost because writing to disk failed.
    package var lostSamples = 0
    /// Number of packets lost because writing to disk failed.
    var lostPackets = 0
    /// Observed steps of the wall clock; `nil` if the clock was not watched.
    var clockSteps: ClockWatch?
    package var failure: SystemError?
    /// Files that were removed during the recording.
    package var removed: [RemovedFile] = []
  }

  /// Whether the source waits for the writer.
  package enum Pace: Hashable, Sendable { case held, free }

  /// Size of the packet queue in bytes: about 6 s of a ring's fastest stream.
  static let packetQueueByteCount = 1 << 20

  private let writer: WriterThread<Outcome>
  private let failureReport = Mutex<(@Sendable () -> Void)?>(nil)
  fileprivate let onRemoval: @Sendable (FileRemoval) -> Void

  /// Event to signal after filling a queue.
  var wake: WakeEvent { writer.wake }

  private init(
    _ onRemoval: @escaping @Sendable (FileRemoval) -> Void, _ wake: WakeEvent
  ) {
    self.onRemoval = onRemoval
    writer = WriterThread(waking: wake)
  }

  /// Creates the event that wakes the writer, to signal after filling a queue.
  package static func makeWake(
    _ samples: SampleQueue<some Sendable & BitwiseCopyable>, _ packets: PacketQueue?
  ) throws(SystemError) -> WakeEvent {
    try WakeEvent { samples.isHalfFull || packets?.isHalfFull ?? false }
  }

  /// Creates the files and starts the writer.
  ///
  /// - Parameters:
  ///   - directory: path of the folder, which must exist.
  ///   - samples: sample queue, filled by the receive thread.
  ///   - tableFormat: file format of the tables.
  ///   - packets: packet queue, filled by a `PacketTap`; `nil` for no packet log.
  ///   - pace: `.held` if the source waits until the queues are empty, as a replayed log does.
  ///   - wake: event that the source signals; `nil` to create one.
  ///   - live: watcher of the recording, if any.
  ///   - syncInterval: maximum age of data not yet on disk: at least a second, and for arrays at most 25 s.
  ///   - onRemoval: called on the writer's thread if files were removed.
  package static func start<Tables: SampleTables>(
    in directory: String, _ samples: SampleQueue<Tables.Sample>, _ tables: Tables,
    as tableFormat: TableFormat = .csv, packets: PacketQueue?, format: CaptureLogFormat = .btsnoop,
    pace: Pace = .held, syncInterval: Duration = .seconds(1), wake: WakeEvent? = nil,
    live: (any RecordingWatcher)? = nil,
    onRemoval: @escaping @Sendable (FileRemoval) -> Void = { _ in }
  ) async throws(SystemError) -> Recorder {
    let event: WakeEvent
    if let wake { event = wake } else { event = try Self.makeWake(samples, packets) }
    let recorder = Recorder(onRemoval, event)
    try await recorder.writer.start(named: "ringtap-writer", orThrow: { $0 }) { () throws(SystemError) in
      RecorderJob(
        recorder: recorder, samples: samples, packets: packets, tables: tables,
        files: try RecordingFiles(
          in: directory, tables.tables, as: tableFormat, log: packets == nil ? nil : format,
          live: live),
        gathers: pace == .free,
        syncInterval: tableFormat == .npy ? min(syncInterval, ArrayFile.syncLimit) : syncInterval)
    }
    return recorder
  }

  /// Calls `body` once if writing to disk fails.
  func onFailure(_ body: @escaping @Sendable () -> Void) { failureReport.withLock { $0 = body } }

  /// Writes the queued data, closes the files and returns the outcome.
  func finish() async -> Outcome { await writer.finish() }

  fileprivate func reportFailure() { failureReport.withLock { $0.take() }?() }
}

private struct RecorderJob<Tables: SampleTables>: WriterJob, ~Copyable {
  let recorder: Recorder
  let samples: SampleQueue<Tables.Sample>
  let packets: PacketQueue?
  var tables: Tables
  var files: RecordingFiles
  let gathers: Bool
  let syncInterval: Duration
  /// Clock setting used by the tables.
  private var setting = ClockSetting()
  private var clock = ClockWatch(.now())

  init(
    recorder: Recorder, samples: SampleQueue<Tables.Sample>, packets: PacketQueue?, tables: Tables,
    files: consuming RecordingFiles, gathers: Bool, syncInterval: Duration
  ) {
    (self.recorder, self.samples, self.packets, self.tables) = (recorder, samples, packets, tables)
    self.files = files
    (self.gathers, self.syncInterval) = (gathers, syncInterval)
  }

  var isIdle: Bool { samples.isEmpty && packets?.isEmpty ?? true }
  var isPending: Bool { files.isPending }
  var isLive: Bool { false }
  var gatherMilliseconds: Int { files.live?.gatherMilliseconds ?? WriterPeriod.gather }

  var outcome: Recorder.Outcome {
    var outcome = files.outcome
    outcome.ticks = tables.ticks
    outcome.tickTable = tables.tables.firstIndex { $0.content == .derived }
    outcome.account = tables.account
    outcome.dropouts = tables.dropouts
    outcome.restarts = tables.restarts
    outcome.clockSteps = clock
    return outcome
  }

  mutating func drain(_ extent: WriterTurn, now: MonotonicTime) {
    files.live?.beginTurn()
    // The wall clock is not watched if virtual time is stopped or a log is replayed. The timestamps then come
    // from another clock.
    if gathers { drainWatched() } else { while let sample = samples.pop() { append(sample) } }
    // Inform the watcher before writing to disk, which may block this thread.
    files.live?.endTurn()
    if let packets { files.drain(packets, now: now) }
  }

  private mutating func append(_ sample: Tables.Sample) {
    tables.append(sample, to: &files)
    files.live?.take(sample: sample)
  }

  /// Appends the queued samples and watches the wall clock. The clocks are read again before a timestamp that
  /// does not closely follow the previous timestamp, so that a step between the two is detected.
  private mutating func drainWatched() {
    clock.look(.now())
    while let sample = samples.pop() {
      let stamp = Tables.time(of: sample).nanoseconds
      if clock.isApart(stamp) { clock.look(.now()) }
      if clock.isPending { drainAroundStep(sample) } else { append(sample, stamp) }
    }
    clock.noteEmpty(.now())
  }

  private mutating func append(_ sample: Tables.Sample, _ stamp: Int64) {
    clock.note(stamp)
    append(sample)
  }

  /// Appends all queued samples after the clock was set. Their timestamps show where the step is.
  private mutating func drainAroundStep(_ first: Tables.Sample) {
    var waiting = [first]
    while let sample = samples.pop() { waiting.append(sample) }
    let stamps = waiting.map { Tables.time(of: $0).nanoseconds }
    let place = clock.firstAfterStep(stamps, now: SystemClock.sinceBoot().nanoseconds)
    for index in waiting.indices {
      if index == place {
        clock.begin(files.rowsOfSamples)
        if setting != clock.setting {
          setting = clock.setting
          tables.begin(setting)
        }
      }
      append(waiting[index], stamps[index])
    }
  }

  mutating func flush() {
    if gathers { clock.look(.now()) }
    files.writePackets(.turn)
    files.flush()
    files.live?.take(tables.ticks, byteCount: files.writtenByteCount)
  }

  mutating func sync() { files.sync() }
  mutating func look() { files.lookForRemoved() }

  mutating func endTurn() {
    if files.hasFailed { recorder.reportFailure() }
    if let removal = files.takeRemoval() { recorder.onRemoval(removal) }
  }

  mutating func end() {
    files.writePackets(.end)
    tables.finish(&files)
    files.live?.endTurn()
    files.end(rate: tables.ticks?.rate)
  }
}
