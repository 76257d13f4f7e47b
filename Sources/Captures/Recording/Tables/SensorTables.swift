import BLESensors
package import BLEWire
package import ColmiRing
package import SensorSessions

/// Tables of a heart-rate sensor: measurements, and the beat-to-beat intervals received with them.
package struct HeartRateTables: SampleTables {
  package init() {}

  package static let tables = [
    RecordedTable(
      name: "heart_rate",
      columns: [
        .time("time_ns"), RecordedColumn("bpm", .float32(decimals: 0), unit: "1/min"),
        RecordedColumn("contact", .float32(decimals: 0)),
        RecordedColumn("energy_kj", .float32(decimals: 0), unit: "kJ"),
      ]),
    RecordedTable(
      name: "rr_intervals",
      columns: [
        .time("time_ns"), RecordedColumn("rr_1024ths", .uint16, unit: "s/1024"),
        RecordedColumn("rr_ms", .float64(decimals: 3), unit: "ms"),
      ]),
  ]

  package var tables: [RecordedTable] { Self.tables }

  package static func time(of sample: HeartRateSample) -> ReceiveTime { sample.time }

  package mutating func append(_ sample: HeartRateSample, to files: inout RecordingFiles) {
    files.append(HeartRateRow(sample), to: 0)
    let intervals = sample.measurement.rrIntervals
    for index in intervals.indices {
      files.append(RRIntervalRow(time: sample.time, ticks: intervals[index]), to: 1)
    }
  }
}

package struct HeartRateRow: RecordedRow {
  private let sample: HeartRateSample

  package init(_ sample: HeartRateSample) { self.sample = sample }

  package func encode<Output: RowOutput>(into output: inout Output) {
    let measurement = sample.measurement
    output.append(sample.time.nanoseconds)
    // Without contact, the rate is outdated or 0.
    output.append(measurement.contact == .notDetected ? nil : Int64(measurement.beatsPerMinute))
    switch measurement.contact {
    case .notSupported: output.appendMissing(1)
    case .notDetected: output.append(0 as Int64)
    case .detected: output.append(1 as Int64)
    }
    output.append(measurement.energyExpendedKilojoules.map { Int64($0) })
  }
}

package struct RRIntervalRow: RecordedRow {
  let time: ReceiveTime
  let ticks: UInt16

  package init(time: ReceiveTime, ticks: UInt16) {
    self.time = time
    self.ticks = ticks
  }

  package func encode<Output: RowOutput>(into output: inout Output) {
    output.append(time.nanoseconds)
    output.append(Int64(ticks))
    output.append(Double(ticks) * 1_000 / RRIntervals.ticksPerSecond, decimals: 3)
  }
}

/// Table of a thermometer or CORE sensor. A row without a reading has a state but no number.
package struct TemperatureTables: SampleTables {
  package init() {}

  package static let tables = [
    RecordedTable(
      name: "temperature",
      columns: [
        .time("time_ns"), RecordedColumn("state", .word(TemperatureRow.states)),
        RecordedColumn("temperature_celsius", .float64(decimals: 3), unit: "Cel"),
        RecordedColumn("skin_celsius", .float64(decimals: 3), unit: "Cel"),
        RecordedColumn("quality", .float32(decimals: 0)),
        RecordedColumn("heart_rate_bpm", .float32(decimals: 0), unit: "1/min"),
        RecordedColumn("heat_strain_index", .float64(decimals: 1)),
      ])
  ]

  package var tables: [RecordedTable] { Self.tables }

  package static func time(of sample: TemperatureSample) -> ReceiveTime { sample.time }

  package mutating func append(_ sample: TemperatureSample, to files: inout RecordingFiles) {
    files.append(TemperatureRow(sample), to: 0)
  }
}

package struct TemperatureRow: RecordedRow {
  static let states = ["measured", "intermediate", "no_reading", "not_on_body"]

  private let sample: TemperatureSample

  package init(_ sample: TemperatureSample) { self.sample = sample }

  package func encode<Output: RowOutput>(into output: inout Output) {
    output.append(sample.time.nanoseconds)
    output.append(word: state)
    output.append(sample.degrees(in: .celsius), decimals: 3)
    guard case .core(let core) = sample.reading else { return output.appendMissing(4) }
    output.append(
      core.skinTemperature.map { TemperatureSample.convert($0, from: core.unit, to: .celsius) }, decimals: 3)
    output.append(core.quality.map { Int64($0.level) })
    // A rate of 0 means that no heart rate was received.
    output.append(core.heartRate.flatMap { $0 == 0 ? nil : Int64($0) })
    output.append(core.heatStrainIndexTenths.map { Double($0) / 10 }, decimals: 1)
  }

  private var state: String {
    if sample.isOffBody { return "not_on_body" }
    guard sample.degrees != nil else { return "no_reading" }
    if case .intermediate = sample.reading { return "intermediate" }
    return "measured"
  }
}

/// Table of a cycling sensor. Cells of values that the sensor does not count are empty. A rate is also empty
/// if there was no revolution since the previous row, or if the sensor restarted.
package struct CyclingTables: SampleTables {
  package init() {}

  private var pace = CyclingPace()
  private var clock = ClockSetting()

  package static let tables = [
    RecordedTable(
      name: "cycling",
      columns: [
        .time("time_ns"), RecordedColumn("cadence_rpm", .float64(decimals: 2), unit: "1/min"),
        RecordedColumn("wheel_rpm", .float64(decimals: 2), unit: "1/min"),
        RecordedColumn("wheel_revolutions", .float64(decimals: 0)),
        RecordedColumn("wheel_event_1024ths", .float32(decimals: 0), unit: "s/1024"),
        RecordedColumn("crank_revolutions", .float32(decimals: 0)),
        RecordedColumn("crank_event_1024ths", .float32(decimals: 0), unit: "s/1024"),
      ])
  ]

  package var tables: [RecordedTable] { Self.tables }
  package var restarts: [Int?] { [pace.restarts] }

  package static func time(of sample: CyclingSample) -> ReceiveTime { sample.time }

  package mutating func begin(_ clock: ClockSetting) { self.clock = clock }

  package mutating func append(_ sample: CyclingSample, to files: inout RecordingFiles) {
    let steady = CyclingSample(
      sample.measurement, at: ReceiveTime(nanoseconds: sample.time.nanoseconds &- clock.offset))
    files.append(CyclingRow(sample: sample, pace: pace.take(steady)), to: 0)
  }
}

package struct CyclingRow: RecordedRow {
  let sample: CyclingSample
  let pace: (wheel: Double?, crank: Double?)

  package init(sample: CyclingSample, pace: (wheel: Double?, crank: Double?)) {
    self.sample = sample
    self.pace = pace
  }

  package func encode<Output: RowOutput>(into output: inout Output) {
    let (wheel, crank) = (sample.measurement.wheel, sample.measurement.crank)
    output.append(sample.time.nanoseconds)
    output.append(pace.crank, decimals: 2)
    output.append(pace.wheel, decimals: 2)
    output.append(wheel.map { Int64($0.revolutions) })
    output.append(wheel.map { Int64($0.lastEventTicks) })
    output.append(crank.map { Int64($0.revolutions) })
    output.append(crank.map { Int64($0.lastEventTicks) })
  }
}
