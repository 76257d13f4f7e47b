import BLEWire

/// Sorts the records of a `PacketQueue` by time.
///
/// The kernel timestamps a packet on reception. The packet then waits in its socket until the receive thread
/// reads it. Before that, other packets with later timestamps can enter the queue: packets that are sent, and
/// packets of a link whose socket is read first. A record is therefore held until no earlier record can
/// arrive, which is when a record later by `window` has arrived or a turn of the writer has passed.
///
/// For use on a single thread. Memory is fixed and allocated in the initializer.
final class PacketOrder {
  static let recordLimit = Limit(
    4_096, "packets that wait to be sorted", by: .air,
    whenFull: "the earlier half is written as sorted so far", counted: "nothing is lost")
  static let byteLimit = Limit(
    262_144, "bytes of packets that wait to be sorted", by: .air,
    whenFull: "the earlier half is written as sorted so far", counted: "nothing is lost")
  /// Maximum size of a record in bytes: H4 type, header and data of an ACL packet. Core 5.4, Vol 4, Part E,
  /// 5.4.2.
  private static let longestRecord = 1 + 4 + 65_535
  private static let window = TimeSpan(nanoseconds: 100_000_000)
  /// Maximum backward step in time between records. A larger step means that the clock was set.
  private static let largestStep = TimeSpan(nanoseconds: 10_000_000_000)

  private struct Entry: BitwiseCopyable {
    let time: ReceiveTime
    let tag: UInt32
    /// Total number of records dropped before this record.
    var dropped: Int
    /// Offset of the record in `octets`.
    var start: Int
    let count: Int
    /// Whether the record was already held when the previous turn ended.
    var isOld = false
  }

  /// Held records in order of time. Records with equal times are in order of arrival.
  private var entries: [Entry] = []
  private var octets: [UInt8] = []
  /// Buffer for the remaining bytes while records are removed.
  private var spare: [UInt8] = []

  init() {
    entries.reserveCapacity(Self.recordLimit.count)
    octets.reserveCapacity(Self.byteLimit.count)
    spare.reserveCapacity(Self.byteLimit.count)
  }

  var isEmpty: Bool { entries.isEmpty }

  /// Whether there is room for an HCI packet of any size.
  var hasRoom: Bool {
    entries.count < Self.recordLimit.count && octets.count + Self.longestRecord <= Self.byteLimit.count
  }

  /// Adds a record, with the arguments of `PacketQueue.pop`.
  func take(_ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ record: Span<UInt8>) {
    var entry = Entry(time: time, tag: tag, dropped: dropped, start: octets.count, count: record.count)
    octets.append(addingCapacity: record.count) { $0.append(record) }
    entries.append(entry)
    var place = entries.count - 1
    while place > 0, comes(time, before: entries[place - 1].time) {
      swap(&entry.dropped, &entries[place - 1].dropped)
      entries[place] = entries[place - 1]
      place -= 1
    }
    entries[place] = entry
  }

  private func comes(_ time: ReceiveTime, before other: ReceiveTime) -> Bool {
    let step = other - time
    return step > .zero && step <= Self.largestStep
  }

  /// Reason for writing records.
  enum Occasion {
    /// A turn of the writer ends.
    case turn
    /// The buffer is full.
    case need
    /// There are no more records.
    case end
  }

  /// Calls `body` with each due record, with the arguments of `PacketQueue.pop`, and removes the record.
  func write(
    _ occasion: Occasion,
    _ body: (_ tag: UInt32, _ time: ReceiveTime, _ dropped: Int, _ record: Span<UInt8>) -> Void
  ) {
    let count = dueCount(occasion)
    for place in 0..<count {
      let entry = entries[place]
      body(
        entry.tag, entry.time, entry.dropped,
        octets.span.extracting(entry.start..<entry.start + entry.count))
    }
    entries.removeFirst(count)
    if entries.isEmpty { octets.removeAll(keepingCapacity: true) }
    if occasion == .turn { for place in entries.indices { entries[place].isOld = true } }
    if octets.count > Self.byteLimit.count / 4 { compact() }
  }

  private func dueCount(_ occasion: Occasion) -> Int {
    switch occasion {
    case .end: return entries.count
    case .need: return (entries.count + 1) / 2
    case .turn:
      guard !entries.isEmpty else { return 0 }
      let latest = entries[entries.count - 1].time
      var place = entries.count
      while place > 0, !entries[place - 1].isOld, latest - entries[place - 1].time < Self.window {
        place -= 1
      }
      return place
    }
  }

  private func compact() {
    spare.removeAll(keepingCapacity: true)
    for place in entries.indices {
      let (start, entry) = (spare.count, entries[place])
      for index in entry.start..<entry.start + entry.count { spare.append(octets[index]) }
      entries[place].start = start
    }
    swap(&octets, &spare)
  }
}
