import BLEWire
// Not all of it: it has another `SampleTable`.
import struct CaptureTools.LineProtocol
import Synchronization

/// Makes the lines of one device's samples: those that `ringtap convert --to influx` makes of its tables.
final class InfluxLines: SampleOutput {
  private struct State: Sendable {
    /// By number; `nil` where nothing is known of a table.
    var tables: [LineProtocol?] = []
    var line: [UInt8] = []
  }

  private let device: SampleDevice
  private let writer: InfluxWriter
  /// Taken by one thread at a time.
  private let state = Mutex(State())

  init(_ device: SampleDevice, to writer: InfluxWriter) { (self.device, self.writer) = (device, writer) }

  /// A batch gathers for longer.
  var gatherMilliseconds: Int? { nil }

  func open(_ table: SampleTable) {
    state.withLock { state in
      while state.tables.count <= table.number { state.tables.append(nil) }
      state.tables[table.number] = LineProtocol(
        table.name, table.columns, device: device.address.description)
    }
  }

  func take(_ cells: [UInt64], of table: Int) {
    state.withLock { state in
      guard table < state.tables.count else { return }
      state.line.removeAll(keepingCapacity: true)
      state.tables[table]?.append(cells, to: &state.line)
      if !state.line.isEmpty { writer.buffer.append(state.line) }
    }
  }

  func take(_ event: SampleEvent) {}

  func endTurn() { writer.wake() }
}
