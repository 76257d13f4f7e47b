package import BLEWire
package import ColmiRing

/// A table of a recording.
package struct RecordedTable: Hashable, Sendable {
  /// As in `session.json`.
  package var name: String
  /// Empty where only the first sample tells them.
  package var columns: [RecordedColumn]
  package var content = Content.samples
  /// Rows a second that the sensor was asked for; `nil` where they come when they come.
  package var rateHz: Double?
  /// Whether a program described it: only the capture says what its columns are.
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
    /// What was received: what is missing of it is a loss.
    case samples
    /// What can be made again of other tables.
    case derived
  }

  /// The first line of its text, with its end; empty without columns.
  package var header: String {
    columns.isEmpty ? "" : columns.map(\.name).joined(separator: ",") + "\n"
  }

  /// Of its text.
  package var fileName: String { TableFormat.csv.fileName(name) }
}

/// The tables that one kind of sensor fills: what of it crosses from the receive thread to the writer, and which rows
/// become of that. A new sensor that is to be recorded needs one of these.
///
/// It lives on the writer's thread.
package protocol SampleTables: Sendable {
  associatedtype Sample: BitwiseCopyable & Sendable

  /// Those with samples first.
  var tables: [RecordedTable] { get }
  /// Appends the rows of a sample. Numbers of tables are their places in `tables`.
  mutating func append(_ sample: Sample, to files: inout RecordingFiles)
  /// When the kernel had a sample.
  static func time(of sample: Sample) -> ReceiveTime
  /// The clock of the timestamps was set before the next sample.
  mutating func begin(_ clock: ClockSetting)
  /// Nothing more comes.
  mutating func finish(_ files: inout RecordingFiles)
  /// What became known of the sensor's clock; `nil` where the tables have none.
  var ticks: TickReport? { get }
  /// Samples without a reading so far, of the first tables; `nil` for a table that has no such thing.
  var dropouts: [Int?] { get }
  /// Samples that have no row, so far.
  var account: TableAccount { get }
  /// Times so far that the sensor's counts began anew or went back, of the first tables; `nil` for a table without counts.
  var restarts: [Int?] { get }
}

/// Samples of a sensor that have no row in its tables, as far as its own clock or numbering shows them.
package struct TableAccount: Hashable, Sendable {
  /// A stretch in which something is missing.
  package struct Stretch: Hashable, Sendable {
    package var after: ReceiveTime
    package var before: ReceiveTime
    package var count: Int
    /// Those of ticks of which nothing came.
    var whole = 0
  }

  /// Stretches that are kept, to tell those in which there was no link; further ones count as losses.
  static let stretchLimit = 1_024

  /// Whether the sensor has a clock or numbers, so that a loss shows.
  package var isNumbered = false
  /// Samples missing by the sensor's clock.
  package var missing = 0
  /// Where samples of a ring are missing. They count, though no link was there.
  package var stretches: [Stretch] = []
  /// Samples that came, of those that would be missing otherwise, and the notifications that brought them.
  package var samples = 0
  package var notifications = 0
  /// Notifications that came too late for their place in the order.
  package var late = 0
  /// Notifications that fit no row: they belong to another stream, or their scale is not known.
  package var unplaced = 0
  /// Notifications that came twice, and are recorded once.
  package var repeated = 0

  package init() {}

  /// Samples missing by the sensor's clock, but for those of notifications that are known to be lost elsewhere.
  ///
  /// - Parameters:
  ///   - missing: all that are missing.
  ///   - lost: notifications that a queue dropped, that were cut or malformed.
  package func missing(_ missing: Int, besides lost: Int) -> Int {
    guard lost > 0, notifications > 0 else { return missing }
    // They bring as many samples as others do, to a tenth and some at their ends.
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
