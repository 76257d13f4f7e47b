import BLEWire
import JSONText
import Recording
import SensorSessions
import Synchronization

/// Encodes the samples of one device as lines of JSON.
final class DeviceLines: SampleOutput {
  /// Size in bytes at which lines are sent before the end of the current turn.
  private static let batchByteCount = 32 << 10

  private struct State {
    /// Tables by number; `nil` for a table that has not been opened.
    var tables: [SampleTable?] = []
    var line = JSONLine()
    var batch = LineBatch()
  }

  private let device: SampleDevice
  /// The address as written in each line.
  private let address: String
  private let stream: SampleStream
  /// Only one thread at a time uses the state.
  private let state = Mutex(State())

  init(_ device: SampleDevice, on stream: SampleStream) {
    (self.device, self.stream) = (device, stream)
    address = device.address.description
  }

  var gatherMilliseconds: Int? { stream.gatherMilliseconds }

  func open(_ table: SampleTable) {
    state.withLock { state in
      send(&state)
      while state.tables.count <= table.number { state.tables.append(nil) }
      state.tables[table.number] = table
    }
    stream.describe(SampleStream.TableKey(device: device.address, number: table.number), line(of: table))
  }

  private func line(of table: SampleTable) -> [UInt8] {
    notice("table") { line in
      line.member("device", address)
      line.member("kind", device.kind)
      if let name = device.name { line.member("name", name) }
      line.member("table", table.name)
      line.member(
        "columns",
        array: { line in
          for column in table.columns {
            line.object { line in
              line.member("name", column.name)
              line.member("dtype", column.kind.type)
              if !column.unit.isEmpty { line.member("unit", column.unit) }
            }
          }
        })
    }
  }

  func take(_ cells: [UInt64], of table: Int) {
    guard stream.hasReaders else { return }
    state.withLock { state in
      guard let described = state.tables[table] else { return }
      state.line.removeAll()
      state.line.object { line in
        line.member("device", address)
        line.member("table", described.name)
        line.members(described.columns, cells)
      }
      state.line.endLine()
      state.batch.append(state.line.octets)
      if state.batch.octets.count >= Self.batchByteCount { send(&state) }
    }
  }

  func take(_ event: SampleEvent) {
    state.withLock { send(&$0) }
    stream.send(notice: line(of: event))
  }

  private func line(of event: SampleEvent) -> [UInt8] {
    switch event {
    case .lost(let gap):
      notice("gap") { line in
        line.member("device", address)
        line.member("state", "lost")
        line.member("cause", "\(gap.end)")
        line.member("time_ns", gap.lostAt)
      }
    case .back(let gap):
      notice("gap") { line in
        line.member("device", address)
        line.member("state", "back")
        if let time = gap.connectedAt { line.member("time_ns", time) }
      }
    case .end(let reason, let rows, let lost):
      notice("end") { line in
        line.member("device", address)
        line.member("reason", reason)
        line.member("rows", rows)
        line.member("lost", lost)
      }
    }
  }

  /// Returns a line that is not a sample.
  private func notice(_ name: String, _ members: (inout JSONLine) -> Void) -> [UInt8] {
    var line = JSONLine()
    line.object { line in
      line.member("stream", name)
      members(&line)
    }
    line.endLine()
    return line.octets
  }

  func endTurn() { state.withLock { send(&$0) } }

  private func send(_ state: inout State) {
    guard !state.batch.octets.isEmpty else { return }
    stream.send(state.batch)
    state.batch.removeAll()
  }
}
