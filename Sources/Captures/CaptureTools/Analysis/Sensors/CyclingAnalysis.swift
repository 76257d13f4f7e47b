import BLESensors
import BLEWire
import JSONText
import Recording
import SensorSessions

extension AnalysisReport {
  /// Data of a cycling speed and cadence sensor.
  package struct Cycling: Sendable {
    /// Cadence while the crank turns, in turns per minute.
    package var cadence = NumberRange()
    package var wheel = NumberRange()
    /// Wheel revolutions since the first row, not counting jumps at restarts; `nil` if the sensor does not
    /// count them.
    package var wheelRevolutions: Double?
    package var crankRevolutions: Double?
    /// Number of times that the counts restarted or decreased.
    package var restarts = 0

    mutating func add(_ wheel: CyclingPace.Step?, _ crank: CyclingPace.Step?) {
      if let wheel { wheelRevolutions = (wheelRevolutions ?? 0) + Double(wheel.turns ?? 0) }
      if let crank { crankRevolutions = (crankRevolutions ?? 0) + Double(crank.turns ?? 0) }
      add(wheel: wheel?.perMinute, cadence: crank?.perMinute)
    }

    mutating func add(wheel: Double?, cadence: Double?) {
      self.wheel.add(wheel == 0 ? nil : wheel)
      self.cadence.add(cadence == 0 ? nil : cadence)
    }

    func encode(into line: inout JSONLine) {
      if cadence.count > 0 { line.member("cadence") { cadence.encode("PerMinute", into: &$0) } }
      if let crankRevolutions { line.member("crankRevolutions", crankRevolutions) }
      if wheel.count > 0 { line.member("wheel") { wheel.encode("PerMinute", into: &$0) } }
      if let wheelRevolutions { line.member("wheelRevolutions", wheelRevolutions) }
      line.member("restarts", restarts)
    }
  }
}

/// Recomputes rates and turns from the counts in the rows. The rates in an older recording's rows may span a
/// restart.
struct CyclingAnalysis: RowAnalysis {
  private var pace = CyclingPace()

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) {
    let time = ReceiveTime(nanoseconds: Int64(bitPattern: words[0]))
    results.take(time)
    let columns = CyclingTables.tables[0].columns
    func number<Number: FixedWidthInteger>(_ place: Int) -> Number? {
      columns[place].number(words[place]).flatMap { Number(exactly: $0) }
    }
    var wheel: CyclingSpeed.Wheel?
    if let revolutions: UInt32 = number(3), let ticks: UInt16 = number(4) {
      wheel = CyclingSpeed.Wheel(revolutions: revolutions, lastEventTicks: ticks)
    }
    var crank: CyclingSpeed.Crank?
    if let revolutions: UInt16 = number(5), let ticks: UInt16 = number(6) {
      crank = CyclingSpeed.Crank(revolutions: revolutions, lastEventTicks: ticks)
    }
    let steps = pace.step(CyclingSample(CyclingSpeed(wheel: wheel, crank: crank), at: time))
    results.report.cycling.add(steps.wheel, steps.crank)
    results.report.cycling.restarts = pace.restarts
  }
}
