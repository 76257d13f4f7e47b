package import BLEWire
package import ColmiRing

/// A table of a recording.
package struct RecordedTable: Hashable, Sendable {
  /// Name in `session.json`.
  package var name: String
  /// Columns; empty if the first sample determines them.
  package var columns: [RecordedColumn]
  package var content = Content.samples
  /// Requested rows per second; `nil` if the sensor has no fixed rate.
  package var rateHz: Double?
  /// Whether a user's program defines the table. If so, only the capture describes the columns.
  package var isOwn = false

  package init(
    name: String, columns: [RecordedColumn], content: Content = .samples, rateHz: Double? = nil
  ) {
    self.name = name
    self.columns = columns
    self.content = content
    self.rateHz = rateHz
  }

  package enum Content: Hashable, Sendable {
    /// Received data: a missing row is a loss.
    case samples
    /// Data that can be rebuilt from other tables.
    case derived
  }

  /// Header line of the CSV file, with its line feed; empty without columns.
  package var header: String {
    columns.isEmpty ? "" : columns.map(\.name).joined(separator: ",") + "\n"
  }

  /// Name of the CSV file.
  package var fileName: String { TableFormat.csv.fileName(name) }
}

/// Tables of one kind of sensor: they convert samples from the receive thread to rows on the writer's thread.
/// To record a new kind of sensor, add a type that conforms to this protocol.
package protocol SampleTables: Sendable {
  associatedtype Sample: BitwiseCopyable & Sendable

  /// The tables. Tables with samples come first.
  var tables: [RecordedTable] { get }
  /// Appends the rows of a sample. A table's number is its index in `tables`.
  mutating func append(_ sample: Sample, to files: inout RecordingFiles)
  /// Returns the time at which the kernel received a sample.
  static func time(of sample: Sample) -> ReceiveTime
  /// Records that the clock of the timestamps was set before the next sample.
  mutating func begin(_ clock: ClockSetting)
  /// Completes the tables. Called after the last sample.
  mutating func finish(_ files: inout RecordingFiles)
  /// Summary of the sensor's clock; `nil` for tables without a clock.
  var ticks: TickReport? { get }
  /// Number of samples without a reading so far, by table index; `nil` if a table does not record dropouts.
  /// May be shorter than `tables`.
  var dropouts: [Int?] { get }
  /// Numbers of samples without a row so far.
  var account: TableAccount { get }
  /// Number of times the sensor's counters have restarted or gone back, by table index; `nil` if a table has
  /// no counters. May be shorter than `tables`.
  var restarts: [Int?] { get }
}

/// Numbers of samples without a row in a sensor's tables, as far as the sensor's own clock or numbering shows
/// them.
package struct TableAccount: Hashable, Sendable {
  /// Period in which samples are missing.
  package struct Stretch: Hashable, Sendable {
    package var after: ReceiveTime
    package var before: ReceiveTime
    package var count: Int
    /// Number of samples of ticks that are missing completely.
    var whole = 0
  }

  /// Maximum number of stored periods. Periods without a link are recognised only among the stored periods;
  /// later periods count as losses.
  static let stretchLimit = 1_024

  /// Whether the sensor has a clock or numbering that shows losses.
  package var isNumbered = false
  /// Number of samples missing according to the sensor's clock.
  package var missing = 0
  /// Periods in which samples of a ring are missing, including periods without a link.
  package var stretches: [Stretch] = []
  /// Number of received samples of the kinds whose loss can be detected.
  package var samples = 0
  /// Number of notifications that contained these samples.
  package var notifications = 0
  /// Number of notifications that arrived too late to be sorted.
  package var late = 0
  /// Number of notifications that belong to no row: from another stream, or with an unknown scale.
  package var unplaced = 0
  /// Number of notifications received twice and recorded once.
  package var repeated = 0

  package init() {}

  /// Returns the number of samples missing according to the sensor's clock, without samples of notifications
  /// that are already counted as lost elsewhere.
  ///
  /// - Parameters:
  ///   - missing: number of all missing samples.
  ///   - lost: number of notifications that a queue dropped, or that were truncated or malformed.
  package func missing(_ missing: Int, besides lost: Int) -> Int {
    guard lost > 0, notifications > 0 else { return missing }
    // Assume that lost notifications had as many samples as received notifications on average, within a
    // tenth, and allow for a few more samples at the ends.
    let explained = Double(lost) * Double(samples) / Double(notifications)
    return Double(missing) <= explained * 1.1 + 2 ? 0 : missing - Int(explained.rounded())
  }

  /// Adds the counts of another table.
  mutating func add(_ other: TableAccount) {
    missing += other.missing
    samples += other.samples
    notifications += other.notifications
    stretches += other.stretches
    late += other.late
    unplaced += other.unplaced
    repeated += other.repeated
  }
}

extension SampleTables {
  package mutating func begin(_ clock: ClockSetting) {}
  package mutating func finish(_ files: inout RecordingFiles) {}
  package var ticks: TickReport? { nil }
  package var dropouts: [Int?] { [] }
  package var account: TableAccount { TableAccount() }
  package var restarts: [Int?] { [] }
}

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
