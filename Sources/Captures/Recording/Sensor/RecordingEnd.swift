import BLEHost
import BLELinux
import SensorSessions
import Synchronization

/// Waits for the first event that ends a recording, and reports changes of its links until then.
final class RecordingEnd: Sendable {
  enum Reason: Hashable, Sendable {
    case count, duration, interrupted, disk
    /// All files were removed.
    case removed
    /// The sensor stopped the stream, although the link is up.
    case sensor
    /// The session ended: the link was lost and not restored, or the stream did not start.
    case session(HostError?)
  }

  private struct State: Sendable {
    var tasks: [Task<Void, Never>] = []
    var hasBegun = false
    var isLost = false
    /// Remarks that were already reported.
    var remarks: Set<LinkRemark> = []
  }

  private let session: DeviceSession
  private let limits: RecordingLimits
  private let state = Mutex(State())
  private let reason = OneShot<Reason>()

  init(_ session: DeviceSession, _ limits: RecordingLimits) {
    self.session = session
    self.limits = limits
  }

  /// Reports the session's remarks from now on, and its gaps after `begin`.
  func follow(
    _ live: (any RecordingWatcher)?, _ news: @escaping @Sendable (SensorRecording.News) -> Void
  ) async {
    let states = await session.states()
    keep(session.adapter.loop.task { [self] in for await state in states { await take(state, live, news) } })
  }

  private func take(
    _ session: SessionState, _ live: (any RecordingWatcher)?, _ news: @Sendable (SensorRecording.News) -> Void
  ) async {
    for remark in await self.session.remarks {
      if state.withLock({ $0.remarks.insert(remark).inserted }) { news(.remark(remark)) }
    }
    let gap = await self.session.gaps.last
    switch session {
    case .streaming:
      let wasLost = state.withLock { state in
        defer { state.isLost = false }
        return state.isLost
      }
      if wasLost, let gap {
        live?.take(gap, .back)
        news(.back(gap))
      }
    case .reconnecting:
      let isNew = state.withLock { state in
        defer { state.isLost = state.hasBegun }
        return state.hasBegun && !state.isLost
      }
      if isNew, let gap {
        live?.take(gap, .lost)
        news(.lost(gap))
      }
    case .idle, .connecting, .discovering, .closed: break
    }
  }

  /// Called when the stream runs and the files are open: starts the time limit.
  func begin() {
    state.withLock { $0.hasBegun = true }
    guard let duration = limits.duration else { return }
    keep(session.adapter.loop.after(duration) { [self] in finish(.duration) })
  }

  private func keep(_ task: Task<Void, Never>) {
    state.withLock { $0.tasks.append(task) }
    if reason.current != nil { task.cancel() }
  }

  /// Waits for the end and returns its reason; `interrupted` if the task is cancelled.
  func wait() async -> Reason {
    let reason = await self.reason.value(ifCancelled: .interrupted)
    for task in state.withLock({ $0.tasks }) { task.cancel() }
    return reason
  }

  func finish(_ reason: Reason) { self.reason.set(reason) }

  func finish(_ end: SampleEnd) { finish(end == .limit ? .count : .sensor) }
}

extension RecordingEnd.Reason {
  /// Timeouts of an interrupted recording: for the sensor to stop, and for the adapter to end the link.
  private static let patience = (sensor: Duration.milliseconds(600), adapter: Duration.milliseconds(750))

  /// Waits for a cancelled session to end. After an interruption, the wait has a timeout, so that an
  /// unresponsive device does not delay it.
  ///
  /// - Returns: the error that had ended the session before, if any.
  func end(of running: Task<HostError?, Never>, _ session: DeviceSession) async -> HostError? {
    guard self == .interrupted else { return await running.value }
    let loop = session.adapter.loop
    let over = OneShot<HostError?>()
    loop.task { over.set(await running.value) }
    let timers = [
      loop.after(Self.patience.sensor) { await session.cut() },
      loop.after(Self.patience.adapter) { over.set(nil) },
    ]
    defer { for timer in timers { timer.cancel() } }
    return await over.value()
  }

  /// Error that ended the recording early.
  var failure: HostError? {
    switch self {
    case .count, .duration, .interrupted, .disk, .removed: nil
    case .sensor: .unsuitable(Self.stopped)
    case .session(let error): error
    }
  }

  private static let stopped = "the sensor stopped the stream by itself"

  /// Returns the text of the reason for `session.json`.
  ///
  /// - Parameters:
  ///   - hasStreamed: whether a stream has started.
  ///   - lost: the last gap.
  ///   - patience: time for which the session tried to reconnect.
  func text(hasStreamed: Bool, lost: SessionGap?, patience: Duration) -> String {
    switch self {
    case .count: "count reached"
    case .duration: "duration over"
    case .interrupted, .session(nil): "interrupted"
    case .disk: "writing to the disk failed"
    case .removed: "the files were removed"
    case .sensor: Self.stopped
    case .session(let error?):
      if !hasStreamed {
        "the stream did not start"
      } else if let lost, case .noAnswer = error {
        "\(lost.end), and it was not back within \(patience.components.seconds) s"
      } else {
        "\(error)"
      }
    }
  }
}

/// Limits that end a recording. Without limits, it ends only if the link is not restored, the disk is full or
/// the task is cancelled.
public struct RecordingLimits: Sendable {
  public var duration: Duration?
  /// Maximum number of samples of a ring, or of values of another sensor. The recording and its packet log
  /// end with the last sample.
  public var count: Int?

  public init(duration: Duration? = nil, count: Int? = nil) {
    self.duration = duration
    self.count = count
  }
}
