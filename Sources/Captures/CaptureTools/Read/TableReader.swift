import BLELinux
import BLEPacketLog
import BLEWire
import JSONText
package import Recording

/// Reader of the rows of a recorded table. Memory use does not depend on the size of the table.
///
/// An invalid row is skipped and reported in `problem`. A damaged file ends at the damage; the rows before it
/// are valid.
package protocol TableReader: AnyObject {
  var table: RecordedTable { get }
  /// Cells of the last row, one word per column (`TableCell`).
  var words: [UInt64] { get }
  /// Number of rows read so far.
  var rows: Int { get }
  var problem: String? { get }
  /// Advances to the next row; returns `false` at the end.
  func next() -> Bool
}

/// Problems of a text table: skipped rows, and the reason why reading ended early.
struct TableDamage {
  private var first: String?
  private var leftOut = 0
  private var end: String?

  var hasEnded: Bool { end != nil }

  /// Records a skipped row.
  mutating func leaveOut(_ why: @autoclosure () -> String) {
    if first == nil { first = why() }
    leftOut += 1
  }

  /// Records the reason why reading ended early.
  mutating func end(_ why: String) { end = end ?? why }

  var problem: String? {
    guard let first else { return end }
    let rows =
      leftOut == 1
      ? "this row is left out" : "this and \(counted(leftOut - 1, "more row")) are left out"
    return "\(first); \(rows)" + (end.map { "; \($0)" } ?? "")
  }
}

/// Table stored as text.
final class TextTableReader: TableReader {
  let table: RecordedTable
  private(set) var words: [UInt64] = []
  private(set) var rows = 0
  var problem: String? { damage.problem }

  /// Maximum length of a line in bytes. A recorder's lines are shorter.
  private static let lineLimit = 4096

  private var lines: TableLines
  private var damage = TableDamage()

  init(_ table: RecordedTable, in directory: String) throws(SystemError) {
    self.table = table
    lines = try TableLines(path: directory + "/" + table.fileName, limit: Self.lineLimit)
    // Skip the header, which was already used to identify the table.
    _ = readLine()
  }

  /// Returns the first line of a file, truncated to the maximum length.
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

  /// Parses the cells of a line. Returns `false` if the row is skipped.
  private func readWords() -> Bool {
    words.removeAll(keepingCapacity: true)
    let line = lines.line
    var place = 0
    for (number, column) in table.columns.enumerated() {
      var end = place
      while end < line.count, line[end] != UInt8(ascii: ",") { end += 1 }
      // The last cell ends at the end of the line; each other cell ends at a comma.
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
      damage.end("\(here("\(error)")); the \(counted(rows, "row before it is", "rows before it are")) good")
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
    // The text is a rounded multiple of 1/512 g. Restore the exact value.
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
      // Accumulate a negative number, because the range has one more negative number than positive numbers.
      let (sum, isStillTooLarge) = shifted.subtractingReportingOverflow(digit)
      guard !isTooLarge, !isStillTooLarge else { return nil }
      number = sum
      place += 1
    }
    if isNegative { return number }
    return number == .min ? nil : -number
  }

  /// Parses decimal digits with a point, as a recorder writes them. The result is the nearest Double, because
  /// dividend and divisor are exact.
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

  /// Parses numbers with more digits than a recorder writes, for example from other programs. Slower, with
  /// the same accuracy.
  private static func long(_ octets: ArraySlice<UInt8>) -> Double? {
    let isNumber = octets.allSatisfy {
      (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-")
    }
    return isNumber ? Double(String(decoding: octets, as: UTF8.self)) : nil
  }
}

/// Reads the lines of a text table. Memory use does not depend on the size of the table.
struct TableLines: ~Copyable {
  /// Reason why a line cannot be read.
  enum Fault: Error, CustomStringConvertible {
    case cutOff, tooLong
    /// Zero bytes, at the end of the file or before other lines.
    case zeros(atEnd: Bool)
    case input(CompressedInput.Problem)

    var description: String {
      switch self {
      case .cutOff: "it is cut off"
      case .tooLong: "it is too long"
      case .zeros(let atEnd):
        "it contains zero bytes: the power failed before it was on disk"
          + (atEnd ? "" : "; the lines after them are left out")
      case .input(let problem): "\(problem)"
      }
    }
  }

  /// Last line, without its line feed.
  private(set) var line: [UInt8] = []
  /// Number of the last line, valid or not. The first line has number 1.
  private(set) var number = 0
  /// Maximum length of a line, in bytes.
  private let limit: Int
  private var input: CompressedInput
  private var piece: [UInt8] = []
  private var taken = 0

  /// Opens the file of a table, compressed or not.
  init(path: String, limit: Int) throws(SystemError) {
    input = try CompressedInput(regularFile: path)
    self.limit = limit
    line.reserveCapacity(limit)
  }

  /// Advances to the next line; returns `false` at the end.
  mutating func next() throws(Fault) -> Bool {
    line.removeAll(keepingCapacity: true)
    number += 1
    while true {
      if taken == piece.count, try !fill() {
        guard line.isEmpty else { throw .cutOff }
        return false
      }
      let octet = piece[taken]
      taken += 1
      if octet == UInt8(ascii: "\n") { break }
      if octet == 0 { throw .zeros(atEnd: try skipZeros()) }
      guard line.count < limit else { throw .tooLong }
      line.append(octet)
    }
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    return true
  }

  /// Skips zero bytes.
  ///
  /// - Returns: whether the file ends after them.
  private mutating func skipZeros() throws(Fault) -> Bool {
    while true {
      while taken < piece.count {
        if piece[taken] != 0 { return false }
        taken += 1
      }
      if try !fill() { return true }
    }
  }

  private mutating func fill() throws(Fault) -> Bool {
    taken = 0
    piece = []
    do throws(CompressedInput.Problem) { piece = try input.next() } catch { throw .input(error) }
    return !piece.isEmpty
  }
}

/// Reads a table stored as arrays. A row is complete if every column's header counts it and every file
/// contains it.
final class ArrayTableReader: TableReader {
  let table: RecordedTable
  private(set) var words: [UInt64] = []
  private(set) var rows = 0
  private(set) var problem: String?
  private var columns: [ArrayInput] = []

  /// Opens the files of a table.
  ///
  /// - Throws: an error if a column's file cannot be opened. If a file is not an array, the error is reported
  ///   in `problem`.
  init(_ table: RecordedTable, in directory: String) throws(SystemError) {
    self.table = table
    for column in table.columns {
      let path = table.name + "/" + ColumnFiles.fileName(column)
      let input = try ArrayInput(directory + "/" + path, column.kind)
      if let problem = input.problem { self.problem = self.problem ?? "\(path): \(problem); table left out" }
      columns.append(input)
    }
  }

  func next() -> Bool {
    guard problem == nil else { return false }
    words.removeAll(keepingCapacity: true)
    for place in columns.indices {
      guard let word = columns[place].next() else { return end(at: place) }
      words.append(word)
    }
    rows += 1
    return true
  }

  /// Handles the end of a column. After a recorder was killed, columns may be longer than the first column,
  /// which is valid. A shorter column is damaged.
  private func end(at place: Int) -> Bool {
    let column = columns[place]
    if place > 0 || column.isShort {
      let path = table.name + "/" + ColumnFiles.fileName(table.columns[place])
      problem = "\(path): it ends early; the \(counted(rows, "row before is", "rows before are")) good"
    }
    return false
  }
}

/// Reads one array, element by element.
private final class ArrayInput {
  /// Reason why the file is not a valid array.
  private(set) var problem: String?
  private let kind: RecordedColumn.Kind
  private var input: CompressedInput
  private var octets: [UInt8] = []
  private var taken = 0
  /// Number of elements counted by the header that were not read yet.
  private var left = 0
  private(set) var isShort = false

  init(_ path: String, _ kind: RecordedColumn.Kind) throws(SystemError) {
    self.kind = kind
    input = try CompressedInput(regularFile: path)
    readHead()
  }

  /// Returns the next cell; `nil` at the end.
  func next() -> UInt64? {
    guard left > 0 else { return nil }
    guard fill(kind.byteCount) else {
      isShort = true
      return nil
    }
    left -= 1
    defer { taken += kind.byteCount }
    switch kind {
    case .int16: return UInt64(bitPattern: Int64(Int16(truncatingIfNeeded: number(taken, 2))))
    case .uint16: return number(taken, 2)
    case .int32: return UInt64(bitPattern: Int64(Int32(truncatingIfNeeded: number(taken, 4))))
    case .int64, .float64: return number(taken, 8)
    case .float32: return Double(Float(bitPattern: UInt32(number(taken, 4)))).bitPattern
    case .word(let list):
      let scalars = stride(from: 0, to: kind.byteCount, by: 4).compactMap {
        Unicode.Scalar(UInt32(number(taken + $0, 4)))
      }
      let text = String(String.UnicodeScalarView(scalars.prefix { $0.value != 0 }))
      return list.firstIndex(of: text).map { UInt64($0) } ?? TableCell.missing
    }
  }

  /// Decodes a little-endian number.
  private func number(_ offset: Int, _ byteCount: Int) -> UInt64 {
    var number: UInt64 = 0
    for index in (0..<byteCount).reversed() { number = number << 8 | UInt64(octets[offset + index]) }
    return number
  }

  /// Reads until at least `byteCount` bytes are available. Returns `false` if the file ends first.
  private func fill(_ byteCount: Int) -> Bool {
    while octets.count - taken < byteCount {
      guard let piece = try? input.next(), !piece.isEmpty else { return false }
      octets.removeSubrange(..<taken)
      taken = 0
      octets += piece
    }
    return true
  }

  /// Reads the header of NEP 1: the magic string, the version, the length of the text, and the text.
  private func readHead() {
    guard fill(10), Array(octets[..<6]) == [0x93] + Array("NUMPY".utf8), octets[6] == 1 else {
      problem = "not a NumPy array of format 1.0"
      return
    }
    let length = Int(number(8, 2))
    guard fill(10 + length) else {
      problem = "its header is truncated"
      return
    }
    let text = String(decoding: octets[10..<10 + length], as: UTF8.self)
    taken = 10 + length
    let prefix = "{'descr': '\(kind.type)', 'fortran_order': False, 'shape': ("
    guard text.hasPrefix(prefix), let count = Int(text.dropFirst(prefix.count).prefix { $0 != "," }),
      count >= 0
    else {
      problem = "not one dimension of \(kind.type)"
      return
    }
    left = count
  }
}
