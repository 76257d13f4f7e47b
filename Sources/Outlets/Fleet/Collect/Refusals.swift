import BLEWire

/// Messages that were refused: how many of whom, and why.
///
/// Whoever sends them chooses publishers' names, so only those of the latest are counted apart; the sum has all.
package struct Refusals: Sendable {
  package enum Reason: String, Hashable, Sendable {
    /// The topic is none of a publisher's.
    case topic
    /// The message is none of a publisher's.
    case malformed
    /// The table is there with other columns.
    case columns
    /// The session has as many tables as one may have.
    case tables
    /// The publisher has as much as one may have.
    case share
    /// Everything is taken, by publishers that have no more than this one.
    case full
  }

  /// What one publisher was refused for one reason.
  package struct Entry: Hashable, Sendable {
    /// `nil`: the topic names none.
    package var publisher: String?
    package var reason: Reason
    package var count = 0
    /// The latest in words.
    package var last = ""
    fileprivate var untold = 0
    fileprivate var heardAt = MonotonicTime(nanoseconds: 0)
  }

  private struct Key: Hashable {
    var publisher: String?
    var reason: Reason
  }

  static let limit = Limit(
    64, "publishers, each with a reason, whose refused messages are counted apart", by: .broker,
    whenFull: "the one refused longest ago goes", counted: "`refusalsForgotten` of `collect`")
  /// From one line about refusals to the next.
  static let period = Duration.seconds(10)

  package private(set) var count = 0
  package private(set) var last: String?
  /// Refusals whose publisher is not among `entries` any more.
  package private(set) var forgotten = 0
  private var table: [Key: Entry] = [:]
  private var untold = 0
  private var toldAt: MonotonicTime?

  /// Those with the most first.
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

  /// A line about what was refused since the last one: at once about the first, then one in each period.
  ///
  /// - Returns: `nil` where there is nothing to tell now.
  mutating func line(_ now: MonotonicTime) -> String? {
    guard untold > 0, let last, toldAt.map({ $0.advanced(by: Self.period) <= now }) ?? true else {
      return nil
    }
    var line = "a message is refused: \(last)"
    if untold > 1 {
      line = "\(untold) messages are refused"
      if let most = table.values.max(by: { $0.untold < $1.untold }), let publisher = most.publisher {
        line += ", \(most.untold) of them of \(publisher)"
      }
      line += "; the last: \(last)"
    }
    (untold, toldAt) = (0, now)
    for key in table.keys { table[key]?.untold = 0 }
    return line
  }
}
