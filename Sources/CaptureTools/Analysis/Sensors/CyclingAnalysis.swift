import BLECore
import JSONText
import Recording

extension AnalysisReport {
  /// What a cyclist's sensor counted.
  package struct Cycling: Sendable {
    /// While it turned: turns a minute.
    package var cadence = NumberRange()
    package var wheel = NumberRange()
    /// Since the first row, over all times that the sensor's count began anew; `nil` for what it does not count.
    package var wheelRevolutions: Double?
    package var crankRevolutions: Double?
    private var last: (wheel: Double?, crank: Double?)

    /// What counts up to here begins at 0 again (CSCS 1.0.1, 3.1.1: 32 bits for the wheel, 16 for the crank).
    private static let wheelLimit = 4_294_967_296.0
    private static let crankLimit = 65_536.0
    /// Turns between two rows beyond which a count was set anew and did not run over: a day of the fastest.
    private static let mostTurns = 1_000_000.0

    mutating func add(cadence: Double?, wheel: Double?, wheelCount: Double?, crankCount: Double?) {
      self.cadence.add(cadence == 0 ? nil : cadence)
      self.wheel.add(wheel == 0 ? nil : wheel)
      Self.add(wheelCount, since: last.wheel, limit: Self.wheelLimit, to: &wheelRevolutions)
      Self.add(crankCount, since: last.crank, limit: Self.crankLimit, to: &crankRevolutions)
      last = (wheelCount ?? last.wheel, crankCount ?? last.crank)
    }

    private static func add(_ count: Double?, since last: Double?, limit: Double, to sum: inout Double?) {
      guard let count else { return }
      guard let last else { return sum = sum ?? 0 }
      let turns = count >= last ? count - last : count - last + limit
      if turns <= min(mostTurns, limit / 2) { sum = (sum ?? 0) + turns }
    }

    func encode(into line: inout JSONLine) {
      if cadence.count > 0 { line.member("cadence") { cadence.encode("PerMinute", into: &$0) } }
      if let crankRevolutions { line.member("crankRevolutions", crankRevolutions) }
      if wheel.count > 0 { line.member("wheel") { wheel.encode("PerMinute", into: &$0) } }
      if let wheelRevolutions { line.member("wheelRevolutions", wheelRevolutions) }
    }
  }
}

struct CyclingAnalysis: RowAnalysis {
  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) {
    results.take(ReceiveTime(nanoseconds: Int64(bitPattern: words[0])))
    let columns = CyclingTables.tables[0].columns
    func number(_ place: Int) -> Double? { columns[place].number(words[place]) }
    results.report.cycling.add(
      cadence: number(1), wheel: number(2), wheelCount: number(3), crankCount: number(5))
  }
}
