public import BLEHost
import BLELinux
package import BLEWire
import Synchronization

/// What came of a sensor over all links of a session.
package struct SampleCounts: Hashable, Sendable {
  /// Notifications, whatever became of them.
  package var received = 0
  /// Samples without a value: the sensor had nothing to measure.
  package var states = 0
  /// Notifications that broke their format.
  package var malformed = 0
  /// Whole ones that are no samples: replies of a ring, subtypes that nobody knows.
  package var other = 0
  /// Samples that came a second time by another characteristic.
  package var repeated = 0
  /// Samples that found no room in the queue.
  package var dropped = 0

  package init() {}

  /// Samples with a value, whether they found room in the queue or not.
  package var values: Int { received - states - malformed - other - repeated }
}

/// What a notification of a sensor turned out to be.
package enum SampleReading<Sample: NotificationSample>: BitwiseCopyable {
  case sample(Sample)
  /// Whole, but no sample.
  case other
  /// A sample that came before, by another characteristic.
  case repeated
}

/// Why a sink takes no more.
package enum SampleEnd: Hashable, Sendable {
  /// The last value wanted has come.
  case limit
  /// The sensor ended the stream by itself, though the link is up.
  case sensor
}

/// Decodes, counts and queues each notification of a sensor, over all links. No lock but for what is malformed, and no
/// allocation.
public final class SampleSink<Sample: NotificationSample>: Sendable {
  /// Who takes the samples from the queue.
  package enum Reader: Hashable, Sendable {
    /// A task, which is woken for each that finds it waiting.
    case task
    /// A thread that the connection wakes at the end of each batch.
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

  /// - Parameters:
  ///   - capacity: samples that may wait for a slow reader.
  ///   - reader: who takes them.
  ///   - limit: values after which nothing more is taken, packet log included; `nil` for none.
  ///   - tap: fills the packet log.
  ///   - ended: called on the receive thread.
  package init(
    capacity: Int = 1024, for reader: Reader = .task, limit: Int? = nil, tap: PacketTap? = nil,
    ended: @escaping @Sendable (SampleEnd) -> Void = { _ in }
  ) {
    samples = SampleChannel(capacity: capacity)
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

  /// Whether the sensor ended the stream, though the link is up.
  package var isEndedBySensor: Bool { isEnded.load(ordering: .relaxed) }
  package var lastMalformed: WireError? { lastError.withLock { $0 } }

  /// Number of a link that begins, from 1.
  package func nextLink() -> Int { linkCount.add(1, ordering: .relaxed).newValue }

  // MARK: Receive thread only

  /// Decodes and queues one value; what cannot be decoded is counted.
  package func take(_ value: Span<UInt8>, at time: ReceiveTime) {
    take(at: time) { () throws(WireError) in .sample(try Sample(decoding: value, at: time)) }
  }

  /// The same with a decoder for what has more than one form.
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

  /// The sensor has ended the stream.
  package func end() {
    isEnded.store(true, ordering: .relaxed)
    samples.finish()
    ended(.sensor)
  }
}
