public import BLECore
package import BLELinux
import Synchronization

/// A value that is decoded on the receive thread.
public protocol NotificationSample: BitwiseCopyable, Sendable {
  /// - Parameters:
  ///   - value: borrows the receive slab.
  ///   - time: the kernel's stamp.
  init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError)
}

/// A bounded queue of samples from the receive thread to one task.
public final class SampleChannel<Sample: NotificationSample>: AsyncSequence, Sendable {
  private struct State: Sendable {
    var waiter: CheckedContinuation<Void, Never>?
    var isFinished = false
  }

  /// A recorder takes the samples straight from here; then nobody may iterate.
  package let ring: SampleQueue<Sample>
  private let state = Mutex(State())
  private let isWaiting = Atomic<Bool>(false)
  private let malformedCount = Atomic<Int>(0)

  package init(capacity: Int) { ring = SampleQueue(capacity: capacity) }

  /// Samples lost because the task was too slow.
  public var dropped: Int { ring.dropped }
  /// Values that could not be decoded.
  public var malformed: Int { malformedCount.load(ordering: .relaxed) }

  /// Decodes and queues one value. Receive thread only.
  func take(_ value: Span<UInt8>, at time: ReceiveTime) {
    do throws(WireError) { take(try Sample(decoding: value, at: time)) } catch { reject() }
  }

  /// Counts a value that could not be decoded. Receive thread only.
  package func reject() { malformedCount.add(1, ordering: .relaxed) }

  /// Queues a sample that was decoded elsewhere. Receive thread only.
  package func take(_ sample: Sample) {
    ring.push(sample)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isWaiting.load(ordering: .relaxed) { wake() }
  }

  /// Ends the sequence once what waits was taken.
  public func finish() {
    state.withLock { $0.isFinished = true }
    wake()
  }

  private func wake() {
    isWaiting.store(false, ordering: .relaxed)
    let waiter = state.withLock { state in
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume()
  }

  private func next() async -> Sample? {
    while true {
      if let sample = ring.pop() { return sample }
      if state.withLock(\.isFinished) { return ring.pop() }
      await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
          state.withLock { $0.waiter = continuation }
          isWaiting.store(true, ordering: .relaxed)
          atomicMemoryFence(ordering: .sequentiallyConsistent)
          // Whatever came since the look above has not seen the waiter.
          if !ring.isEmpty || state.withLock(\.isFinished) || Task.isCancelled { wake() }
        }
      } onCancel: {
        finish()
      }
    }
  }

  public struct Iterator: AsyncIteratorProtocol {
    let channel: SampleChannel
    public func next() async -> Sample? { await channel.next() }
  }

  public func makeAsyncIterator() -> Iterator { Iterator(channel: self) }
}
