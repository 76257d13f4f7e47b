package import BLEWire
package import Recording
package import SensorSessions

/// Where the samples of one device go while they are recorded, besides the files: lines for other programs, a network of a
/// laboratory, a database.
///
/// It learns the tables, then their rows, as `session.json` and its files have them. `SampleTap` feeds it from a recording.
/// Calls come one after the other, most on the writer's thread: who waits there costs the recording.
package protocol SampleOutput: AnyObject, Sendable {
  /// For how long, in milliseconds, samples may gather before they come here; `nil`: for as long as costs the recording least, a
  /// quarter of a second. Asked at each turn.
  var gatherMilliseconds: Int? { get }
  /// A table, before its first row. Another time where its columns have changed.
  func open(_ table: SampleTable)
  /// A row of the table of this number.
  ///
  /// - Parameter cells: one for each column, as `TableCell` has it; not to be kept, since the array is used again.
  func take(_ cells: [UInt64], of table: Int)
  /// What happened, after the rows of what came before.
  func take(_ event: SampleEvent)
  /// All that waited has come: it may go on its way.
  func endTurn()
}

/// A device whose samples go somewhere.
package struct SampleDevice: Hashable, Sendable {
  package var address: DeviceAddress
  /// As commands name it, such as `heart-rate`.
  package var kind: String
  /// As it is advertised, where that is known. Text from the air.
  package var name: String?

  package init(_ address: DeviceAddress, kind: String, name: String? = nil) {
    (self.address, self.kind, self.name) = (address, kind, name)
  }
}

/// A table whose columns are known.
package struct SampleTable: Hashable, Sendable {
  /// Its place among the device's tables, from 0.
  package var number: Int
  /// As in `session.json`.
  package var name: String
  package var columns: [RecordedColumn]
  /// Rows a second that the sensor was asked for; `nil` where they come when they come.
  package var rateHz: Double?

  package init(number: Int, name: String, columns: [RecordedColumn], rateHz: Double? = nil) {
    (self.number, self.name, self.columns, self.rateHz) = (number, name, columns, rateHz)
  }
}

/// What happens to a device's recording besides rows.
package enum SampleEvent: Sendable {
  /// The link was lost.
  case lost(SessionGap)
  /// The stream runs again. The first rows of the new link may have come before.
  case back(SessionGap)
  /// Nothing more comes.
  ///
  /// - Parameters:
  ///   - reason: as in `session.json`, or what kept the recording from starting.
  ///   - rows: all that there were, over all tables.
  ///   - lost: what had come of the device and is in no file.
  case end(reason: String, rows: Int, lost: Int)
}
