package import BLEWire
import BLESensors
package import ColmiRing
package import SensorSessions

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
