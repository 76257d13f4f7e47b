import Synchronization

/// A bounded queue from one thread to another, without locks or allocations. Elements that do not fit are
/// dropped and counted.
///
/// One producer and one consumer at a time.
@safe public final class SampleQueue<Element: BitwiseCopyable & Sendable>: @unchecked Sendable {
  // No lock: only the producer writes `head`, only the consumer writes `tail`. Each side publishes its
  // position with release and reads the other position with acquire.
  private let storage: UnsafeMutablePointer<Element>
  private let mask: Int
  private let head = Atomic<Int>(0)
  private let tail = Atomic<Int>(0)
  private let rewind: QueueRewind
  private let droppedCount = Atomic<Int>(0)

  /// Creates a queue.
  ///
  /// - Parameter capacity: maximum number of elements; rounded up to a power of two.
  public init(capacity: Int) {
    precondition(capacity > 0)
    var size = 1
    while size < capacity { size *= 2 }
    mask = size - 1
    rewind = QueueRewind(capacity: size)
    // SAFETY: owned only by this object and freed in deinit.
    unsafe storage = UnsafeMutablePointer<Element>.allocate(capacity: size)
  }

  deinit {
    // SAFETY: elements are bitwise copyable, so nothing needs deinitialising.
    unsafe storage.deallocate()
  }

  public var capacity: Int { mask + 1 }

  /// Number of elements dropped because the queue was full.
  public var dropped: Int { droppedCount.load(ordering: .relaxed) }

  /// Appends an element. Producer only.
  ///
  /// - Returns: `false` if the queue was full and the element was dropped.
  @discardableResult
  public func push(_ element: Element) -> Bool {
    var end = head.load(ordering: .relaxed)
    let start = tail.load(ordering: .acquiring)
    if start == end {
      end = rewind.begin(at: end) ?? end
    } else if end - start - rewind.gap(at: start) > mask {
      droppedCount.add(1, ordering: .relaxed)
      return false
    }
    // SAFETY: the slot is free: the consumer has passed it, and only this thread writes.
    unsafe (storage + (end & mask)).initialize(to: element)
    head.store(end + 1, ordering: .releasing)
    return true
  }

  /// Removes the first element. Consumer only.
  public func pop() -> Element? {
    let start = tail.load(ordering: .relaxed)
    guard start != head.load(ordering: .acquiring) else { return nil }
    let place = rewind.next(start)
    // SAFETY: the slot was published by the producer's release.
    let element = unsafe storage[place & mask]
    tail.store(place + 1, ordering: .releasing)
    return element
  }

  /// Number of queued elements: an upper bound for the producer, a lower bound for the consumer.
  public var count: Int {
    let end = head.load(ordering: .acquiring)
    let start = tail.load(ordering: .acquiring)
    return max(0, end - start - rewind.gap(at: start))
  }

  public var isHalfFull: Bool { 2 * count > capacity }

  public var isEmpty: Bool {
    tail.load(ordering: .acquiring) == head.load(ordering: .acquiring)
  }
}
