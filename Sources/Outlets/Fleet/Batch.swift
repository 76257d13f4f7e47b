import BLEWire
import JSONText

/// Rows of a table in one message: a line with a JSON object, followed by the rows as lines of CSV.
///
/// ```
/// {"version":1,"publisher":"ward-3","session":"5f1e…","table":"ppg","header":"time_ns,…","row":1200,"count":2,"from":0}
/// 1700000000000000000,512,530,498,32
/// 1700000000010000000,514,531,499,32
/// ```
///
/// Session, table and `row` identify each row permanently. A receiver that knows how many rows it has can
/// detect duplicate and missing rows.
package struct Batch: Hashable, Sendable {
  /// Maximum size of the rows' text, in bytes.
  static let byteCountLimit = 1 << 16
  static let headerByteCountLimit = 4096
  static let rowLimit = 1 << 48
  private static let version = 1

  var publisher: String
  var session: String
  var table: String
  /// Column names: the table's first line, without its line feed.
  var header: String
  /// Number of the batch's first row. The first row of the table is 0.
  var row: Int
  var count: Int
  /// Number of the first row that the publisher can still send. Earlier rows were skipped permanently.
  var from: Int
  /// `count` lines, each with its line feed.
  var rows: [UInt8]

  /// The reason for rejecting a message. The text helps the user find the sender.
  package struct Refusal: Error, Hashable, CustomStringConvertible {
    package let description: String
    package let reason: Refusals.Reason

    init(_ description: String, _ reason: Refusals.Reason = .malformed) {
      (self.description, self.reason) = (description, reason)
    }
  }

  var octets: [UInt8] {
    var line = JSONLine()
    line.object {
      $0.member("version", Self.version)
      $0.member("publisher", publisher)
      $0.member("session", session)
      $0.member("table", table)
      $0.member("header", header)
      $0.member("row", row)
      $0.member("count", count)
      $0.member("from", from)
    }
    line.endLine()
    return line.octets + rows
  }
}

extension Batch {
  /// Parses a message.
  ///
  /// - Throws: `Refusal` if the message is not a batch or does not match its topic.
  init(parsing payload: Span<UInt8>, publisher: String, session: String, table: String) throws(Refusal) {
    let (document, body) = try FleetMessage.split(payload, version: Self.version)
    guard document["publisher"]?.text == publisher, document["session"]?.text == session,
      document["table"]?.text == table
    else { throw Refusal("the batch names another table than its topic") }
    guard let header = document["header"]?.text, Self.isHeader(header) else {
      throw Refusal("the header is not a line of CSV")
    }
    let numbers = ["row", "count", "from"].map { document[$0]?.integer(Int.self) ?? -1 }
    guard numbers.allSatisfy({ (0..<Self.rowLimit).contains($0) }), numbers[1] > 0, numbers[2] <= numbers[0]
    else {
      throw Refusal("row, count and from are inconsistent")
    }
    guard body.count <= Self.byteCountLimit, Self.lineCount(body) == numbers[1] else {
      throw Refusal("the rows are not \(counted(numbers[1], "line")) of CSV in \(Self.byteCountLimit) bytes")
    }
    self.init(
      publisher: publisher, session: session, table: table, header: header, row: numbers[0],
      count: numbers[1],
      from: numbers[2], rows: body)
  }

  /// Returns whether a text is valid as a header: printable ASCII, because the header becomes part of a file
  /// that other programs read.
  static func isHeader(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= headerByteCountLimit
      && text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
  }

  /// Returns the number of lines.
  ///
  /// - Returns: `nil` if the last line has no line feed, or if a byte is not allowed in CSV.
  private static func lineCount(_ octets: [UInt8]) -> Int? {
    guard octets.last == UInt8(ascii: "\n") else { return nil }
    var count = 0
    for octet in octets {
      if octet == UInt8(ascii: "\n") { count += 1 } else if !isText(octet) { return nil }
    }
    return count
  }

  /// Returns whether a byte is allowed in a line of CSV.
  static func isText(_ octet: UInt8) -> Bool { (0x20..<0x7F).contains(octet) }

  /// Returns the rows after the first `count`.
  func rows(after count: Int) -> ArraySlice<UInt8> {
    var (rest, left) = (rows[...], count)
    while left > 0, let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
      rest = rest[(end + 1)...]
      left -= 1
    }
    return rest
  }
}
