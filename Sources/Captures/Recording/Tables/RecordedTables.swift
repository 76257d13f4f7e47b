package import BLEWire
package import ColmiRing

/// A table of a recording.
package struct RecordedTable: Hashable, Sendable {
  /// Name in `session.json`.
  package var name: String
  /// Columns; empty if the first sample decides them.
  package var columns: [RecordedColumn]
  package var content = Content.samples
  /// Requested rows per second; `nil` if the sensor has no fixed rate.
  package var rateHz: Double?
  /// Whether a user's program defines the table. If so, only the capture describes its columns.
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

  /// The header line of the CSV file, with its line feed; empty without columns.
  package var header: String {
    columns.isEmpty ? "" : columns.map(\.name).joined(separator: ",") + "\n"
  }

  /// Name of the CSV file.
  package var fileName: String { TableFormat.csv.fileName(name) }
}

/// The tables of one kind of sensor: the samples passed from the receive thread to the writer, and the rows
/// made from them. To record a new sensor, add a type that conforms to this protocol.
///
/// It is used on the writer's thread.
package protocol SampleTables: Sendable {
  associatedtype Sample: BitwiseCopyable & Sendable

  /// The tables; those with samples come first.
  var tables: [RecordedTable] { get }
  /// Appends the rows of a sample. A table's number is its index in `tables`.
  mutating func append(_ sample: Sample, to files: inout RecordingFiles)
  /// Time at which the kernel received a sample.
  static func time(of sample: Sample) -> ReceiveTime
  /// Records that the clock of the timestamps was set before the next sample.
  mutating func begin(_ clock: ClockSetting)
  /// Called after the last sample.
  mutating func finish(_ files: inout RecordingFiles)
  /// Findings about the sensor's clock; `nil` for tables without a clock.
  var ticks: TickReport? { get }
  /// Number of samples without a reading so far, by table index; `nil` if a table does not record dropouts.
  /// Can be shorter than `tables`.
  var dropouts: [Int?] { get }
  /// Samples without a row so far.
  var account: TableAccount { get }
  /// Number of times so far that the sensor's counters restarted or went back, by table index; `nil` if a
  /// table has no counters. Can be shorter than `tables`.
  var restarts: [Int?] { get }
}

/// Samples without a row in a sensor's tables, as far as the sensor's own clock or numbering shows them.
package struct TableAccount: Hashable, Sendable {
  /// A stretch of time in which samples are missing.
  package struct Stretch: Hashable, Sendable {
    package var after: ReceiveTime
    package var before: ReceiveTime
    package var count: Int
    /// Number of samples of ticks from which nothing was received.
    var whole = 0
  }

  /// Maximum number of stretches kept, to recognise those without a link. Further ones count as losses.
  static let stretchLimit = 1_024

  /// Whether the sensor has a clock or numbering that shows losses.
  package var isNumbered = false
  /// Number of samples missing according to the sensor's clock.
  package var missing = 0
  /// Stretches in which samples of a ring are missing. These are included even if there was no link.
  package var stretches: [Stretch] = []
  /// Number of received samples of the kinds whose loss can be detected.
  package var samples = 0
  /// Number of notifications that contained these samples.
  package var notifications = 0
  /// Number of notifications that arrived too late to be put in order.
  package var late = 0
  /// Number of notifications that fit no row, because they belong to another stream or their scale is
  /// unknown.
  package var unplaced = 0
  /// Number of notifications received twice and recorded once.
  package var repeated = 0

  package init() {}

  /// Number of samples missing according to the sensor's clock, except those of notifications already counted
  /// as lost elsewhere.
  ///
  /// - Parameters:
  ///   - missing: all missing samples.
  ///   - lost: notifications that a queue dropped, or that were cut or malformed.
  package func missing(_ missing: Int, besides lost: Int) -> Int {
    guard lost > 0, notifications > 0 else { return missing }
    // Assume that a lost notification had as many samples as the average received one, within a tenth, and
    // allow for a few more at the ends.
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
