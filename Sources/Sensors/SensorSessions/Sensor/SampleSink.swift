public import BLEHost
import BLELinux
package import BLEWire
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
