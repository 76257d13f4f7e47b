import BLECore
import JSONText
import Recording

/// Rows as lines of InfluxDB's line protocol: the table, the device as tags, the columns as fields, and the first column as the time, in
/// nanoseconds.
///
/// Integers end in `i`; a missing value has no field, and a row without any no line. InfluxData, Line protocol (element escapes): in
/// tags a comma, an equals sign and a space take a backslash before them; a backslash itself has no escape there, so a name's becomes a
/// slash.
struct LineProtocol {
  private let tags: [UInt8]
  private let columns: [RecordedColumn]
  private(set) var lines = 0
  /// Rows whose values were all missing.
  private(set) var empty = 0

  init(_ table: RecordedTable, _ session: JSONDocument?) {
    columns = table.columns
    var tags = Self.escaped(table.name)
    for (tag, value) in [("device", session?["device"]?["address"]), ("name", session?["device"]?["name"])] {
      guard let text = value?.text, !text.isEmpty else { continue }
      tags += Array(",\(tag)=".utf8) + Self.escaped(text.printable)
    }
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
  mutating func append(_ words: [UInt64], to octets: inout [UInt8]) {
    let start = octets.count
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
    octets += " \(Int64(bitPattern: words[0]))\n".utf8
    lines += 1
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
