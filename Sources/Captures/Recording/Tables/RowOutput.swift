import BLEWire
package import ColmiRing
package import JSONText

/// Row of a recorded table, independent of the output format.
package protocol RecordedRow {
  /// Appends the cells of the row to `output`, in the order of the columns.
  func encode<Output: RowOutput>(into output: inout Output)
}

/// Output that accepts the cells of a row.
package protocol RowOutput {
  mutating func append(_ number: Int64)
  /// Appends a number, which text output rounds half away from zero.
  mutating func append(_ number: Double, decimals: Int)
  mutating func append(word: String)
  /// Appends empty cells.
  mutating func appendMissing(_ count: Int)
  /// Appends the cells of a raw sample: all columns of its table after the time.
  mutating func append(_ sample: RingRawSample)
}

extension RowOutput {
  package mutating func append(_ number: Int64?) {
    if let number { append(number) } else { appendMissing(1) }
  }

  package mutating func append(_ number: Double?, decimals: Int) {
    if let number { append(number, decimals: decimals) } else { appendMissing(1) }
  }
}

extension RecordedRow {
  /// Appends the row as a line of CSV.
  package func appendRow(to text: inout [UInt8]) {
    var row = TextRow(&text)
    encode(into: &row)
    row.end(&text)
  }
}

/// Cells as comma-separated text.
struct TextRow: RowOutput {
  private var octets: [UInt8] = []
  private var isFirst = true

  /// Takes over the text without a copy, and leaves an empty array in its place.
  init(_ text: inout [UInt8]) { swap(&octets, &text) }

  /// Ends the line and returns the text.
  mutating func end(_ text: inout [UInt8]) {
    octets.append(UInt8(ascii: "\n"))
    swap(&octets, &text)
  }

  mutating func append(_ number: Int64) {
    separate()
    octets.append(decimal: number)
  }

  mutating func append(_ number: Double, decimals: Int) {
    separate()
    octets.append(number, decimals: decimals)
  }

  mutating func append(word: String) {
    separate()
    octets.append(contentsOf: word.utf8)
  }

  mutating func appendMissing(_ count: Int) { for _ in 0..<count { separate() } }

  mutating func append(_ sample: RingRawSample) {
    isFirst = false
    octets.appendColumns(sample)
  }

  private mutating func separate() {
    if !isFirst { octets.append(UInt8(ascii: ",")) }
    isFirst = false
  }
}

/// Cells as words, encoded according to the columns.
package struct WordRow: RowOutput, Sendable {
  /// Words of consecutive rows.
  package private(set) var words: [UInt64] = []
  private let kinds: [RecordedColumn.Kind]
  /// Column of the next cell.
  private var place = 0

  package init(_ columns: [RecordedColumn], wordCapacity: Int) {
    kinds = columns.map(\.kind)
    words.reserveCapacity(wordCapacity + columns.count)
  }

  /// Ends the row. The next cell is the first of another row.
  package mutating func endRow() {
    precondition(place == kinds.count, "\(place) cells for \(kinds.count) columns")
    place = 0
  }

  package mutating func removeAll() { words.removeAll(keepingCapacity: true) }

  package mutating func append(_ number: Int64) {
    switch kinds[place] {
    case .int16, .uint16, .int32, .int64, .word: words.append(UInt64(bitPattern: number))
    case .float32, .float64: words.append(Double(number).bitPattern)
    }
    place += 1
  }

  package mutating func append(_ number: Double, decimals: Int) {
    words.append(number.bitPattern)
    place += 1
  }

  package mutating func append(word: String) {
    guard case .word(let list) = kinds[place] else { preconditionFailure("a word in a column of numbers") }
    words.append(list.firstIndex(of: word).map { UInt64($0) } ?? TableCell.missing)
    place += 1
  }

  package mutating func appendMissing(_ count: Int) {
    for _ in 0..<count {
      words.append(TableCell.missing(kinds[place]))
      place += 1
    }
  }

  /// Appends a cell that is already encoded.
  mutating func append(cell: UInt64) {
    words.append(cell)
    place += 1
  }

  package mutating func append(_ sample: RingRawSample) {
    switch sample {
    case .accelerometer(let a):
      append(Int64(a.x))
      append(Int64(a.y))
      append(Int64(a.z))
      append(g: a.x)
      append(g: a.y)
      append(g: a.z)
    case .ppg(let p): append(p.reading, p.max, p.min, p.diff)
    case .spO2(let s): append(s.reading, s.max, s.min, s.diff)
    case .unknown: break
    }
  }

  private mutating func append(_ reading: UInt16?, _ max: UInt16, _ min: UInt16, _ diff: UInt16) {
    if let reading { append(Int64(reading)) } else { appendMissing(1) }
    append(Int64(max))
    append(Int64(min))
    append(Int64(diff))
  }

  /// Appends counts converted to g. The conversion is exact: 512 counts are 1 g.
  private mutating func append(g counts: Int16) { append(Double(counts) / 512, decimals: 6) }
}

/// Row of words, with the columns that describe them.
package struct WordCells: RecordedRow {
  package let columns: [RecordedColumn]
  package let words: [UInt64]

  package init(columns: [RecordedColumn], words: [UInt64]) {
    self.columns = columns
    self.words = words
  }

  package func encode<Output: RowOutput>(into output: inout Output) {
    for (column, word) in zip(columns, words) {
      guard !TableCell.isMissing(word, column.kind) else {
        output.appendMissing(1)
        continue
      }
      switch column.kind {
      case .int16, .uint16, .int32, .int64: output.append(Int64(bitPattern: word))
      case .float32(let decimals), .float64(let decimals):
        output.append(Double(bitPattern: word), decimals: decimals)
      case .word(let list): output.append(word: list[Int(word)])
      }
    }
  }
}

extension JSONLine {
  /// Appends the cells of a row as members named after the columns; an empty cell is `null`.
  package mutating func members(of row: some RecordedRow, _ columns: [RecordedColumn]) {
    var words = WordRow(columns, wordCapacity: columns.count)
    row.encode(into: &words)
    words.endRow()
    members(columns, words.words)
  }

  /// Appends cells as members. Times are strings, because JavaScript and jq would round such large numbers.
  package mutating func members(_ columns: [RecordedColumn], _ words: [UInt64]) {
    for (column, word) in zip(columns, words) {
      key(column.name)
      value(word, column)
    }
  }

  package mutating func value(_ word: UInt64, _ column: RecordedColumn) {
    guard !TableCell.isMissing(word, column.kind) else { return null() }
    switch column.kind {
    case .int64 where column.unit == "ns": value(nanoseconds: Int64(bitPattern: word))
    case .int16, .uint16, .int32, .int64: value(Int64(bitPattern: word))
    case .float32(decimals: 0), .float64(decimals: 0):
      let number = Double(bitPattern: word)
      if let whole = Int64(exactly: number) { value(whole) } else { value(number) }
    case .float32, .float64: value(Double(bitPattern: word))
    case .word(let list): value(list[Int(word)])
    }
  }
}
