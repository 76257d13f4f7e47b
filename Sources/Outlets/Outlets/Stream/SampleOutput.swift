package import BLEWire
package import Recording
package import SensorSessions

/// Live destination of one device's samples, in addition to the files: lines for other programs, LSL streams,
/// or a database.
///
/// It receives the tables and then their rows, with the names and columns of `session.json` and its files.
/// `SampleTap` passes it the rows of a recording. Calls are sequential, and most of them come from the thread
/// that writes the files. An implementation must not block there, because that delays the recording.
package protocol SampleOutput: AnyObject, Sendable {
  /// How long samples may gather before they are delivered, in milliseconds; `nil` for the most efficient
  /// time, a quarter of a second. Read in each turn.
  var gatherMilliseconds: Int? { get }
  /// Announces a table before its first row, and again if its columns change.
  func open(_ table: SampleTable)
  /// Delivers a row of the table with this number.
  ///
  /// - Parameter cells: one per column, encoded as `TableCell`. The array is reused: do not keep it.
  func take(_ cells: [UInt64], of table: Int)
  /// Delivers an event, after the rows that precede it.
  func take(_ event: SampleEvent)
  /// Ends a turn, which is one pass of the thread that writes the files. All pending samples have been
  /// delivered and may be sent.
  func endTurn()
}

/// A device whose samples are delivered.
package struct SampleDevice: Hashable, Sendable {
  package var address: DeviceAddress
  /// The device kind that commands use, such as `heart-rate`.
  package var kind: String
  /// The advertised name, if known. This is untrusted text.
  package var name: String?

  package init(_ address: DeviceAddress, kind: String, name: String? = nil) {
    (self.address, self.kind, self.name) = (address, kind, name)
  }
}

/// Description of a table.
package struct SampleTable: Hashable, Sendable {
  /// Index among the device's tables, from 0.
  package var number: Int
  /// Name in `session.json`.
  package var name: String
  package var columns: [RecordedColumn]
  /// Requested sample rate in hertz; `nil` if the rate is irregular.
  package var rateHz: Double?

  package init(number: Int, name: String, columns: [RecordedColumn], rateHz: Double? = nil) {
    (self.number, self.name, self.columns, self.rateHz) = (number, name, columns, rateHz)
  }
}

/// Events of a device's recording that are not rows.
package enum SampleEvent: Sendable {
  /// The link was lost.
  case lost(SessionGap)
  /// The stream has resumed. The first rows of the new link may precede this event.
  case back(SessionGap)
  /// The recording ended.
  ///
  /// - Parameters:
  ///   - reason: the reason from `session.json`, or why the recording could not start.
  ///   - rows: total number of rows in all tables.
  ///   - lost: number of samples that were received but are not in any file.
  case end(reason: String, rows: Int, lost: Int)
}
