import BLELinux
import BLEPacketLog
import Recording

/// Reads a table stored as arrays. A row is complete if every column's header counts it and every file
/// contains it.
final class ArrayTableReader: TableReader {
  let table: RecordedTable
  private(set) var words: [UInt64] = []
  private(set) var rows = 0
  private(set) var problem: String?
  private var columns: [ArrayInput] = []

  /// - Throws: if a column's file cannot be opened. If a file is not an array, `problem` says so.
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

  /// A killed recorder can leave columns longer than the first one, which is valid. A shorter column is
  /// damaged.
  private func end(at place: Int) -> Bool {
    let column = columns[place]
    if place > 0 || column.isShort {
      let path = table.name + "/" + ColumnFiles.fileName(table.columns[place])
      problem = "\(path): it ends early; the \(rows) rows before are good"
    }
    return false
  }
}

/// Reads one array, element by element.
private final class ArrayInput {
  /// The reason why the file is not a valid array.
  private(set) var problem: String?
  private let kind: RecordedColumn.Kind
  private var input: CompressedInput
  private var octets: [UInt8] = []
  private var taken = 0
  /// Elements that the header counts and that were not read yet.
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

  /// Reads until at least `byteCount` bytes are available; returns `false` if the file ends before.
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
