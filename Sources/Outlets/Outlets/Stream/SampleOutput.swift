package import BLEWire
package import Recording
package import SensorSessions

/// Live destination of one device's samples, in addition to the files: lines for other programs, lab streams,
/// a database.
///
/// It gets the tables and then their rows, with the same names and columns as `session.json` and its files.
/// `SampleTap` feeds it from a recording. Calls are sequential, most of them on the writer's thread. An
/// implementation must not block there, because that delays the recording.
package protocol SampleOutput: AnyObject, Sendable {
  /// Time that samples may gather before delivery, in milliseconds. `nil` for the most efficient time, a
  /// quarter of a second. Read at each turn.
  var gatherMilliseconds: Int? { get }
  /// Announces a table before its first row, and again if its columns change.
  func open(_ table: SampleTable)
  /// Delivers a row of the table with this number.
  ///
  /// - Parameter cells: one per column, encoded as `TableCell`. The array is reused: do not keep it.
  func take(_ cells: [UInt64], of table: Int)
  /// Delivers an event, after the rows that came before it.
  func take(_ event: SampleEvent)
  /// Ends a turn: all pending samples were delivered and may be sent.
  func endTurn()
}

/// A device whose samples are delivered.
package struct SampleDevice: Hashable, Sendable {
  package var address: DeviceAddress
  /// The device kind that commands use, such as `heart-rate`.
  package var kind: String
  /// The advertised name, if known. It is untrusted text from the air.
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
  /// Requested sample rate in hertz; `nil` for an irregular rate.
  package var rateHz: Double?

  package init(number: Int, name: String, columns: [RecordedColumn], rateHz: Double? = nil) {
    (self.number, self.name, self.columns, self.rateHz) = (number, name, columns, rateHz)
  }
}

/// Events of a device's recording other than rows.
package enum SampleEvent: Sendable {
  /// The link was lost.
  case lost(SessionGap)
  /// The stream was restored. The first rows of the new link may precede this event.
  case back(SessionGap)
  /// The recording ended.
  ///
  /// - Parameters:
  ///   - reason: reason as in `session.json`, or why the recording could not start.
  ///   - rows: total rows of all tables.
  ///   - lost: samples that were received and are in no file.
  case end(reason: String, rows: Int, lost: Int)
}
