import BLEWire
import JSONText
import Recording

extension AnalysisReport {
  /// Data of a thermometer or a CORE sensor.
  package struct Temperature: Sendable {
    /// Body temperature, in degrees Celsius.
    package var body = NumberRange()
    package var skin = NumberRange()
    package var heartRate = NumberRange()
    package var heatStrainIndex = NumberRange()
    /// Number of readings by the quality that the sensor reports, 0 (invalid) to 4 (excellent).
    package var qualities: [Int: Int] = [:]
    /// Number of rows by state.
    package var states: [String: Int] = [:]

    /// Labels and texts for display.
    package var readings: [(name: String, text: String)] {
      let names = ["0": "invalid", "1": "poor", "2": "fair", "3": "good", "4": "excellent"]
      let all = states.values.reduce(0, +)
      let states = states.sorted { $0.key < $1.key }.map { state, count in
        "\(count) \(state.map { $0 == "_" ? " " : String($0) }.joined())"
      }
      var rows = [("Readings", "\(all): " + states.joined(separator: ", "))]
      if !qualities.isEmpty {
        let words = qualities.sorted { $0.key < $1.key }.map { "\($1) \(names["\($0)"] ?? "level \($0)")" }
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
