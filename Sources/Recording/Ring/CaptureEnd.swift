import BLECore
import BLEHost
import BLELinux
import SensorSessions
import Synchronization

/// Waits for the first thing that ends a capture, and tells meanwhile of its links.
final class CaptureEnd: Sendable {
  enum Reason: Hashable, Sendable {
    case count, duration, interrupted, disk
    /// The session is over: the link was lost for good, or the stream did not start.
    case session(HostError?)
  }

  private struct State: Sendable {
    var tasks: [Task<Void, Never>] = []
    var hasBegun = false
    var isLost = false
  }

  private let session: DeviceSession
  private let sink: RingSink
  private let limits: RecordingLimits
  private let state = Mutex(State())
  private let reason = OneShot<Reason>()

  init(_ session: DeviceSession, _ sink: RingSink, _ limits: RecordingLimits) {
    self.session = session
    self.sink = sink
    self.limits = limits
    sink.onComplete { [weak self] in self?.finish(.count) }
  }

  /// Looks at the session from now on, and at the clock once the stream runs.
  ///
  /// - Parameter live: learns when the stream runs.
  func follow(
    _ live: (any RecordingWatcher)?, _ news: @escaping @Sendable (RingCapture.News) -> Void
  ) async {
    let states = await session.states()
    keep(session.adapter.loop.task { [self] in for await state in states { await take(state, live, news) } })
  }

  private func take(
    _ session: SessionState, _ live: (any RecordingWatcher)?, _ news: @Sendable (RingCapture.News) -> Void
  ) async {
    let gap = await self.session.gaps.last
    switch session {
    case .streaming:
      let (isFirst, wasLost) = state.withLock { state in
        defer { (state.hasBegun, state.isLost) = (true, false) }
        return (!state.hasBegun, state.isLost)
      }
      if isFirst {
        live?.begin()
        startTimer()
      }
      if wasLost, let gap { news(.back(gap)) }
    case .reconnecting:
      let isNew = state.withLock { state in
        defer { state.isLost = state.hasBegun }
        return state.hasBegun && !state.isLost
      }
      if isNew, let gap { news(.lost(gap)) }
    case .idle, .scanning, .connecting, .discovering, .closed: break
    }
  }

  private func startTimer() {
    guard let duration = limits.duration else { return }
    keep(session.adapter.loop.after(duration) { [self] in finish(.duration) })
  }

  private func keep(_ task: Task<Void, Never>) {
    state.withLock { $0.tasks.append(task) }
    if reason.current != nil { task.cancel() }
  }

  /// Returns the reason; a cancelled task is `interrupted`.
  func wait() async -> Reason {
    let reason = await self.reason.value(ifCancelled: .interrupted)
    for task in state.withLock({ $0.tasks }) { task.cancel() }
    return reason
  }

  func finish(_ reason: Reason) { self.reason.set(reason) }
}
