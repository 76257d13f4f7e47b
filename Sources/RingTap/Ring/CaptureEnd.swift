import BLECore
import BLEHost
import BLESystem
import Synchronization

/// Waits for the first thing that ends a capture, and tells meanwhile how it goes.
final class CaptureEnd: Sendable {
  enum Reason: Hashable, Sendable {
    case count, duration, interrupted, disk
    /// The session is over: the link was lost for good, or the stream did not start.
    case session(HostError?)
  }

  private struct State: Sendable {
    var reason: Reason?
    var waiter: CheckedContinuation<Reason, Never>?
    var tasks: [Task<Void, Never>] = []
    var hasBegun = false
    var isLost = false
  }

  private let session: DeviceSession
  private let sink: RingSink
  private let limits: RecordingLimits
  private let state = Mutex(State())

  init(_ session: DeviceSession, _ sink: RingSink, _ limits: RecordingLimits) {
    self.session = session
    self.sink = sink
    self.limits = limits
    sink.onComplete { [weak self] in self?.finish(.count) }
  }

  /// Looks at the session from now on, and at the clock once the stream runs.
  ///
  /// - Parameter progress: called each second; `nil`: no timer runs.
  func follow(
    _ progress: (@Sendable (RingCapture.Progress) -> Void)?,
    _ news: @escaping @Sendable (RingCapture.News) -> Void
  ) async {
    let states = await session.states()
    keep(
      Task(executorPreference: session.adapter.loop.preference) { [self] in
        for await state in states { await take(state, progress, news) }
      })
  }

  private func take(
    _ session: SessionState, _ progress: (@Sendable (RingCapture.Progress) -> Void)?,
    _ news: @Sendable (RingCapture.News) -> Void
  ) async {
    let gap = await self.session.gaps.last
    switch session {
    case .streaming:
      let (isFirst, wasLost) = state.withLock { state in
        defer { (state.hasBegun, state.isLost) = (true, false) }
        return (!state.hasBegun, state.isLost)
      }
      if isFirst { startTimers(progress) }
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

  private func startTimers(_ progress: (@Sendable (RingCapture.Progress) -> Void)?) {
    let begin = ContinuousClock.now
    let loop = session.adapter.loop
    if let progress {
      keep(
        Task { [self] in
          while (try? await Task.sleep(for: .seconds(1))) != nil {
            progress(await standing(after: ContinuousClock.now - begin))
          }
        })
    }
    guard let duration = limits.duration else { return }
    keep(
      Task(executorPreference: loop.preference) { [self] in
        if (try? await loop.wait(for: duration)) != nil { finish(.duration) }
      })
  }

  private func standing(after elapsed: Duration) async -> RingCapture.Progress {
    let drops = await session.statistics.kernelQueueDrops + session.currentStatistics.kernelQueueDrops
    return RingCapture.Progress(
      samples: sink.sampleCount, malformed: sink.malformed, lost: sink.samples.dropped + drops,
      gaps: await session.gapCount, withoutLink: await session.state == .streaming ? 0 : 1, elapsed: elapsed)
  }

  private func keep(_ task: Task<Void, Never>) {
    let isOver = state.withLock { state in
      state.tasks.append(task)
      return state.reason != nil
    }
    if isOver { task.cancel() }
  }

  /// Returns the reason; a cancelled task is `interrupted`.
  func wait() async -> Reason {
    let reason = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let reason = state.withLock { state in
          if state.reason == nil { state.waiter = continuation }
          return state.reason
        }
        if let reason { continuation.resume(returning: reason) }
      }
    } onCancel: {
      finish(.interrupted)
    }
    for task in state.withLock({ $0.tasks }) { task.cancel() }
    return reason
  }

  func finish(_ reason: Reason) {
    let waiter = state.withLock { state in
      guard state.reason == nil else { return state.waiter.take() }
      state.reason = reason
      return state.waiter.take()
    }
    waiter?.resume(returning: state.withLock { $0.reason ?? reason })
  }
}
