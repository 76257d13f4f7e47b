package import BLELinux
public import BLEWire
import Synchronization

/// A value that is decoded on the receive thread.
public protocol NotificationSample: BitwiseCopyable, Sendable {
  /// Decodes a value.
  ///
  /// - Parameters:
  ///   - value: borrows the receive slab.
  ///   - time: the kernel's timestamp.
  init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError)

  /// Whether the sample contains a measurement; `true` by default. A sample without a measurement does not
  /// count as a value.
  var isValue: Bool { get }

  /// Whether the sensor may pause after this sample because it has nothing to measure. By default, `true` if
  /// the sample contains no measurement.
  var mayBeLast: Bool { get }
}

extension NotificationSample {
  public var isValue: Bool { true }
  public var mayBeLast: Bool { !isValue }
}

/// A bounded queue that passes samples from the receive thread to one task.
public final class SampleChannel<Sample: NotificationSample>: AsyncSequence, Sendable {
  /// The queue of samples, which a recorder may read directly. No task may iterate at the same time.
  package let ring: SampleQueue<Sample>
  private let isFinished = Atomic<Bool>(false)
  private let reader = Waiters()
  /// Whether the reader must be woken. Most samples arrive while the reader is busy; no lock is then taken.
  private let isWaiting = Atomic<Bool>(false)
  private let malformedCount = Atomic<Int>(0)

  package init(capacity: Int) { ring = SampleQueue(capacity: capacity) }

  /// Number of samples dropped because the reader was too slow.
  public var dropped: Int { ring.dropped }
  /// Number of values that could not be decoded.
  public var malformed: Int { malformedCount.load(ordering: .relaxed) }

  /// Decodes and queues one value. Receive thread only.
  func take(_ value: Span<UInt8>, at time: ReceiveTime) {
    do throws(WireError) { take(try Sample(decoding: value, at: time)) } catch { reject() }
  }

  /// Counts a value that could not be decoded. Receive thread only.
  package func reject() { malformedCount.add(1, ordering: .relaxed) }

  /// Queues a sample that was already decoded. Receive thread only.
  package func take(_ sample: Sample) {
    ring.push(sample)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isWaiting.load(ordering: .relaxed) { wake() }
  }

  /// Ends the sequence after the queued samples.
  public func finish() {
    isFinished.store(true, ordering: .sequentiallyConsistent)
    wake()
  }

  private func wake() {
    isWaiting.store(false, ordering: .relaxed)
    reader.wakeAll()
  }

  private func next() async -> Sample? {
    if let sample = ring.pop() { return sample }
    await withTaskCancellationHandler {
      await reader.wait {
        isWaiting.store(true, ordering: .relaxed)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return !ring.isEmpty || isFinished.load(ordering: .sequentiallyConsistent)
      }
    } onCancel: {
      finish()
    }
    isWaiting.store(false, ordering: .relaxed)
    return ring.pop()
  }

  public struct Iterator: AsyncIteratorProtocol {
    let channel: SampleChannel
    public func next() async -> Sample? { await channel.next() }
  }

  public func makeAsyncIterator() -> Iterator { Iterator(channel: self) }
}
