public import BLEWire
import Synchronization

/// A bounded queue of timestamped byte records from one thread to another, without locks or allocations. The
/// receive thread uses it to pass packets to the log writer.
///
/// One producer and one consumer at a time. A record that does not fit is dropped and counted.
@safe public final class PacketQueue: @unchecked Sendable {
  // No lock: positions work as in `SampleQueue`, in bytes. A record never wraps around: if it does not fit
  // before the end of the storage, a filler with tag `skip` marks the rest as unused.
  private struct Header: BitwiseCopyable {
    var length: UInt32
    /// The producer's tag; `skip` for a filler.
    var tag: UInt32
    var time: Int64
    /// Total number of records that were dropped before this record.
    var dropped: Int64
  }

  private static let skip = UInt32.max
  private static let headerByteCount = MemoryLayout<Header>.size

  private let storage: UnsafeMutableRawPointer
  private let capacity: Int
  private let head = Atomic<Int>(0)
  private let tail = Atomic<Int>(0)
  private let rewind: QueueRewind
  private let droppedCount = Atomic<Int>(0)

  /// Creates a queue.
  ///
  /// - Parameter byteCount: storage size; rounded up to a power of two. Each record has 24 bytes of overhead.
  public init(byteCount: Int) {
    var size = 4096
    while size < byteCount { size *= 2 }
    capacity = size
    rewind = QueueRewind(capacity: size)
    // SAFETY: owned only by this object and freed in deinit.
    unsafe storage = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
  }

  deinit { unsafe storage.deallocate() }

  /// Number of records dropped because the queue was full.
  public var dropped: Int { droppedCount.load(ordering: .relaxed) }

  /// Returns whether a record of `byteCount` bytes would fit now. Producer only.
  public func hasRoom(for byteCount: Int) -> Bool {
    let needed = Self.roundedUp(Self.headerByteCount + byteCount)
    let end = head.load(ordering: .relaxed)
    let start = tail.load(ordering: .acquiring)
    if start == end, rewind.isDue(at: end) { return needed <= capacity }
    return end - start - rewind.gap(at: start) + filler(before: needed, at: end) + needed <= capacity
  }

  /// Appends a copy of `record`. Producer only.
  ///
  /// - Parameters:
  ///   - tag: passed to the consumer unchanged; any number except `UInt32.max`.
  ///   - time: passed to the consumer unchanged.
  ///   - record: bytes of the record.
  /// - Returns: `false` if the queue was full and the record was dropped.
  @discardableResult
  public func push(
    tag: UInt32, time: ReceiveTime, _ record: Span<UInt8>
  ) -> Bool {
    let needed = Self.roundedUp(Self.headerByteCount + record.count)
    var end = head.load(ordering: .relaxed)
    let start = tail.load(ordering: .acquiring)
    var used = end - start
    if used > 0 {
      used -= rewind.gap(at: start)
    } else if needed <= capacity {
      end = rewind.begin(at: end) ?? end
    }
    let filler = filler(before: needed, at: end)
    guard used + filler + needed <= capacity else {
      droppedCount.add(1, ordering: .relaxed)
      return false
    }
    if filler > 0 {
      if filler >= Self.headerByteCount {
        write(Header(length: 0, tag: Self.skip, time: 0, dropped: 0), at: end)
      }
      end += filler
    }
    write(
      Header(
        length: UInt32(record.count), tag: tag, time: time.nanoseconds,
        dropped: Int64(droppedCount.load(ordering: .relaxed))), at: end)
    copy(record, to: end + Self.headerByteCount)
    head.store(end + needed, ordering: .releasing)
    return true
  }

  /// Lends the front record to `body`, then removes it. Consumer only.
  ///
  /// - Returns: `false` if the queue is empty.
  public func pop(
    _ body: (_ tag: UInt32, _ time: ReceiveTime, _ dropped: Int, _ record: Span<UInt8>) -> Void
  ) -> Bool {
    var start = tail.load(ordering: .relaxed)
    let end = head.load(ordering: .acquiring)
    guard start != end else { return false }
    start = rewind.next(start)
    let untilWrap = capacity - (start & (capacity - 1))
    if untilWrap < Self.headerByteCount || header(at: start).tag == Self.skip { start += untilWrap }
    let header = header(at: start)
    let offset = (start & (capacity - 1)) + Self.headerByteCount
    // SAFETY: the record was published by the producer's release and stays until `tail` moves.
    let bytes = unsafe UnsafeRawBufferPointer(start: storage + offset, count: Int(header.length))
    body(
      header.tag, ReceiveTime(nanoseconds: header.time), Int(header.dropped),
      unsafe Span(_unsafeBytes: bytes))
    tail.store(
      start + Self.roundedUp(Self.headerByteCount + Int(header.length)), ordering: .releasing)
    return true
  }

  /// Whether more than half of the storage is used.
  public var isHalfFull: Bool {
    let end = head.load(ordering: .acquiring)
    let start = tail.load(ordering: .acquiring)
    return 2 * (end - start - rewind.gap(at: start)) > capacity
  }

  public var isEmpty: Bool {
    tail.load(ordering: .acquiring) == head.load(ordering: .acquiring)
  }

  /// Returns the number of bytes up to the end of the storage if `needed` bytes do not fit before the end,
  /// otherwise 0.
  private func filler(before needed: Int, at end: Int) -> Int {
    let untilWrap = capacity - (end & (capacity - 1))
    return needed > untilWrap ? untilWrap : 0
  }

  private static func roundedUp(_ byteCount: Int) -> Int { (byteCount + 7) & ~7 }

  private func write(_ header: Header, at position: Int) {
    // SAFETY: the caller has checked that a header fits before the end of the storage.
    unsafe (storage + (position & (capacity - 1))).storeBytes(of: header, as: Header.self)
  }

  private func header(at position: Int) -> Header {
    // SAFETY: positions that hold a header are multiples of 8 and lie before the end.
    unsafe (storage + (position & (capacity - 1))).load(as: Header.self)
  }

  private func copy(_ bytes: Span<UInt8>, to position: Int) {
    guard !bytes.isEmpty else { return }
    // SAFETY: `push` has checked that the whole record fits before the end of the storage.
    unsafe bytes.withUnsafeBufferPointer {
      unsafe (storage + (position & (capacity - 1))).copyMemory(
        from: UnsafeRawPointer($0.baseAddress!), byteCount: $0.count)
    }
  }
}

/// The position at which the producer of a bounded queue last jumped back to the start of the storage.
///
/// Positions only grow. Without rewinds, a queue that is mostly empty would cycle through its whole storage:
/// all of it would become resident, and each record would be written to cold memory. Therefore a producer
/// that finds the queue empty continues at the start of the storage. The skipped positions hold no records
/// and use no capacity; the consumer also skips them.
struct QueueRewind: ~Copyable, Sendable {
  /// Divisor of the storage size: a producer rewinds after a sixteenth of the storage.
  private static let part = 16

  private let mask: Int
  /// Position at which the producer last jumped; −1 if it has not jumped. Stored before the next position is
  /// published.
  private let place = Atomic<Int>(-1)

  /// Creates a rewind.
  ///
  /// - Parameter capacity: a power of two.
  init(capacity: Int) { mask = capacity - 1 }

  /// Returns whether the producer of an empty queue at `end` should rewind.
  fileprivate func isDue(at end: Int) -> Bool { end & mask > mask / Self.part }

  /// Returns the next position at the start of the storage, for a producer at `end` whose queue is empty, or
  /// `nil` if no rewind is due. Producer only.
  func begin(at end: Int) -> Int? {
    guard isDue(at: end) else { return nil }
    place.store(end, ordering: .relaxed)
    return (end | mask) + 1
  }

  /// Returns the number of positions that a consumer at `start` must skip.
  func gap(at start: Int) -> Int { next(start) - start }

  /// Returns the position of the next record for a consumer at `start`, after any skipped positions.
  func next(_ start: Int) -> Int {
    place.load(ordering: .relaxed) == start ? (start | mask) + 1 : start
  }
}
