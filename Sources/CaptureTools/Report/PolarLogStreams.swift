import BLECore
import BLESensors
import BLEWire
import Recording

/// The raw streams of a Polar sensor on one link, by what its control point was told and answered.
struct PolarLogStreams {
  /// Of starts whose answer has not come.
  private var wanted: [PolarMeasurementType: UInt16] = [:]
  private var streams: [PolarMeasurementType: PolarRows] = [:]

  /// A value that was written to the control point.
  mutating func takeRequest(_ value: Span<UInt8>) {
    guard let request = try? PolarRequest(decoding: value), request.opcode == .start else { return }
    let rate = request.settings.first { $0.kind == .sampleRate }?.values.first
    wanted[request.type] = rate.flatMap { $0 == 0 ? nil : UInt16(exactly: $0) }
  }

  /// A value that the control point indicated.
  mutating func takeAnswer(_ value: Span<UInt8>) {
    guard let answer = try? PolarResponse(decoding: value), answer.opcode == .start, answer.status == 0 else {
      return
    }
    let settings = (try? answer.settings()) ?? []
    let factor = settings.lazy.compactMap(\.factor).first.map(Double.init) ?? 1
    streams[answer.type] = PolarRows(answer.type, sampleRate: wanted[answer.type], factor: factor)
  }

  mutating func takeFrame(_ value: Span<UInt8>, at time: ReceiveTime, into tables: inout LogTables) {
    guard let frame = try? PolarFrame(validating: value) else { return }
    var rows = streams[frame.type] ?? PolarRows(frame.type, sampleRate: nil, factor: nil)
    if let layout = rows.accept(frame) {
      let columns = PolarRows.columns(frame.type, layout.channelCount)
      let table = RecordedTable(name: PolarRows.name(frame.type), columns: columns)
      rows.forEach(of: frame, at: time) { tables.append($0, to: table) }
    }
    streams[frame.type] = rows
  }
}
