import JSONText
package import Recording

/// Formats rows as lines of InfluxDB's line protocol. The table is the measurement, the device's address is a
/// tag, the columns are fields, and the first column is the timestamp in nanoseconds.
///
/// The device's name is not a tag, because it is not always known: a row must be the same point whether a
/// recording or a conversion writes it. Rows with the same time, such as the RR intervals of one message, are
/// written one nanosecond apart. Integers end in `i`. A missing value has no field, and a row without values
/// has no line. InfluxData, Line protocol (element escapes): in tags, commas, equals signs and spaces are
/// escaped by a backslash. Tags have no escape for the backslash, so it becomes a slash.
package struct LineProtocol: Sendable {
  private let tags: [UInt8]
  private let columns: [RecordedColumn]
  /// Number of rows without values.
  private(set) var empty = 0
  private var previous: Int64?
  /// Number of directly preceding rows with the same time. A database keeps one point per timestamp.
  private var repeats: Int64 = 0

  /// Creates a formatter for one table.
  ///
  /// - Parameter device: address of the device, which may be text from a file.
  package init(_ table: String, _ columns: [RecordedColumn], device: String?) {
    self.columns = columns
    var tags = Self.escaped(table)
    if let device, !device.isEmpty { tags += Array(",device=".utf8) + Self.escaped(device.printable) }
    self.tags = tags
  }

  private static func escaped(_ text: String) -> [UInt8] {
    text.utf8.flatMap { octet -> [UInt8] in
      switch octet {
      case UInt8(ascii: ","), UInt8(ascii: "="), UInt8(ascii: " "): [UInt8(ascii: "\\"), octet]
      case UInt8(ascii: "\\"): [UInt8(ascii: "/")]
      case ..<0x20: []
      default: [octet]
      }
    }
  }

  /// Appends the line of a row; nothing if all values are missing.
  package mutating func append(_ words: [UInt64], to octets: inout [UInt8]) {
    let (start, time) = (octets.count, Int64(bitPattern: words[0]))
    repeats = time == previous ? repeats &+ 1 : 0
    previous = time
    octets += tags
    var mark = UInt8(ascii: " ")
    for (column, word) in zip(columns, words).dropFirst() where !TableCell.isMissing(word, column.kind) {
      octets.append(mark)
      octets += column.name.utf8
      octets.append(UInt8(ascii: "="))
      octets += Self.value(column, word).utf8
      mark = UInt8(ascii: ",")
    }
    guard mark == UInt8(ascii: ",") else {
      octets.removeSubrange(start...)
      empty += 1
      return
    }
    octets += " \(time &+ repeats)\n".utf8
  }

  private static func value(_ column: RecordedColumn, _ word: UInt64) -> String {
    switch column.kind {
    case .int16, .uint16, .int32, .int64: "\(Int64(bitPattern: word))i"
    case .float32, .float64: "\(Double(bitPattern: word))"
    // The words of this column contain no characters that must be escaped.
    case .word(let list): "\"\(list[Int(word)])\""
    }
  }
}
