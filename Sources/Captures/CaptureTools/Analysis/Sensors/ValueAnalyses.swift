import BLELinux
import BLESensors
import BLEWire
import JSONText
import Physiology
import Recording
import SensorSessions

extension AnalysisReport.Table {
  /// Column of a user-defined sensor.
  package struct Column: Sendable {
    package let name: String
    package let unit: String
    package fileprivate(set) var range = NumberRange()

    func encode(into line: inout JSONLine) {
      line.member(name) { line in
        line.member("values", range.count)
        if !unit.isEmpty { line.member("unit", unit) }
        range.encode("", into: &line)
      }
    }
  }
}

/// Computes mean and range of each column of a table with user-defined values.
struct ValueAnalysis: RowAnalysis {
  private(set) var columns: [AnalysisReport.Table.Column]
  private let table: RecordedTable

  init(_ table: RecordedTable) {
    self.table = table
    columns = table.columns.dropFirst().map { AnalysisReport.Table.Column(name: $0.name, unit: $0.unit) }
  }

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) {
    results.take(ReceiveTime(nanoseconds: Int64(bitPattern: words[0])))
    for place in columns.indices {
      columns[place].range.add(table.columns[place + 1].number(words[place + 1]))
    }
  }
}

extension AnalysisReport {
  /// Heart rate as reported by a sensor.
  package struct HeartRate: Sendable {
    /// Heart rate in beats per minute, from the measurements with a rate above 0.
    package var rate = NumberRange()
    /// Number of measurements with skin contact. A measurement that does not report contact is not counted,
    /// neither here nor in `losses`.
    package var contacts = 0
    /// Number of measurements without skin contact.
    package var losses = 0
    /// Energy spent, in kilojoules.
    package var energy: Double?
    private var lastEnergy: (kilojoules: Double, time: ReceiveTime)?
    /// Maximum plausible power in kilojoules per second: twice an athlete's maximum. A faster increase of the
    /// energy means that the sensor restarted its count.
    private static let mostPower = 4.0

    mutating func add(rate number: Double?, contact: Double?, energy: Double?, at time: ReceiveTime) {
      // Sensors report 0 without contact and before the first beat.
      rate.add(number == 0 ? nil : number)
      if let contact { if contact > 0 { contacts += 1 } else { losses += 1 } }
      guard let energy, abs(energy) < 1e12 else { return }
      // After a reset, only the increases of the new count are added.
      if let lastEnergy {
        let spent = energy - lastEnergy.kilojoules
        let most = 10 + Self.mostPower * max(0, (time - lastEnergy.time).seconds)
        self.energy = (self.energy ?? 0) + (0...most ~= spent ? spent : 0)
      }
      lastEnergy = (energy, time)
    }

    func encode(into line: inout JSONLine) {
      rate.encode("PerMinute", into: &line)
      if contacts + losses > 0 {
        line.member("withContact", contacts)
        line.member("withoutContact", losses)
      }
      if let energy { line.member("energyKilojoules", energy) }
    }
  }
}

/// Analyses the measurements of a heart rate sensor.
struct HeartRateAnalysis: RowAnalysis {
  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) {
    let time = ReceiveTime(nanoseconds: Int64(bitPattern: words[0]))
    results.take(time)
    let columns = HeartRateTables.tables[0].columns
    results.report.heartRate.add(
      rate: columns[1].number(words[1]), contact: columns[2].number(words[2]),
      energy: columns[3].number(words[3]), at: time)
  }
}

/// Computes the variability of the beat intervals that a heart rate sensor reports.
struct IntervalAnalysis: RowAnalysis {
  private var variability = VariabilityMeter()

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) throws(SystemError) {
    let time = ReceiveTime(nanoseconds: Int64(bitPattern: words[0]))
    results.take(time)
    let milliseconds = HeartRateTables.tables[1].columns[2].number(words[2])
    try results.take(variability.take(milliseconds.map { $0 / 1_000 }, end: time), of: .intervals)
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    try results.take(variability.finish(), of: .intervals)
  }
}

extension AnalysisReport {
  /// Measurements of a thermometer or a CORE sensor.
  package struct Temperature: Sendable {
    /// Body temperature, in degrees Celsius.
    package var body = NumberRange()
    package var skin = NumberRange()
    package var heartRate = NumberRange()
    package var heatStrainIndex = NumberRange()
    /// Number of readings by reported quality, 0 (invalid) to 4 (excellent).
    package var qualities: [Int: Int] = [:]
    /// Number of rows by measurement state.
    package var states: [String: Int] = [:]

    /// Labels and texts for display.
    package var readings: [(name: String, text: String)] {
      let names = CoreBodyTemperature.Quality.levelNames
      let all = states.values.reduce(0, +)
      let states = states.sorted { $0.key < $1.key }.map { state, count in
        "\(count) \(state.map { $0 == "_" ? " " : String($0) }.joined())"
      }
      var rows = [("Readings", "\(all): " + states.joined(separator: ", "))]
      if !qualities.isEmpty {
        let words = qualities.sorted { $0.key < $1.key }.map {
          "\($1) \(names.indices.contains($0) ? names[$0] : "level \($0)")"
        }
        rows.append(("Quality", words.joined(separator: ", ")))
      }
      return rows
    }

    func encode(into line: inout JSONLine) {
      line.member("readings") { line in
        for (state, count) in states.sorted(by: { $0.key < $1.key }) { line.member(state, count) }
      }
      body.encode("Celsius", into: &line)
      if let last = body.last { line.member("lastCelsius", last) }
      if skin.count > 0 { line.member("skin") { skin.encode("Celsius", into: &$0) } }
      if !qualities.isEmpty {
        line.member("quality") { line in
          for (level, count) in qualities.sorted(by: { $0.key < $1.key }) { line.member("\(level)", count) }
        }
      }
      if heartRate.count > 0 { line.member("heartRate") { heartRate.encode("PerMinute", into: &$0) } }
      if let highest = heatStrainIndex.highest { line.member("highestHeatStrainIndex", highest) }
    }
  }
}

struct TemperatureAnalysis: RowAnalysis {
  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) {
    results.take(ReceiveTime(nanoseconds: Int64(bitPattern: words[0])))
    let columns = TemperatureTables.tables[0].columns
    func number(_ place: Int) -> Double? { columns[place].number(words[place]) }
    if case .word(let states) = columns[1].kind, let place = Int(exactly: words[1]), place < states.count {
      results.report.temperature.states[states[place], default: 0] += 1
    }
    results.report.temperature.body.add(number(2))
    results.report.temperature.skin.add(number(3))
    if let level = number(4).flatMap(Int.init(exactly:)) {
      results.report.temperature.qualities[level, default: 0] += 1
    }
    results.report.temperature.heartRate.add(number(5))
    results.report.temperature.heatStrainIndex.add(number(6))
  }
}

extension AnalysisReport {
  /// Measurements of a cycling speed and cadence sensor.
  package struct Cycling: Sendable {
    /// Cadence while the crank turns, in revolutions per minute.
    package var cadence = NumberRange()
    package var wheel = NumberRange()
    /// Number of wheel revolutions since the first row, without jumps at restarts of the count; `nil` if the
    /// sensor does not count wheel revolutions.
    package var wheelRevolutions: Double?
    package var crankRevolutions: Double?
    /// Number of times that a count restarted or decreased.
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

/// Recomputes rates and revolutions from the counts in the rows. Recorded rates of older captures are wrong
/// where they span a restart.
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
