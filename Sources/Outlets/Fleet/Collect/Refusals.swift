import BLEWire

/// Counts of rejected messages by publisher and reason.
///
/// The sender of a message chooses the publisher's name, so only the latest publishers have separate entries.
/// The total includes all messages.
package struct Refusals: Sendable {
  package enum Reason: String, Hashable, Sendable {
    /// A topic that is not a publisher's topic.
    case topic
    /// A malformed message.
    case malformed
    /// A table that exists with other columns.
    case columns
    /// A further table of a session with the maximum number of tables.
    case tables
    /// A publisher that has used all of its share.
    case share
    /// A message that needs a place when all places are used, and no other publisher has more places.
    case full
  }

  /// The rejected messages of one publisher, for one reason.
  package struct Entry: Hashable, Sendable {
    /// Name of the publisher; `nil` if the topic contains no publisher.
    package var publisher: String?
    package var reason: Reason
    package var count = 0
    /// Text of the latest rejection.
    package var last = ""
    fileprivate var untold = 0
    fileprivate var heardAt = MonotonicTime(nanoseconds: 0)
  }

  private struct Key: Hashable {
    var publisher: String?
    var reason: Reason
  }

  static let limit = Limit(
    64, "pairs of publisher and reason whose refused messages are counted separately", by: .broker,
    whenFull: "the one refused longest ago is dropped", counted: "`refusalsForgotten` of `collect`")
  /// Interval between lines about rejected messages.
  static let period = Duration.seconds(10)

  package private(set) var count = 0
  package private(set) var last: String?
  /// Number of rejected messages whose publisher no longer has an entry.
  package private(set) var forgotten = 0
  private var table: [Key: Entry] = [:]
  private var untold = 0
  private var toldAt: MonotonicTime?

  /// The entries, largest count first.
  package var entries: [Entry] {
    table.values.sorted { ($1.count, $0.publisher ?? "") < ($0.count, $1.publisher ?? "") }
  }

  mutating func add(_ publisher: String?, _ reason: Reason, _ text: String, _ now: MonotonicTime) {
    count += 1
    untold += 1
    last = text
    let key = Key(publisher: publisher, reason: reason)
    if table[key] == nil, table.count >= Self.limit.count,
      let oldest = table.min(by: { $0.value.heardAt < $1.value.heardAt })
    {
      forgotten += oldest.value.count
      table[oldest.key] = nil
    }
    var entry = table[key] ?? Entry(publisher: publisher, reason: reason)
    entry.count += 1
    entry.untold += 1
    (entry.last, entry.heardAt) = (text, now)
    table[key] = entry
  }

  /// Returns a line about the messages rejected since the last line. The first rejection is reported at once,
  /// later rejections once per period.
  ///
  /// - Returns: `nil` if no line is due.
  mutating func line(_ now: MonotonicTime) -> String? {
    guard untold > 0, let last, toldAt.map({ $0.advanced(by: Self.period) <= now }) ?? true else {
      return nil
    }
    var line = "a message is refused: \(last)"
    if untold > 1 {
      line = "\(counted(untold, "message is", "messages are")) refused"
      if let most = table.values.max(by: { $0.untold < $1.untold }), let publisher = most.publisher {
        line += ", \(most.untold) of them from \(publisher)"
      }
      line += "; the last: \(last)"
    }
    (untold, toldAt) = (0, now)
    for key in table.keys { table[key]?.untold = 0 }
    return line
  }
}
