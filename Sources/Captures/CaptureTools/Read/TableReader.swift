import BLELinux
import BLEPacketLog
import JSONText
package import Recording

/// Reads the rows of a recorded table. Memory use does not grow with the table.
///
/// An invalid row is skipped; `problem` names it. A damaged file ends at the damage; the rows before it are
/// valid.
package protocol TableReader: AnyObject {
  var table: RecordedTable { get }
  /// The last row read, one word per column (`TableCell`).
  var words: [UInt64] { get }
  /// Rows read so far.
  var rows: Int { get }
  var problem: String? { get }
  /// Advances to the next row; returns `false` at the end.
  func next() -> Bool
}

/// Problems of a text table: the rows that were skipped, and the reason if reading ended early.
struct TableDamage {
  private var first: String?
  private var leftOut = 0
  private var end: String?

  var hasEnded: Bool { end != nil }

  /// Records a row that was skipped.
  mutating func leaveOut(_ why: @autoclosure () -> String) {
    if first == nil { first = why() }
    leftOut += 1
  }

  /// Records why reading ended early.
  mutating func end(_ why: String) { end = end ?? why }

  var problem: String? {
    guard let first else { return end }
    let rows = leftOut == 1 ? "this row is left out" : "this and \(leftOut - 1) more rows are left out"
    return "\(first); \(rows)" + (end.map { "; \($0)" } ?? "")
  }
}

/// A table of text.
final class TextTableReader: TableReader {
  let table: RecordedTable
  private(set) var words: [UInt64] = []
  private(set) var rows = 0
  var problem: String? { damage.problem }

  /// Longest line in bytes; a recorder's lines are shorter.
  private static let lineLimit = 4096

  private var lines: TableLines
  private var damage = TableDamage()

  init(_ table: RecordedTable, in directory: String) throws(SystemError) {
    self.table = table
    lines = try TableLines(path: directory + "/" + table.fileName, limit: Self.lineLimit)
    // The header was already used to identify the table.
    _ = readLine()
  }

  /// Returns the first line of a file, or the start of a long one.
  static func header(_ path: String) throws(SystemError) -> String {
    var input = try CompressedInput(regularFile: path)
    guard let piece = try? input.next() else { return "" }
    let line = piece.prefix(lineLimit).prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
    return String(decoding: line, as: UTF8.self)
  }

  func next() -> Bool {
    while !damage.hasEnded, readLine() {
      if readWords() {
        rows += 1
        return true
      }
    }
    return false
  }

  /// Parses the cells of a line; returns `false` if the row is skipped.
  private func readWords() -> Bool {
    words.removeAll(keepingCapacity: true)
    let line = lines.line
    var place = 0
    for (number, column) in table.columns.enumerated() {
      var end = place
      while end < line.count, line[end] != UInt8(ascii: ",") { end += 1 }
      // The last cell must end at the line's end; each other cell must end at a comma.
      guard (number == table.columns.count - 1) == (end == line.count) else {
        damage.leaveOut(here(end == line.count ? "too few columns" : "too many columns"))
        return false
      }
      guard let word = Self.word(line, place..<end, column.kind) else {
        let cell = line[place..<end].prefix(32)
        damage.leaveOut(
          here("'\(String(decoding: cell, as: UTF8.self).printable)' is no \(column.name.printable)"))
        return false
      }
      words.append(word)
      place = end + 1
    }
    return true
  }

  private func readLine() -> Bool {
    do throws(TableLines.Fault) { return try lines.next() } catch {
      damage.end("\(here("\(error)")); the \(rows) rows before it are good")
      return false
    }
  }

  private func here(_ why: String) -> String { "\(table.fileName), line \(lines.number): \(why)" }

  // MARK: Cells

  private static func word(
    _ line: [UInt8], _ range: Range<Int>, _ kind: RecordedColumn.Kind
  ) -> UInt64? {
    if range.isEmpty { return kind.canBeMissing ? TableCell.missing(kind) : nil }
    switch kind {
    case .int16, .uint16, .int32, .int64:
      guard let number = integer(line, range), kind.range?.contains(number) ?? (number != .min) else {
        return nil
      }
      return UInt64(bitPattern: number)
    // The text was rounded from counts of 1/512 g; restore the exact value.
    case .float32(decimals: 6): return real(line, range).map { (($0 * 512).rounded() / 512).bitPattern }
    case .float32, .float64: return real(line, range)?.bitPattern
    case .word(let list):
      let text = String(decoding: line[range], as: UTF8.self)
      return list.firstIndex(of: text).map { UInt64($0) }
    }
  }

  private static func integer(_ line: [UInt8], _ range: Range<Int>) -> Int64? {
    var place = range.lowerBound
    let isNegative = line[place] == UInt8(ascii: "-")
    if isNegative { place += 1 }
    guard place < range.upperBound else { return nil }
    var number: Int64 = 0
    while place < range.upperBound {
      let digit = Int64(line[place]) - 0x30
      guard (0...9).contains(digit) else { return nil }
      let (shifted, isTooLarge) = number.multipliedReportingOverflow(by: 10)
      // Accumulate a negative number, because the range has one more negative number than positive ones.
      let (sum, isStillTooLarge) = shifted.subtractingReportingOverflow(digit)
      guard !isTooLarge, !isStillTooLarge else { return nil }
      number = sum
      place += 1
    }
    if isNegative { return number }
    return number == .min ? nil : -number
  }

  /// Parses digits with a point as a recorder writes them. The result is the nearest number, since both parts
  /// of the quotient are exact.
  private static func real(_ line: [UInt8], _ range: Range<Int>) -> Double? {
    var (digits, divisor, hasPoint, count) = (0 as Int64, 1.0, false, 0)
    var place = range.lowerBound
    let isNegative = line[place] == UInt8(ascii: "-")
    if isNegative { place += 1 }
    while place < range.upperBound {
      let octet = line[place]
      place += 1
      if octet == UInt8(ascii: "."), !hasPoint {
        hasPoint = true
        continue
      }
      let digit = Int64(octet) - 0x30
      guard (0...9).contains(digit) else { return nil }
      if count == 15 { return long(line[range]) }
      digits = digits * 10 + digit
      if hasPoint { divisor *= 10 }
      count += 1
    }
    guard count > 0 else { return nil }
    return (isNegative ? -1 : 1) * Double(digits) / divisor
  }

  /// Parses numbers with more digits than a recorder writes, such as those from other programs. It is slower,
  /// with the same accuracy.
  private static func long(_ octets: ArraySlice<UInt8>) -> Double? {
    let isNumber = octets.allSatisfy {
      (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-")
    }
    return isNumber ? Double(String(decoding: octets, as: UTF8.self)) : nil
  }
}
