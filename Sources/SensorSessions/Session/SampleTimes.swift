public import BLECore
import BLEHost
import BLELinux
import Synchronization

/// When samples came over the link that is up, for the session to know its gaps. Written by the receive thread.
public final class SampleTimes: Sendable {
  /// Nanoseconds; `none` before the first.
  private let firstTime = Atomic<Int64>(SampleTimes.none)
  private let lastTime = Atomic<Int64>(SampleTimes.none)
  private static let none = Int64.min
  /// Of the link that is up.
  private let requests = Mutex<RequestCounter?>(nil)
  private let requestsBefore = Atomic<Int>(-1)
  private let waiters = Waiters()

  public init() {}

  /// The first and the last sample of the link; `nil` where there was none.
  public var first: ReceiveTime? { Self.time(firstTime) }
  public var last: ReceiveTime? { Self.time(lastTime) }

  /// ATT requests that the link had sent when its first sample came; `nil` where none came.
  public var requestsBeforeFirst: Int? {
    let count = requestsBefore.load(ordering: .relaxed)
    return count < 0 ? nil : count
  }

  /// Receive thread only.
  public func note(_ time: ReceiveTime) {
    if firstTime.load(ordering: .relaxed) == Self.none {
      firstTime.store(time.nanoseconds, ordering: .relaxed)
      noteFirst()
    }
    lastTime.store(time.nanoseconds, ordering: .relaxed)
  }

  /// Once a link: it may lock and wake others.
  private func noteFirst() {
    if let count = requests.withLock({ $0?.value }) { requestsBefore.store(count, ordering: .relaxed) }
    waiters.wakeAll()
  }

  /// Waits for the link's first sample, or its end.
  ///
  /// - Throws: where the task is cancelled before.
  func waitForFirst() async throws(CancellationError) {
    try await waiters.waitUnlessCancelled { first != nil || requests.withLock { $0 == nil } }
  }

  /// A new link.
  func begin(_ requests: RequestCounter) {
    firstTime.store(Self.none, ordering: .relaxed)
    lastTime.store(Self.none, ordering: .relaxed)
    requestsBefore.store(-1, ordering: .relaxed)
    self.requests.withLock { $0 = requests }
  }

  /// The link is over.
  func end() {
    requests.withLock { $0 = nil }
    waiters.wakeAll()
  }

  private static func time(_ value: borrowing Atomic<Int64>) -> ReceiveTime? {
    let nanoseconds = value.load(ordering: .relaxed)
    return nanoseconds == none ? nil : ReceiveTime(nanoseconds: nanoseconds)
  }
}
