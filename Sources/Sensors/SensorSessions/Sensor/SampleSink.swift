public import BLEHost
import BLELinux
public import BLEWire
import Synchronization

/// Numbers of notifications and samples of a sensor, over all links of a session.
package struct SampleCounts: Hashable, Sendable {
  /// Number of notifications of any kind.
  package var received = 0
  /// Number of samples without a value, for example because the sensor is not worn.
  package var states = 0
  /// Number of notifications with an invalid format.
  package var malformed = 0
  /// Number of valid notifications that are not samples, such as replies of a ring or unknown subtypes.
  package var other = 0
  /// Number of samples that were received again on another characteristic.
  package var repeated = 0
  /// Number of samples that were dropped because the queue was full.
  package var dropped = 0

  package init() {}

  /// Number of samples with a value, whether queued or dropped.
  package var values: Int { received - states - malformed - other - repeated }
}

/// Meaning of a notification.
package enum SampleReading<Sample: NotificationSample>: BitwiseCopyable {
  case sample(Sample)
  /// The notification is valid, but not a sample.
  case other
  /// The sample was already received on another characteristic.
  case repeated
}

/// Reason why a sink accepts no more samples.
package enum SampleEnd: Hashable, Sendable {
  /// The requested number of values was reached.
  case limit
  /// The sensor ended the stream, although the link is up.
  case sensor
}

/// Decodes, counts and queues each notification of a sensor, over all links. It does not allocate memory, and
/// locks only for malformed notifications.
public final class SampleSink<Sample: NotificationSample>: Sendable {
  /// Type of reader that empties the queue.
  package enum Reader: Hashable, Sendable {
    /// Task, which is woken for each sample that it waits for.
    case task
    /// Thread, which the connection wakes at the end of each batch.
    case recorder
  }

  package let samples: SampleChannel<Sample>
  /// Sample times on the current link.
  package let times = SampleTimes()
  private let reader: Reader
  private let limit: Int
  private let tap: PacketTap?
  private let isOpen = Atomic<Bool>(true)
  private let receivedCount = Atomic<Int>(0)
  private let stateCount = Atomic<Int>(0)
  private let otherCount = Atomic<Int>(0)
  private let repeatedCount = Atomic<Int>(0)
  private let lastError = Mutex<WireError?>(nil)
  private let isEnded = Atomic<Bool>(false)
  private let linkCount = Atomic<Int>(0)
  private let ended: @Sendable (SampleEnd) -> Void

  /// Creates a sink.
  ///
  /// - Parameters:
  ///   - samples: queue for a reader that may be slow.
  ///   - reader: type of the queue's reader.
  ///   - limit: number of values after which the sink and the packet log stop; `nil` for no limit.
  ///   - tap: tap of the packet log.
  ///   - ended: called on the receive thread when the sink accepts no more samples.
  package init(
    _ samples: SampleChannel<Sample> = SampleChannel(capacity: 1024), for reader: Reader = .task,
    limit: Int? = nil, tap: PacketTap? = nil,
    ended: @escaping @Sendable (SampleEnd) -> Void = { _ in }
  ) {
    self.samples = samples
    self.reader = reader
    self.limit = limit ?? .max
    self.tap = tap
    self.ended = ended
  }

  package var counts: SampleCounts {
    var counts = SampleCounts()
    counts.received = receivedCount.load(ordering: .relaxed)
    counts.states = stateCount.load(ordering: .relaxed)
    counts.malformed = samples.malformed
    counts.other = otherCount.load(ordering: .relaxed)
    counts.repeated = repeatedCount.load(ordering: .relaxed)
    counts.dropped = samples.dropped
    return counts
  }

  /// Whether the sensor ended the stream although the link is up.
  package var isEndedBySensor: Bool { isEnded.load(ordering: .relaxed) }
  package var lastMalformed: WireError? { lastError.withLock { $0 } }

  /// Assigns a number to a new link, from 1, and returns it.
  package func nextLink() -> Int { linkCount.add(1, ordering: .relaxed).newValue }

  // MARK: Receive thread only

  /// Decodes and queues one value. Malformed values are counted.
  package func take(_ value: Span<UInt8>, at time: ReceiveTime) {
    take(at: time) { () throws(WireError) in .sample(try Sample(decoding: value, at: time)) }
  }

  /// Processes one notification.
  ///
  /// - Parameters:
  ///   - time: receive time.
  ///   - read: decodes the notification.
  package func take(at time: ReceiveTime, _ read: () throws(WireError) -> SampleReading<Sample>) {
    guard isOpen.load(ordering: .relaxed) else { return }
    receivedCount.add(1, ordering: .relaxed)
    do throws(WireError) {
      switch try read() {
      case .sample(let sample):
        switch reader {
        case .task: samples.take(sample)
        case .recorder: samples.ring.push(sample)
        }
        times.note(time, mayBeLast: sample.mayBeLast)
        if !sample.isValue {
          stateCount.add(1, ordering: .relaxed)
        } else if limit < .max, counts.values >= limit {
          isOpen.store(false, ordering: .relaxed)
          tap?.close()
          ended(.limit)
        }
      case .other: otherCount.add(1, ordering: .relaxed)
      case .repeated: repeatedCount.add(1, ordering: .relaxed)
      }
    } catch {
      samples.reject()
      lastError.withLock { $0 = error }
    }
  }

  /// Ends the stream after the sensor stopped it.
  package func end() {
    isEnded.store(true, ordering: .relaxed)
    samples.finish()
    ended(.sensor)
  }
}

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
