import BLELinux
import BLEWire
import JSONText
import Physiology
import Recording

extension AnalysisReport {
  /// Heart rate as reported by a sensor.
  package struct HeartRate: Sendable {
    /// Beats per minute, from measurements without a reported loss of contact.
    package var rate = NumberRange()
    /// Measurements with contact, and without. Sensors that do not report contact add to neither count.
    package var contacts = 0
    package var losses = 0
    /// Energy spent, in kilojoules.
    package var energy: Double?
    private var lastEnergy: (kilojoules: Double, time: ReceiveTime)?
    /// Maximum plausible power in kilojoules per second: twice an athlete's maximum. A count that grows
    /// faster was restarted.
    private static let mostPower = 4.0

    mutating func add(rate number: Double?, contact: Double?, energy: Double?, at time: ReceiveTime) {
      // Sensors report 0 when they have no contact, and before the first beat.
      rate.add(number == 0 ? nil : number)
      if let contact { if contact > 0 { contacts += 1 } else { losses += 1 } }
      guard let energy, abs(energy) < 1e12 else { return }
      // After a reset, the sensor continues from its new count.
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

/// The measurements of a strap.
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

/// The intervals between beats that a strap reports.
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
