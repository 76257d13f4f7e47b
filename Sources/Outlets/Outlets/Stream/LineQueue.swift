import BLEWire
import JSONText

/// Lines that are sent to all readers at once.
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

/// Queue of lines for one reader. If the queue is full, lines are dropped for this reader only, and counted.
/// Once there is space again, a line `missed` reports their number in their place.
struct LineQueue {
  /// Type of a line. It decides how much of the queue the line may use.
  enum Kind: Sendable {
    case sample
    /// A rare line that is more important than a sample. It may exceed the limit.
    case notice
  }

  static let limit = Limit(
    1 << 20, "bytes of lines that wait for one reader of a stream", by: .program,
    whenFull: "further lines are dropped for this reader only", counted: "`missed` lines to the reader")
  /// Bytes beyond the limit that are reserved for notices.
  static let reserve = 64 << 10
  /// Bytes that must be free before lines are accepted again. With less, there would be a line `missed` for
  /// every few lines.
  static let leastRoom = 64 << 10

  private var waiting: [UInt8] = []
  /// Bytes that the sender has taken but not sent yet.
  private var underWay = 0
  /// Number of dropped lines that have not been reported to the reader yet.
  private(set) var untold = 0
  /// Total number of dropped lines.
  private(set) var missed = 0

  var isEmpty: Bool { waiting.isEmpty }
  /// Number of lines that the sender has not taken yet.
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

  /// Takes all queued bytes and leaves an empty buffer for reuse.
  mutating func take(into octets: inout [UInt8]) {
    octets.removeAll(keepingCapacity: true)
    swap(&octets, &waiting)
    underWay = octets.count
  }

  /// Records that some of the taken bytes have been sent.
  mutating func noteSent(_ count: Int) {
    underWay -= count
    // Report dropped lines now, because there may be no further line to trigger the report.
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
