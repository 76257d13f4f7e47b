import BLEHost
import BLELinux
public import BLEWire
import Synchronization

/// Receive times of samples on the current link. The session computes gaps from them. Written by the receive
/// thread.
public final class SampleTimes: Sendable {
  /// Time of the first sample, in nanoseconds; `none` before the first sample.
  private let firstTime = Atomic<Int64>(SampleTimes.none)
  /// Time of the last sample, in nanoseconds; `none` before the first sample.
  private let lastTime = Atomic<Int64>(SampleTimes.none)
  private static let none = Int64.min
  /// Number of samples on the current link.
  private let linkCount = Atomic<Int>(0)
  /// Number of samples on all links.
  private let totalCount = Atomic<Int>(0)
  private let lastMayBeLast = Atomic<Bool>(false)
  /// Number of intervals between samples on ended links, and their sum in nanoseconds.
  private let earlier = Mutex<(intervals: Int64, nanoseconds: Int64)>((0, 0))
  /// Counter of the current link's ATT requests.
  private let requests = Mutex<RequestCounter?>(nil)
  private let requestsBefore = Atomic<Int>(-1)
  private let waiters = Waiters()

  public init() {}

  /// Time of the link's first sample; `nil` before the first sample.
  public var first: ReceiveTime? { Self.time(firstTime) }
  /// Time of the link's last sample; `nil` before the first sample.
  public var last: ReceiveTime? { Self.time(lastTime) }

  /// Number of ATT requests on the link before its first sample; `nil` if there is no sample.
  public var requestsBeforeFirst: Int? {
    let count = requestsBefore.load(ordering: .relaxed)
    return count < 0 ? nil : count
  }

  /// Number of samples on all links.
  package var count: Int { totalCount.load(ordering: .relaxed) }
  /// Whether the sensor may have paused after its last sample because there is nothing to measure.
  package var mayRest: Bool { lastMayBeLast.load(ordering: .relaxed) }

  /// Mean time between two samples of a link; `nil` for fewer than two samples.
  package var meanInterval: Duration? {
    var (intervals, nanoseconds) = earlier.withLock { $0 }
    if linkCount.load(ordering: .relaxed) > 0, let first, let last {
      intervals += Int64(linkCount.load(ordering: .relaxed) - 1)
      nanoseconds += (last - first).nanoseconds
    }
    return intervals > 0 ? .nanoseconds(max(0, nanoseconds / intervals)) : nil
  }

  /// Records a sample. Call on the receive thread only.
  ///
  /// - Parameters:
  ///   - time: receive time of the sample.
  ///   - mayBeLast: whether the sensor may pause after this sample.
  public func note(_ time: ReceiveTime, mayBeLast: Bool = false) {
    // Only one thread writes, so no atomic read-modify-write operation is needed.
    linkCount.store(linkCount.load(ordering: .relaxed) + 1, ordering: .relaxed)
    totalCount.store(totalCount.load(ordering: .relaxed) + 1, ordering: .relaxed)
    lastMayBeLast.store(mayBeLast, ordering: .relaxed)
    if firstTime.load(ordering: .relaxed) == Self.none {
      firstTime.store(time.nanoseconds, ordering: .relaxed)
      noteFirst()
    }
    lastTime.store(time.nanoseconds, ordering: .relaxed)
  }

  /// Records the first sample of a link. Called once per link; it may lock, and wakes waiting tasks.
  private func noteFirst() {
    if let count = requests.withLock({ $0?.value }) { requestsBefore.store(count, ordering: .relaxed) }
    waiters.wakeAll()
  }

  /// Waits for the first sample or the end of the link.
  ///
  /// - Throws: `CancellationError` if the task is cancelled first.
  func waitForFirst() async throws(CancellationError) {
    try await waiters.waitUnlessCancelled { first != nil || requests.withLock { $0 == nil } }
  }

  /// Starts a new link.
  func begin(_ requests: RequestCounter) {
    linkCount.store(0, ordering: .relaxed)
    firstTime.store(Self.none, ordering: .relaxed)
    lastTime.store(Self.none, ordering: .relaxed)
    requestsBefore.store(-1, ordering: .relaxed)
    self.requests.withLock { $0 = requests }
  }

  /// Ends the link.
  func end() {
    if linkCount.load(ordering: .relaxed) > 0, let first, let last {
      earlier.withLock {
        $0.intervals += Int64(max(0, linkCount.load(ordering: .relaxed) - 1))
        $0.nanoseconds += (last - first).nanoseconds
      }
    }
    linkCount.store(0, ordering: .relaxed)
    requests.withLock { $0 = nil }
    waiters.wakeAll()
  }

  private static func time(_ value: borrowing Atomic<Int64>) -> ReceiveTime? {
    let nanoseconds = value.load(ordering: .relaxed)
    return nanoseconds == none ? nil : ReceiveTime(nanoseconds: nanoseconds)
  }
}
