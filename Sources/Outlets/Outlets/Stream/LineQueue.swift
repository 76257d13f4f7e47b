import BLEWire
import JSONText

/// Lines that go to all readers at once.
struct LineBatch: Sendable {
  private(set) var octets: [UInt8] = []
  /// Offset of the end of each line.
  private(set) var ends: [Int] = []

  mutating func append(_ line: [UInt8]) {
    octets += line
    ends.append(octets.count)
  }

  mutating func removeAll() {
    octets.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
  }
}

/// Queue of lines for one reader. Lines that do not fit are dropped for this reader only. They are counted,
/// and a line `missed` reports them in their place once there is room.
struct LineQueue {
  /// Type of a line, which decides how much room it has.
  enum Kind: Sendable {
    case sample
    /// Rare, and more important than a sample: it may exceed the limit.
    case notice
  }

  static let limit = Limit(
    1 << 20, "bytes of lines that wait for one reader of a stream", by: .program,
    whenFull: "further lines are dropped for this reader only", counted: "`missed` lines to the reader")
  /// Bytes beyond the limit, for notices.
  static let reserve = 64 << 10
  /// Bytes that must be free before lines are accepted again. Otherwise there would be a line `missed` for
  /// every few lines.
  static let leastRoom = 64 << 10

  private var waiting: [UInt8] = []
  /// Bytes that the sender has taken and not sent yet.
  private var underWay = 0
  /// Dropped lines not yet reported to the reader.
  private(set) var untold = 0
  /// All dropped lines.
  private(set) var missed = 0

  var isEmpty: Bool { waiting.isEmpty }
  /// Number of lines that the sender has not taken.
  var waitingCount: Int { waiting.count { $0 == UInt8(ascii: "\n") } }

  private var byteCount: Int { waiting.count + underWay }

  mutating func append(_ batch: LineBatch) {
    if untold == 0, byteCount + batch.octets.count <= Self.limit.count {
      waiting += batch.octets
      return
    }
    var start = 0
    for end in batch.ends {
      append(batch.octets[start..<end], .sample)
      start = end
    }
  }

  mutating func append(_ line: some Collection<UInt8>, _ kind: Kind) {
    let limit = Self.limit.count + (kind == .notice ? Self.reserve : 0)
    let least = untold > 0 && kind == .sample ? Self.leastRoom : 0
    guard byteCount + max(line.count, least) <= limit else {
      untold += 1
      missed += 1
      return
    }
    tellMissed()
    waiting += line
  }

  /// Takes all queued bytes in exchange for an empty buffer to reuse.
  mutating func take(into octets: inout [UInt8]) {
    octets.removeAll(keepingCapacity: true)
    swap(&octets, &waiting)
    underWay = octets.count
  }

  /// Records that some of the taken bytes were sent.
  mutating func noteSent(_ count: Int) {
    underWay -= count
    // Reported now, because no further line may come that would trigger it.
    if untold > 0, byteCount + Self.leastRoom <= Self.limit.count { tellMissed() }
  }

  private mutating func tellMissed() {
    guard untold > 0 else { return }
    var line = JSONLine()
    line.object { line in
      line.member("stream", "missed")
      line.member("lines", untold)
    }
    line.endLine()
    waiting += line.octets
    untold = 0
  }
}
