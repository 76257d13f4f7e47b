import BLECore
import BLEHost
import BLEStack
import BLESystem
import Synchronization

/// Waits for the first thing that ends a capture, and shows progress meanwhile.
final class CaptureEnd: Sendable {
  enum Reason: Hashable, Sendable {
    case count, duration, interrupted, disk
    case link(BearerEnd)

    /// As in `session.json`.
    var text: String {
      switch self {
      case .count: "count reached"
      case .duration: "duration over"
      case .interrupted: "interrupted"
      case .disk: "the disk refused to take more"
      case .link(let end): "\(end)"
      }
    }
  }

  private struct State: Sendable {
    var reason: Reason?
    var waiter: CheckedContinuation<Reason, Never>?
    var tasks: [Task<Void, Never>] = []
  }

  private let connection: Connection
  private let sink: RingSink
  private let recorder: Recorder
  private let limits: RingCapture.Limits
  private let state = Mutex(State())

  init(connection: Connection, sink: RingSink, recorder: Recorder, limits: RingCapture.Limits) {
    self.connection = connection
    self.sink = sink
    self.recorder = recorder
    self.limits = limits
    recorder.onFailure { [weak self] in self?.finish(.disk) }
    sink.onComplete { [weak self] in self?.finish(.count) }
  }

  /// Starts to look at the clock and the link.
  func startTimers(_ progress: @escaping @Sendable (RingCapture.Progress) -> Void) {
    let begin = ContinuousClock.now
    let ticker = Task { [self] in
      while (try? await Task.sleep(for: .seconds(1))) != nil {
        progress(
          RingCapture.Progress(
            samples: sink.sampleCount, malformed: sink.malformed,
            lost: sink.samples.dropped + (await connection.statistics.kernelQueueDrops),
            elapsed: ContinuousClock.now - begin))
      }
    }
    let link = Task(executorPreference: connection.loop.preference) { [self] in
      finish(.link(await connection.ended()))
    }
    var tasks = [ticker, link]
    if let duration = limits.duration {
      tasks.append(
        Task(executorPreference: connection.loop.preference) { [self] in
          if (try? await connection.loop.wait(for: duration)) != nil { finish(.duration) }
        })
    }
    state.withLock { $0.tasks += tasks }
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

  /// The error that the capture ends with, if it was not asked to end.
  func failure(_ outcome: Recorder.Outcome, _ link: RingCapture.Link) -> HostError? {
    if let failure = outcome.failure { return .system(failure) }
    if case .link(let end) = state.withLock(\.reason) { return .gatt(.closed(end)) }
    return nil
  }

  private func finish(_ reason: Reason) {
    let waiter = state.withLock { state in
      guard state.reason == nil else { return state.waiter.take() }
      state.reason = reason
      return state.waiter.take()
    }
    waiter?.resume(returning: state.withLock { $0.reason ?? reason })
  }
}
