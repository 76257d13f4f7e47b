/// How the tables of a recording are kept.
public enum TableFormat: String, CaseIterable, Sendable {
  /// A file of text for each table.
  case csv
  /// A folder for each table, with a NumPy array for each column, and `columns.json` about all of them.
  case npy

  /// What holds a table: a file or a folder.
  package func fileName(_ table: String) -> String { self == .csv ? table + ".csv" : table }
}

/// A column of a recorded table.
package struct RecordedColumn: Hashable, Sendable {
  /// What its cells are. In memory a cell is a word (`TableCell`), in an array as many octets as its type has.
  package enum Kind: Hashable, Sendable {
    case int16, uint16, int32, int64
    /// Exact for the numbers of 16 bits that it is used for; a missing one is NaN.
    case float32(decimals: Int)
    case float64(decimals: Int)
    /// One of a few words; a missing one is empty.
    case word([String])

    /// As NumPy names it.
    package var type: String {
      switch self {
      case .int16: "<i2"
      case .uint16: "<u2"
      case .int32: "<i4"
      case .int64: "<i8"
      case .float32: "<f4"
      case .float64: "<f8"
      case .word: "<U\(Self.wordLimit)"
      }
    }

    /// In an array.
    package var byteCount: Int {
      switch self {
      case .int16, .uint16: 2
      case .int32, .float32: 4
      case .int64, .float64: 8
      case .word: 4 * Self.wordLimit
      }
    }

    /// Whether a cell may be empty. Of the integers only the longest has a number to spare.
    package var canBeMissing: Bool {
      switch self {
      case .int16, .uint16, .int32: false
      case .int64, .float32, .float64, .word: true
      }
    }

    /// Numbers that it holds; `nil` where it holds none, or any.
    package var range: ClosedRange<Int64>? {
      switch self {
      case .int16: -0x8000...0x7FFF
      case .uint16: 0...0xFFFF
      case .int32: -0x8000_0000...0x7FFF_FFFF
      case .int64, .float32, .float64, .word: nil
      }
    }

    /// Characters of the longest word, "intermediate".
    static let wordLimit = 12
  }

  package var name: String
  package var kind: Kind
  /// As UCUM or the name's end has it; empty where there is none.
  package var unit = ""
  /// Whether 0 is a dropout, as in tables of format 1; since then a dropout is an empty cell.
  package var zeroIsDropout = false

  package init(_ name: String, _ kind: Kind, unit: String = "") {
    self.name = name
    self.kind = kind
    self.unit = unit
  }

  /// The number of a cell; `nil` where there is none.
  package func number(_ word: UInt64) -> Double? {
    let number = TableCell.number(word, kind)
    return zeroIsDropout && number == 0 ? nil : number
  }

  package static func time(_ name: String) -> RecordedColumn { RecordedColumn(name, .int64, unit: "ns") }
  package static func counts(_ name: String, _ kind: Kind) -> RecordedColumn {
    RecordedColumn(name, kind, unit: "counts")
  }
}

/// A cell as one word, by the kind of its column: an integer, the bits of a `Double`, the place of a word in its list.
package enum TableCell {
  /// Of integers. As `datetime64[ns]` it is NumPy's "not a time".
  package static let missing = UInt64(bitPattern: .min)
  package static let missingNumber = Double.nan.bitPattern

  package static func missing(_ kind: RecordedColumn.Kind) -> UInt64 {
    switch kind {
    case .float32, .float64: missingNumber
    case .int16, .uint16, .int32, .int64, .word: missing
    }
  }

  package static func isMissing(_ word: UInt64, _ kind: RecordedColumn.Kind) -> Bool {
    switch kind {
    case .float32, .float64: Double(bitPattern: word).isNaN
    case .int16, .uint16, .int32, .int64, .word: word == missing
    }
  }

  /// The number, where it is one.
  package static func number(_ word: UInt64, _ kind: RecordedColumn.Kind) -> Double? {
    switch kind {
    case .int16, .uint16, .int32, .int64: word == missing ? nil : Double(Int64(bitPattern: word))
    case .float32, .float64: Double(bitPattern: word).isNaN ? nil : Double(bitPattern: word)
    case .word: nil
    }
  }
}
