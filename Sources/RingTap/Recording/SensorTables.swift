import BLECore
import BLESensors
import Synchronization

/// What a recording of a sensor has taken so far: counted on the writer's thread, read by whoever shows progress.
final class SensorCounts: Sendable {
  private let valueCount = Atomic<Int>(0)
  private let stateCount = Atomic<Int>(0)
  private let limit: Int
  private let completion: @Sendable () -> Void

  /// - Parameters:
  ///   - limit: values after which nothing more is recorded; `nil` for none.
  ///   - completion: called with the last of them.
  init(limit: Int?, completion: @escaping @Sendable () -> Void) {
    self.limit = limit ?? .max
    self.completion = completion
  }

  var values: Int { valueCount.load(ordering: .relaxed) }
  /// The sensor had nothing to measure.
  var states: Int { stateCount.load(ordering: .relaxed) }
  var isOpen: Bool { values < limit }

  func add(isValue: Bool) {
    guard isValue else {
      stateCount.add(1, ordering: .relaxed)
      return
    }
    if valueCount.add(1, ordering: .relaxed).newValue == limit { completion() }
  }
}

/// The tables of a heart-rate sensor: measurements, and the intervals between beats that came with them.
struct HeartRateTables: SampleTables {
  let counts: SensorCounts

  var tables: [RecordedTable] {
    [
      RecordedTable(name: "heart_rate", header: "time_ns,bpm,contact,energy_kj\n"),
      RecordedTable(name: "rr_intervals", header: "time_ns,rr_1024ths,rr_ms\n"),
    ]
  }

  mutating func append(_ sample: HeartRateSample, to files: inout RecordingFiles) {
    guard counts.isOpen else { return }
    let (measurement, time) = (sample.measurement, sample.time.nanoseconds)
    let hasContact = measurement.contact != .notDetected
    files.append(to: 0) { text in
      text.append(decimal: time)
      // Without contact the rate is a left-over or 0.
      text.appendColumn(hasContact ? Int64(measurement.beatsPerMinute) : nil)
      switch measurement.contact {
      case .notSupported: text.appendColumn(nil)
      case .notDetected: text.appendColumn(0)
      case .detected: text.appendColumn(1)
      }
      text.appendColumn(measurement.energyExpendedKilojoules.map { Int64($0) })
      text.append(UInt8(ascii: "\n"))
    }
    for index in measurement.rrIntervals.indices {
      let ticks = measurement.rrIntervals[index]
      files.append(to: 1) { text in
        text.append(decimal: time)
        text.appendColumn(Int64(ticks))
        text.append(UInt8(ascii: ","))
        text.append(Double(ticks) * 1_000 / RRIntervals.ticksPerSecond, decimals: 3)
        text.append(UInt8(ascii: "\n"))
      }
    }
    counts.add(isValue: hasContact)
  }
}

/// The table of a thermometer or CORE sensor. Without a reading there is a state and no number.
struct TemperatureTables: SampleTables {
  let counts: SensorCounts

  var tables: [RecordedTable] {
    [
      RecordedTable(
        name: "temperature",
        header: "time_ns,state,temperature_celsius,skin_celsius,quality,heart_rate_bpm,heat_strain_index\n")
    ]
  }

  mutating func append(_ sample: TemperatureSample, to files: inout RecordingFiles) {
    guard counts.isOpen else { return }
    files.append(to: 0) { text in
      text.append(decimal: sample.time.nanoseconds)
      text.append(UInt8(ascii: ","))
      text.append(contentsOf: Self.state(sample).utf8)
      text.appendColumn(sample.degrees(in: .celsius), decimals: 3)
      if case .core(let core) = sample.reading {
        text.appendColumn(
          core.skinTemperature.map { TemperatureSample.convert($0, from: core.unit, to: .celsius) },
          decimals: 3)
        text.appendColumn(core.quality.map { Int64($0.level) })
        // 0 is none received.
        text.appendColumn(core.heartRate.flatMap { $0 == 0 ? nil : Int64($0) })
        text.appendColumn(core.heatStrainIndexTenths.map { Double($0) / 10 }, decimals: 1)
      } else {
        for _ in 0..<4 { text.appendColumn(nil) }
      }
      text.append(UInt8(ascii: "\n"))
    }
    counts.add(isValue: sample.degrees != nil)
  }

  private static func state(_ sample: TemperatureSample) -> String {
    if sample.isOffBody { return "not_on_body" }
    guard sample.degrees != nil else { return "no_reading" }
    if case .intermediate = sample.reading { return "intermediate" }
    return "measured"
  }
}

/// The table of one raw stream of a Polar sensor: a row for each sample of a frame.
struct PolarTables: SampleTables {
  let counts: SensorCounts
  private let type: PolarMeasurementType
  private let factor: Double
  private var clock: PolarSampleClock
  /// Of the first frame with samples. The rows of others would not fit.
  private var channelCount: Int?

  init(_ type: PolarMeasurementType, sampleRate: UInt16, factor: Double, counts: SensorCounts) {
    self.type = type
    self.factor = factor
    self.counts = counts
    clock = PolarSampleClock(sampleRateHertz: sampleRate)
  }

  var tables: [RecordedTable] { [RecordedTable(name: name, header: "")] }

  private var name: String {
    switch type {
    case .ecg: "ecg"
    case .accelerometer: "accelerometer"
    case .ppg: "ppg"
    default: "polar_\(type.rawValue)"
    }
  }

  /// Columns after the two times; what nobody names is numbered.
  private func columns(_ channelCount: Int) -> String {
    switch (type, channelCount) {
    case (.ecg, 1): "ecg_uv"
    case (.accelerometer, 3): "x_mg,y_mg,z_mg"
    case (.ppg, 4): "ppg0_counts,ppg1_counts,ppg2_counts,ambient_counts"
    default: (0..<channelCount).map { "channel\($0)" }.joined(separator: ",")
    }
  }

  mutating func append(_ sample: PolarFrameSample, to files: inout RecordingFiles) {
    guard counts.isOpen else { return }
    sample.withFrame { frame in
      guard frame.type == type, let layout = frame.layout else { return }
      if channelCount == nil {
        channelCount = layout.channelCount
        let header = "time_ns,device_time_ns," + columns(layout.channelCount) + "\n"
        files.appendHeader(to: 0) { $0 += header.utf8 }
      }
      guard channelCount == layout.channelCount else { return }
      let scale =
        type == .accelerometer
        ? PolarUnits.accelerometerMilliG(
          frameType: frame.frameType, isCompressed: frame.isCompressed, factor: factor) : 1
      appendRows(frame, scale, at: sample.time, to: &files)
      counts.add(isValue: true)
    }
  }

  private mutating func appendRows(
    _ frame: borrowing PolarFrame, _ scale: Double, at time: ReceiveTime, to files: inout RecordingFiles
  ) {
    let timing = clock.timing(of: frame.timestampNanoseconds, sampleCount: frame.sampleCount)
    var number = 0
    frame.forEachSample { values in
      files.append(to: 0) { text in
        text.append(decimal: time.nanoseconds)
        text.appendColumn(timing.map { Int64(clamping: $0.nanoseconds(number)) })
        for index in values.indices {
          if scale == 1 {
            text.appendColumn(Int64(values[index]))
          } else {
            text.appendColumn(Double(values[index]) * scale, decimals: 3)
          }
        }
        text.append(UInt8(ascii: "\n"))
      }
      number += 1
    }
  }
}
