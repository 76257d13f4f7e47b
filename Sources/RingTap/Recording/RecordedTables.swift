import BLESensors

/// A table of a recording.
struct RecordedTable: Hashable, Sendable {
  /// As in `session.json`.
  var name: String
  /// The first line, with its end; empty where only the first sample tells it.
  var header: String
  var content = Content.samples

  enum Content: Hashable, Sendable {
    /// What was received: what is missing of it is a loss.
    case samples
    /// What can be made again of other tables.
    case derived
  }

  var fileName: String { name + ".csv" }
}

/// The tables that one kind of sensor fills: what of it crosses from the receive thread to the writer, and which rows
/// become of that. A new sensor that is to be recorded needs one of these.
///
/// It lives on the writer's thread.
protocol SampleTables: Sendable {
  associatedtype Sample: BitwiseCopyable & Sendable

  /// Those with samples first.
  var tables: [RecordedTable] { get }
  /// Appends the rows of a sample. Numbers of tables are their places in `tables`.
  mutating func append(_ sample: Sample, to files: inout RecordingFiles)
  /// Nothing more comes.
  mutating func finish(_ files: inout RecordingFiles)
  /// What became known of the sensor's clock; `nil` where the tables have none.
  var ticks: TickReport? { get }
}

extension SampleTables {
  mutating func finish(_ files: inout RecordingFiles) {}
  var ticks: TickReport? { nil }
}
