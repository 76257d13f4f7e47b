import Synchronization

/// The position at which the producer of a bounded queue last jumped back to the start of the storage.
///
/// Positions only grow. A queue that is mostly empty would cycle through its whole storage: all of it would
/// become resident, and each record would be written to cold memory. Therefore a producer that finds the
/// queue empty continues at the start of the storage. The skipped positions hold no records and use no
/// capacity; the consumer skips them too.
struct QueueRewind: ~Copyable, Sendable {
  /// Divisor of the storage size: a producer rewinds after a sixteenth of the storage.
  private static let part = 16

  private let mask: Int
  /// Stored before the position that follows it is published.
  private let place = Atomic<Int>(-1)

  /// Creates a rewind.
  ///
  /// - Parameter capacity: a power of two.
  init(capacity: Int) { mask = capacity - 1 }

  /// Whether the producer of an empty queue at `end` should rewind.
  func isDue(at end: Int) -> Bool { end & mask > mask / Self.part }

  /// The next position at the start of the storage, for a producer at `end` whose queue is empty; `nil` if no
  /// rewind is due. Producer only.
  func begin(at end: Int) -> Int? {
    guard isDue(at: end) else { return nil }
    place.store(end, ordering: .relaxed)
    return (end | mask) + 1
  }

  /// Number of positions that a consumer at `start` must skip.
  func gap(at start: Int) -> Int { next(start) - start }

  /// Position of the next record for a consumer at `start`, after any skipped positions.
  func next(_ start: Int) -> Int {
    place.load(ordering: .relaxed) == start ? (start | mask) + 1 : start
  }
}
