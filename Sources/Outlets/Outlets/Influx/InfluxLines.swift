import BLEWire
// Only this type is imported, because the module has its own `SampleTable`.
import struct CaptureTools.LineProtocol
import Synchronization

/// Encodes the samples of one device in the line protocol. The lines are the same as those of `ringtap
/// convert --to influx`.
final class InfluxLines: SampleOutput {
  private struct State: Sendable {
    /// Encoders by table number; `nil` for a table that has not been opened.
    var tables: [LineProtocol?] = []
    var line: [UInt8] = []
  }

  private let device: SampleDevice
  private let writer: InfluxWriter
  /// Used by one thread at a time.
  private let state = Mutex(State())

  init(_ device: SampleDevice, to writer: InfluxWriter) { (self.device, self.writer) = (device, writer) }

  /// `nil`: samples need not be delivered early, because batches gather for longer.
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
