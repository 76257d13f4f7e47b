import JSONText
package import Recording

/// Rows as lines of InfluxDB's line protocol: the table, the device's address as a tag, the columns as fields, and the first column as
/// the time, in nanoseconds.
///
/// A name is no tag: it is not always known, and a row that is written twice, while it is recorded and by a conversion, is to be the
/// same point. Rows of the same time, such as the RR intervals of one message, are a nanosecond apart each. Integers end in `i`; a
/// missing value has no field, and a row without any no line. InfluxData, Line protocol (element escapes): in tags a comma, an equals
/// sign and a space take a backslash before them; a backslash itself has no escape there, so one becomes a slash.
package struct LineProtocol: Sendable {
  private let tags: [UInt8]
  private let columns: [RecordedColumn]
  /// Rows whose values were all missing.
  private(set) var empty = 0
  private var previous: Int64?
  /// Rows with the time of the one before: a database keeps one point of a time.
  private var repeats: Int64 = 0

  /// - Parameter device: its address; text from a file, maybe.
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

  /// Appends the line of a row.
  package mutating func append(_ words: [UInt64], to octets: inout [UInt8]) {
    let (start, time) = (octets.count, Int64(bitPattern: words[0]))
    repeats = time == previous ? repeats &+ 1 : 0
    previous = time
    octets += tags
    var mark = UInt8(ascii: " ")
    for (column, word) in zip(columns, words).dropFirst() where !isMissing(column, word) {
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

  private func isMissing(_ column: RecordedColumn, _ word: UInt64) -> Bool {
    TableCell.isMissing(word, column.kind) || column.zeroIsDropout && word == 0
  }

  private static func value(_ column: RecordedColumn, _ word: UInt64) -> String {
    switch column.kind {
    case .int16, .uint16, .int32, .int64: "\(Int64(bitPattern: word))i"
    case .float32, .float64: "\(Double(bitPattern: word))"
    // Words of ours have nothing to escape.
    case .word(let list): "\"\(list[Int(word)])\""
    }
  }
}
