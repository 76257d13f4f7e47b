import Synchronization

/// Where the producer of a bounded queue last went on at the start of the storage, though its end was not reached.
///
/// Positions only grow. A queue that is mostly empty would walk through the whole of its storage: all of it resident, and
/// each record in memory that is cold. So a producer that finds it empty begins again at the start. What it leaves out takes
/// no room: nothing is in it, and the consumer jumps over it as well.
struct QueueRewind: ~Copyable, Sendable {
  /// A sixteenth of the storage is walked through.
  private static let part = 16

  private let mask: Int
  /// Stored before the position behind it is published.
  private let place = Atomic<Int>(-1)

  /// - Parameter capacity: a power of two.
  init(capacity: Int) { mask = capacity - 1 }

  /// Whether `end` is so far from the start that an empty queue begins again.
  func isDue(at end: Int) -> Bool { end & mask > mask / Self.part }

  /// The next position at the start of the storage, for a producer that stands at `end` of an empty queue; `nil` where it is
  /// not due. Producer only.
  func begin(at end: Int) -> Int? {
    guard isDue(at: end) else { return nil }
    place.store(end, ordering: .relaxed)
    return (end | mask) + 1
  }

  /// Positions that were left out before a consumer that stands at `start`.
  func gap(at start: Int) -> Int { next(start) - start }

  /// Where a consumer that stands at `start` finds what was published: behind what was left out.
  func next(_ start: Int) -> Int {
    place.load(ordering: .relaxed) == start ? (start | mask) + 1 : start
  }
}
