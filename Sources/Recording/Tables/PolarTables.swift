package import BLECore
package import BLESensors
package import SensorSessions

/// The tables of the raw streams of a Polar sensor: a row for each sample of a frame.
package struct PolarTables: SampleTables {
  private var rows: [PolarRows]

  /// - Parameters:
  ///   - sampleRate: in hertz; `nil` where nobody heard the start of the stream.
  ///   - factor: from counts to units; `nil` likewise.
  package init(_ type: PolarMeasurementType, sampleRate: UInt16?, factor: Double?) {
    rows = [PolarRows(type, sampleRate: sampleRate, factor: factor)]
  }

  package init(_ streams: [PolarSession.Stream]) {
    rows = streams.map { PolarRows($0.type, sampleRate: $0.sampleRate, factor: $0.factor) }
  }

  package var tables: [RecordedTable] {
    rows.map { row in
      RecordedTable(name: PolarRows.name(row.type), columns: [], rateHz: row.sampleRate.map { Double($0) })
    }
  }

  /// Those that may be recorded under a name with so many channels.
  package static func tables(named name: String, channelCount: Int) -> [RecordedTable] {
    guard channelCount > 0 else { return [] }
    let types = (0...63 as ClosedRange<UInt8>).map { PolarMeasurementType(rawValue: $0) }
    return types.filter { PolarRows.name($0) == name }.map {
      RecordedTable(name: name, columns: PolarRows.columns($0, channelCount))
    }
  }

  package mutating func append(_ sample: PolarFrameSample, to files: inout RecordingFiles) {
    sample.withFrame { frame in
      guard let place = rows.firstIndex(where: { $0.type == frame.type }) else { return }
      let isFirst = rows[place].channelCount == nil
      guard let layout = rows[place].accept(frame) else { return }
      if isFirst { files.open(place, with: PolarRows.columns(rows[place].type, layout.channelCount)) }
      rows[place].forEach(of: frame, at: sample.time) { files.append($0, to: place) }
    }
  }
}

/// The samples of one raw stream as rows, in the units of its table.
package struct PolarRows {
  package let type: PolarMeasurementType
  /// Of the first frame with samples. The rows of others would not fit.
  package private(set) var channelCount: Int?
  private let factor: Double?
  fileprivate let sampleRate: UInt16?
  private var clock: PolarSampleClock
  private var times = FrameTimes()
  /// Of one sample.
  private var values: [Int64] = []

  /// - Parameters:
  ///   - sampleRate: in hertz; `nil` where nobody heard the start of the stream.
  ///   - factor: from counts to units; `nil` likewise: frames that need it are left out.
  package init(_ type: PolarMeasurementType, sampleRate: UInt16?, factor: Double?) {
    self.type = type
    self.factor = factor
    self.sampleRate = sampleRate
    clock = PolarSampleClock(sampleRateHertz: sampleRate)
  }

  /// Of the table.
  package static func name(_ type: PolarMeasurementType) -> String {
    switch type {
    case .ecg: "ecg"
    case .accelerometer: "accelerometer"
    case .ppg: "ppg"
    default: "polar_\(type.rawValue)"
    }
  }

  /// Columns before those of the channels.
  package static let timeCount = times.count
  private static let times: [RecordedColumn] = [
    .time("time_ns"), .time("frame_time_ns"), .time("device_time_ns"),
  ]

  /// When each sample was measured, the kernel's stamp of the frame it came in, the sensor's own time, and the channels;
  /// what nobody names is numbered.
  package static func columns(_ type: PolarMeasurementType, _ channelCount: Int) -> [RecordedColumn] {
    switch (type, channelCount) {
    case (.ecg, 1): return times + [RecordedColumn("ecg_uv", .int32, unit: "uV")]
    case (.accelerometer, 3):
      return times + ["x_mg", "y_mg", "z_mg"].map { RecordedColumn($0, .float64(decimals: 3), unit: "mg") }
    case (.ppg, 4):
      return times
        + ["ppg0_counts", "ppg1_counts", "ppg2_counts", "ambient_counts"].map { .counts($0, .int32) }
    default: return times + (0..<channelCount).map { RecordedColumn("channel\($0)", .float64(decimals: 3)) }
    }
  }

  /// - Returns: how its samples are laid out; `nil` for a frame whose rows belong to no table, or to another.
  package mutating func accept(_ frame: borrowing PolarFrame) -> PolarSampleLayout? {
    guard frame.type == type, let layout = frame.layout, scale(of: frame) != nil else { return nil }
    if channelCount == nil { channelCount = layout.channelCount }
    return channelCount == layout.channelCount ? layout : nil
  }

  /// Lends the rows of a frame that was accepted.
  package mutating func forEach(
    of frame: borrowing PolarFrame, at time: ReceiveTime, _ body: (borrowing PolarRow) -> Void
  ) {
    let timing = clock.timing(of: frame.timestampNanoseconds, sampleCount: frame.sampleCount)
    let placed = timing.map { _ in times.place(time, device: frame.timestampNanoseconds) }
    let (count, scale) = (frame.sampleCount, scale(of: frame) ?? 1)
    var number = 0
    frame.forEachSample { sample in
      values.removeAll(keepingCapacity: true)
      for index in sample.indices { values.append(Int64(sample[index])) }
      let device = timing?.nanoseconds(number)
      body(
        PolarRow(
          time: device.flatMap { placed?.time($0) } ?? nominal(time, count - 1 - number), frameTime: time,
          deviceTime: device.map { Int64(clamping: $0) }, values: values, scale: scale,
          isWhole: isWhole))
      number += 1
    }
  }

  /// The time so many samples before a frame's last one, by the nominal rate.
  private func nominal(_ time: ReceiveTime, _ samples: Int) -> Int64 {
    time.nanoseconds &- (sampleRate.map { Int64(samples) * 1_000_000_000 / Int64($0) } ?? 0)
  }

  /// Whether the channels' columns are integers.
  private var isWhole: Bool {
    switch (type, channelCount) {
    case (.ecg, 1), (.ppg, 4): true
    default: false
    }
  }

  private func scale(of frame: borrowing PolarFrame) -> Double? {
    guard type == .accelerometer else { return 1 }
    if factor == nil, frame.isCompressed { return nil }
    return PolarUnits.accelerometerMilliG(
      frameType: frame.frameType, isCompressed: frame.isCompressed, factor: factor ?? 1)
  }
}

package struct PolarRow: RecordedRow {
  /// When it was measured, on the clock of the kernel's stamps: nanoseconds since the Unix epoch.
  package let time: Int64
  fileprivate let frameTime: ReceiveTime
  fileprivate let deviceTime: Int64?
  fileprivate let values: [Int64]
  fileprivate let scale: Double
  fileprivate let isWhole: Bool

  package func encode<Output: RowOutput>(into output: inout Output) {
    output.append(time)
    output.append(frameTime.nanoseconds)
    output.append(deviceTime)
    for value in values {
      if isWhole { output.append(value) } else { output.append(Double(value) * scale, decimals: 3) }
    }
  }
}
