import BLEWire
import JSONText

/// Lines that go to all readers at once.
struct LineBatch: Sendable {
  private(set) var octets: [UInt8] = []
  /// Where each line ends.
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

/// The lines that wait for one reader. What finds no room is lost to that reader alone: it is counted, and told in its place, by
/// a line `missed`, as soon as there is room.
struct LineQueue {
  /// What a line is, and so how much room there is for it.
  enum Kind: Sendable {
    case sample
    /// Seldom, and worth more than a sample: it finds room beyond the limit.
    case notice
  }

  static let limit = Limit(
    1 << 20, "bytes of lines that wait for one reader of a stream", by: .program,
    whenFull: "further lines are dropped for that reader alone", counted: "the lines `missed` that it gets")
  /// Bytes beyond the limit, for notices.
  static let reserve = 64 << 10
  /// Bytes that must be free before lines are taken again: else there would be a line `missed` for each few.
  static let leastRoom = 64 << 10

  private var waiting: [UInt8] = []
  /// What the sender has taken and not sent.
  private var underWay = 0
  /// Lines that the reader was not told of.
  private(set) var untold = 0
  /// All that it missed.
  private(set) var missed = 0

  var isEmpty: Bool { waiting.isEmpty }
  /// Lines that nobody has taken.
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

  /// Takes all that waits, in exchange for memory to use again.
  mutating func take(into octets: inout [UInt8]) {
    octets.removeAll(keepingCapacity: true)
    swap(&octets, &waiting)
    underWay = octets.count
  }

  /// Some of what was taken is sent.
  mutating func noteSent(_ count: Int) {
    underWay -= count
    // Nothing may come any more that would tell it.
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
