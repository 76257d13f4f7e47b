/// File format of a recording's tables.
public enum TableFormat: String, CaseIterable, Sendable {
  /// One text file per table.
  case csv
  /// One folder per table with a NumPy array per column, and a `columns.json` that describes them.
  case npy

  /// Returns the name of a table's file or folder.
  package func fileName(_ table: String) -> String { self == .csv ? table + ".csv" : table }
}

/// A column of a recorded table.
package struct RecordedColumn: Hashable, Sendable {
  /// Type of the cells. In memory, a cell is one word (`TableCell`). In an array, the size depends on the
  /// type.
  package enum Kind: Hashable, Sendable {
    case int16, uint16, int32, int64
    /// Number; exact for the 16-bit integers stored as such. NaN if missing.
    case float32(decimals: Int)
    case float64(decimals: Int)
    /// One word of a short list; empty if missing.
    case word([String])

    /// Name of the type in NumPy.
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

    /// Size of a cell in an array, in bytes.
    package var byteCount: Int {
      switch self {
      case .int16, .uint16: 2
      case .int32, .float32: 4
      case .int64, .float64: 8
      case .word: 4 * Self.wordLimit
      }
    }

    /// Whether a cell may be empty. Of the integer types, only the longest type can represent a missing
    /// value.
    package var canBeMissing: Bool {
      switch self {
      case .int16, .uint16, .int32: false
      case .int64, .float32, .float64, .word: true
      }
    }

    /// Range of the numbers in a cell; `nil` for words and unlimited numbers.
    package var range: ClosedRange<Int64>? {
      switch self {
      case .int16: -0x8000...0x7FFF
      case .uint16: 0...0xFFFF
      case .int32: -0x8000_0000...0x7FFF_FFFF
      case .int64, .float32, .float64, .word: nil
      }
    }

    /// Length of the longest word, "intermediate", in characters.
    static let wordLimit = 12
  }

  package var name: String
  package var kind: Kind
  /// UCUM unit, or the unit at the end of the name; empty for a column without a unit.
  package var unit = ""

  package init(_ name: String, _ kind: Kind, unit: String = "") {
    self.name = name
    self.kind = kind
    self.unit = unit
  }

  /// Returns the value of a cell; `nil` if it is missing or not a number.
  package func number(_ word: UInt64) -> Double? { TableCell.number(word, kind) }

  package static func time(_ name: String) -> RecordedColumn { RecordedColumn(name, .int64, unit: "ns") }
  package static func counts(_ name: String, _ kind: Kind) -> RecordedColumn {
    RecordedColumn(name, kind, unit: "counts")
  }
}

/// Cell as one word. Depending on the column's kind, it is an integer, the bits of a `Double`, or an index
/// into the list of words.
package enum TableCell {
  /// Missing integer. NumPy reads it as "not a time" in `datetime64[ns]`.
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

  /// Returns the value of a cell; `nil` if it is missing or not a number.
  package static func number(_ word: UInt64, _ kind: RecordedColumn.Kind) -> Double? {
    switch kind {
    case .int16, .uint16, .int32, .int64: word == missing ? nil : Double(Int64(bitPattern: word))
    case .float32, .float64: Double(bitPattern: word).isNaN ? nil : Double(bitPattern: word)
    case .word: nil
    }
  }
}
