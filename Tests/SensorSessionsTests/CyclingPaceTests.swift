import BLESensors
import BLEWire
import SensorSessions
import Testing

/// Rates computed from counts. A CSC Measurement has a 32-bit wheel count, a 16-bit crank count, and times in
/// 1/1024 s that wrap every 64 s (Cycling Speed and Cadence Service 1.0, 3.1).
@Suite struct CyclingPaceTests {
  /// A count, the time of the last turn, and the time of arrival in seconds.
  private typealias Value = (count: Int, ticks: Int, seconds: Double)

  private func sample(_ value: Value, isWheel: Bool) throws -> CyclingSample {
    let ticks = [UInt8(value.ticks & 0xFF), UInt8(value.ticks >> 8 & 0xFF)]
    let count = (0..<(isWheel ? 4 : 2)).map { UInt8(truncatingIfNeeded: value.count >> (8 * $0)) }
    let octets = [isWheel ? 1 : 2] + count + ticks
    return try CyclingSample(
      decoding: octets.span,
      at: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000 + Int64(value.seconds * 1e9)))
  }

  /// Crank rates, rounded, with `-1` for unknown, and the number of restarts.
  private func rates(_ values: [Value], isWheel: Bool = false) throws -> (rates: [Int], restarts: Int) {
    var pace = CyclingPace()
    let rates = try values.map { value in
      let (wheel, crank) = pace.take(try sample(value, isWheel: isWheel))
      return (isWheel ? wheel : crank).map { Int($0.rounded()) } ?? -1
    }
    return (rates, pace.restarts)
  }

  /// At 90 turns/min a turn takes 682.67 ticks.
  @Test func tellsARateAcrossWraps() throws {
    // Count 65,535 wraps to 0, and time 65,400 to 546.
    let turning = try rates([(65_534, 64_717, 0), (65_535, 65_400, 0.7), (0, 547, 1.3), (2, 1_912, 2.7)])
    #expect(turning.rates == [-1, 90, 90, 90] && turning.restarts == 0)
    let wheel = try rates(
      [(0xFFFF_FFFE, 100, 0), (1, 612, 0.5), (4, 1_124, 1)], isWheel: true)
    #expect(wheel.rates == [-1, 360, 360] && wheel.restarts == 0)
  }

  /// The count and the time do not change: the crank is standing still. Measurements delayed by seconds
  /// arrive together.
  @Test func standsStill() throws {
    let still = try rates([
      (7, 100, 0), (7, 100, 1), (7, 100, 2), (8, 2_148, 3), (9, 3_172, 6), (10, 4_196, 6),
    ])
    #expect(still.rates == [-1, -1, -1, 30, 60, 60] && still.restarts == 0)
  }

  /// A turn ends before its measurement and after a standstill of 20 s without new values: 1 turn in 20 s is
  /// 3/min.
  @Test func knowsTheLengthOfAStand() throws {
    let stand = (0...20).map { (7, 100, Double($0)) as Value } + [(8, 100 + 20 * 1024, 20.5)]
    let (found, restarts) = try rates(stand)
    #expect(found.last == 3 && found.dropLast().allSatisfy { $0 == -1 } && restarts == 0)
  }

  /// After 64 s the time may have wrapped: a standstill of 100 s looks like 36 s. No rate is given, and it is
  /// not a restart.
  @Test(arguments: [1.0, 100.0]) func saysNothingOfALongSilence(_ step: Double) throws {
    let stand = stride(from: 0, through: 100, by: step).map { (7, 100, $0) as Value }
    let (found, restarts) = try rates(stand + [(8, 100 + 36 * 1024, 100.5), (9, 100 + 37 * 1024, 101.5)])
    #expect(found.suffix(2) == [-1, 60] && restarts == 0)
  }

  /// The count restarts from 0; a wheel rolls back by two turns; the time goes back; the count jumps.
  @Test(
    arguments: [
      (false, [(4_000, 30_000, 0), (4_001, 30_683, 1), (1, 500, 2), (2, 1_183, 3)]),
      (true, [(9_000, 30_000, 0), (9_002, 30_683, 1), (9_000, 31_366, 2), (9_001, 31_707, 3)]),
      (true, [(9_000, 30_000, 0), (9_002, 30_683, 1), (0, 31_366, 2), (1, 31_707, 3)]),
      (false, [(20, 30_000, 0), (21, 30_683, 1), (22, 30_400, 2), (23, 31_083, 3)]),
      (false, [(20, 30_000, 0), (21, 30_683, 1), (23, 64_000, 2), (24, 64_683, 3)]),
      (false, [(20, 30_000, 0), (21, 30_683, 1), (40, 31_366, 2), (41, 32_049, 3)]),
      (true, [(20, 30_000, 0), (21, 30_683, 1), (400_000, 31_366, 2), (400_001, 31_707, 3)]),
    ] as [(Bool, [(Int, Int, Double)])])
  func tellsARestart(_ isWheel: Bool, _ values: [(Int, Int, Double)]) throws {
    let (found, restarts) = try rates(values.map { ($0.0, $0.1, $0.2) }, isWheel: isWheel)
    #expect(found[0] == -1 && found[1] > 0 && found[2] == -1 && found[3] > 0)
    #expect(found.allSatisfy { $0 < 300 } && restarts == 1)
  }

  /// Turns are counted even if no rate is known, unless the count may have wrapped.
  @Test func countsTurns() throws {
    var pace = CyclingPace()
    let values: [Value] = [(100, 0, 0), (150, 0, 200), (20, 0, 400), (21, 683, 401), (22, 1_366, 20_000)]
    let turns = try values.map { pace.step(try sample($0, isWheel: false)).crank?.turns }
    #expect(turns == [nil, 50, nil, 1, nil] && pace.restarts == 1)
  }

  /// Setting back this machine's clock does not look like a change of the sensor's clock.
  @Test func survivesAClockThatIsSet() throws {
    let found = try rates([
      (1, 0, 100), (2, 683, 101), (3, 1_366, 0), (4, 2_049, 1), (5, 2_732, 9_000), (6, 3_415, 9_001),
    ])
    #expect(found.rates == [-1, 90, -1, 90, -1, 90] && found.restarts == 0)
  }
}
