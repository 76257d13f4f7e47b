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
