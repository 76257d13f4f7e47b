import BLEWire

/// Sorts the records of a `PacketQueue` by time.
///
/// A packet's timestamp is the time when the kernel received it; the packet then waits in its socket until
/// the receive thread reads it. Packets that are sent meanwhile, and packets of a link whose socket is read
/// first, are queued before it although their timestamps are later. A record therefore waits here until no
/// earlier one can arrive: until a record that is later by `window` has arrived, or a turn of the writer has
/// passed.
///
/// For use on a single thread. Memory has a fixed size and is allocated at the start.
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
  /// Maximum step back in time between records. A larger one means that the clock was set.
  private static let largestStep = TimeSpan(nanoseconds: 10_000_000_000)

  private struct Entry: BitwiseCopyable {
    let time: ReceiveTime
    let tag: UInt32
    /// Total number of records dropped before this one.
    var dropped: Int
    /// Offset of the record in `octets`.
    var start: Int
    let count: Int
    /// Whether the record was present when the previous turn ended.
    var isOld = false
  }

  /// The waiting records in order of time; records with equal times are in order of arrival.
  private var entries: [Entry] = []
  private var octets: [UInt8] = []
  /// Buffer for the remaining bytes while other records are removed.
  private var spare: [UInt8] = []

  init() {
    entries.reserveCapacity(Self.recordLimit.count)
    octets.reserveCapacity(Self.byteLimit.count)
    spare.reserveCapacity(Self.byteLimit.count)
  }

  var isEmpty: Bool { entries.isEmpty }

  /// Whether there is room for a record of any length that an HCI packet can have.
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
    /// No more records will come.
    case end
  }

  /// Passes each due record to `body`, with the arguments of `PacketQueue.pop`, and removes it.
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
