package import BLEWire
package import BLESensors
package import ColmiRing
package import SensorSessions

/// Tables of a Polar sensor's raw streams, with one row per sample.
package struct PolarTables: SampleTables {
  private var rows: [PolarRows]

  /// Creates the table of one stream.
  ///
  /// - Parameters:
  ///   - sampleRate: sample rate in hertz; `nil` if the start of the stream was not received.
  ///   - factor: factor from counts to units; `nil` if the start of the stream was not received.
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

  /// Returns the tables with this name and number of channels that a recording can contain.
  package static func tables(named name: String, channelCount: Int) -> [RecordedTable] {
    guard channelCount > 0 else { return [] }
    let types = (0...63 as ClosedRange<UInt8>).map { PolarMeasurementType(rawValue: $0) }
    return types.filter { PolarRows.name($0) == name }.map {
      RecordedTable(name: name, columns: PolarRows.columns($0, channelCount))
    }
  }

  package static func time(of sample: PolarFrameSample) -> ReceiveTime { sample.time }

  package mutating func begin(_ clock: ClockSetting) {
    for place in rows.indices { rows[place].begin(clock) }
  }

  package mutating func append(_ sample: PolarFrameSample, to files: inout RecordingFiles) {
    guard let place = rows.firstIndex(where: { $0.type == sample.type }) else { return }
    rows[place].take(sample) { row, isFirst in Self.append(row, isFirst, to: place, &files) }
  }

  package mutating func finish(_ files: inout RecordingFiles) {
    for place in rows.indices {
      rows[place].finish { row, isFirst in Self.append(row, isFirst, to: place, &files) }
    }
  }

  private static func append(
    _ row: borrowing PolarRow, _ isFirst: Bool, to place: Int, _ files: inout RecordingFiles
  ) {
    if isFirst { files.open(place, with: PolarRows.columns(row.type, row.channelCount)) }
    files.append(row, to: place)
  }

  /// Applies the settings of a stream that starts on another link. `nil` keeps the current value.
  package mutating func take(_ type: PolarMeasurementType, sampleRate: UInt16?, factor: Double?) {
    guard let place = rows.firstIndex(where: { $0.type == type }) else { return }
    rows[place].take(sampleRate: sampleRate, factor: factor)
  }

  package var account: TableAccount {
    var account = rows.reduce(into: TableAccount()) { $0.add($1.account) }
    let filled = rows.filter(\.hasRows)
    account.isNumbered = !filled.isEmpty && filled.allSatisfy(\.account.isNumbered)
    return account
  }
}

/// Converts the samples of one raw stream to rows, in the units of its table.
package struct PolarRows {
  package let type: PolarMeasurementType
  /// Number of channels in the first frame with samples. Frames with another number are not recorded.
  package private(set) var channelCount: Int?
  /// Numbers of samples without a row.
  package private(set) var account = TableAccount()
  private var factor: Double?
  fileprivate private(set) var sampleRate: UInt16?
  private var clock: PolarSampleClock
  private var order = FrameOrder()
  /// Held frames, whose order depends on later frames.
  private var held: [(frame: PolarFrameSample, offset: Int64)] = []
  /// `ClockSetting.offset` of the next frame's timestamp, in nanoseconds.
  private var offset: Int64 = 0
  private var times = FrameTimes()
  fileprivate private(set) var hasRows = false
  /// Values of one sample.
  private var values: [Int64] = []

  /// Creates a converter for one stream.
  ///
  /// - Parameters:
  ///   - sampleRate: sample rate in hertz; `nil` if the start of the stream was not received.
  ///   - factor: factor from counts to units; `nil` if the start of the stream was not received. Frames that
  ///     require the factor are then skipped.
  package init(_ type: PolarMeasurementType, sampleRate: UInt16?, factor: Double?) {
    self.type = type
    self.factor = factor
    self.sampleRate = sampleRate
    clock = PolarSampleClock(sampleRateHertz: sampleRate ?? (type == .ecg ? Self.ecgRate : nil))
  }

  /// Applies the settings of a stream that starts on another link. `nil` keeps the current value.
  package mutating func take(sampleRate: UInt16?, factor: Double?) {
    self.factor = factor ?? self.factor
    guard let sampleRate, sampleRate != self.sampleRate else { return }
    account.missing += clock.doubtfulSampleCount
    self.sampleRate = sampleRate
    clock = PolarSampleClock(sampleRateHertz: sampleRate)
  }

  /// Only sample rate of an electrocardiogram, in hertz. Reference `sensor-services.md`, 5.3.
  private static let ecgRate: UInt16 = 130

  /// Returns the name of the table for a type of measurement.
  package static func name(_ type: PolarMeasurementType) -> String {
    switch type {
    case .ecg: "ecg"
    case .accelerometer: "accelerometer"
    case .ppg: "ppg"
    default: "polar_\(type.rawValue)"
    }
  }

  /// Number of columns before the channels.
  package static let timeCount = times.count
  private static let times: [RecordedColumn] = [
    .time("time_ns"), .time("frame_time_ns"), .time("device_time_ns"),
  ]

  /// Returns the columns: measurement time of the sample, kernel timestamp of its frame, sensor time, and
  /// channels. Channels without a known name are numbered.
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

  /// Records that the clock of the timestamps was set before the next frame.
  mutating func begin(_ clock: ClockSetting) { offset = clock.offset }

  /// Processes the next frame of the stream, and calls `body` with the rows that are now final. A repeated
  /// frame produces no rows.
  ///
  /// - Parameter body: called with each row, and whether it is the table's first.
  package mutating func take(
    _ sample: PolarFrameSample, _ body: (_ row: borrowing PolarRow, _ isFirst: Bool) -> Void
  ) {
    guard let fact = fact(of: sample) else { return }
    let (verdict, fate) = order.take(fact)
    settle(fate, body)
    switch verdict {
    case .next(let isSameLink):
      if !isSameLink { clock.interrupt() }
      write(sample, offset, body)
    case .begins:
      begin()
      write(sample, offset, body)
    case .repeated: account.repeated += 1
    case .late: noteLate(sample)
    case .foreign: account.unplaced += 1
    case .held: held.append((sample, offset))
    }
  }

  /// Ends the stream, and calls `body` with the rows of held frames.
  package mutating func finish(_ body: (_ row: borrowing PolarRow, _ isFirst: Bool) -> Void) {
    settle(order.finish(), body)
    account.missing += clock.doubtfulSampleCount
  }

  private mutating func settle(_ fate: FrameOrder.HeldFrames, _ body: (borrowing PolarRow, Bool) -> Void) {
    guard fate != .stay, !held.isEmpty else { return }
    let frames = held
    held = []
    switch fate {
    case .stay: break
    case .begin:
      begin()
      for (frame, offset) in frames { write(frame, offset, body) }
    case .late: for (frame, _) in frames { noteLate(frame) }
    case .foreign: account.unplaced += frames.count
    }
  }

  private mutating func begin() {
    clock.interrupt()
    times.restart()
  }

  /// Counts a late frame. Its samples were counted as missing when a later frame arrived. If no samples were
  /// counted as missing, the frame belongs to another stream.
  private mutating func noteLate(_ sample: PolarFrameSample) {
    var count = 0
    sample.withFrame { count = $0.sampleCount }
    guard account.missing >= count else { return account.unplaced += 1 }
    account.late += 1
    account.missing -= count
  }

  /// Returns the order properties of a frame; `nil` for a frame without rows, because it has no samples or
  /// does not fit the table.
  private mutating func fact(of sample: PolarFrameSample) -> FrameOrder.Frame? {
    var fact: FrameOrder.Frame?
    let period = clock.periodNanoseconds
    sample.withFrame { frame in
      guard frame.type == type, let layout = frame.layout, frame.sampleCount > 0 else { return }
      if channelCount == nil, scale(of: frame) != nil { channelCount = layout.channelCount }
      guard channelCount == layout.channelCount, scale(of: frame) != nil else {
        account.unplaced += 1
        return
      }
      // Timestamps are accurate to a sample or two, nominal rates to a tenth.
      let samples = Double(max(0, frame.sampleCount - 2)) * (clock.isMeasured ? 0.97 : 0.9)
      fact = FrameOrder.Frame(
        device: frame.timestampNanoseconds,
        duration: period.map { UInt64(min(samples * $0, 1e15)) } ?? 0,
        timestamp: sample.time.nanoseconds &- offset, link: sample.link, digest: Self.digest(frame.content))
    }
    return fact
  }

  /// Returns the 64-bit FNV-1a digest of the bytes.
  private static func digest(_ octets: Span<UInt8>) -> UInt64 {
    var digest: UInt64 = 0xCBF2_9CE4_8422_2325
    for index in octets.indices { digest = (digest ^ UInt64(octets[index])) &* 0x100_0000_01B3 }
    return digest
  }

  /// Calls `body` with the rows of a frame. The times are computed on the wall clock as it was set at the
  /// start, then converted to the current setting.
  private mutating func write(
    _ sample: PolarFrameSample, _ offset: Int64, _ body: (borrowing PolarRow, Bool) -> Void
  ) {
    let time = sample.time
    let steady = ReceiveTime(nanoseconds: time.nanoseconds &- offset)
    sample.withFrame { frame in
      let timing = clock.timing(of: frame.timestampNanoseconds, sampleCount: frame.sampleCount)
      if let timing {
        account.missing += timing.missingSampleCount
        account.isNumbered = true
      }
      let placed = timing.map {
        times.place(steady, device: frame.timestampNanoseconds, duration: $0.durationNanoseconds)
      }
      let (count, scale) = (frame.sampleCount, scale(of: frame) ?? 1)
      account.notifications += 1
      account.samples += count
      var number = 0
      frame.forEachSample { sample in
        values.removeAll(keepingCapacity: true)
        for index in sample.indices { values.append(Int64(sample[index])) }
        let device = timing?.nanoseconds(number)
        body(
          PolarRow(
            type: type,
            time: device.flatMap { placed?.time($0) }.map { $0 &+ offset }
              ?? nominal(time, count - 1 - number), frameTime: time,
            deviceTime: device.map { Int64(clamping: $0) }, values: values, scale: scale,
            isWhole: isWhole), !hasRows)
        hasRows = true
        number += 1
      }
    }
  }

  /// Returns the time of a sample at the nominal rate.
  ///
  /// - Parameters:
  ///   - time: time of the frame's last sample.
  ///   - samples: number of samples from this sample to the last sample.
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
  package let type: PolarMeasurementType
  package var channelCount: Int { values.count }
  /// Measurement time on the kernel's clock, in nanoseconds since the Unix epoch.
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
