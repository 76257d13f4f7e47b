import BLEWire
import ColmiRing
import TestKit
import Testing

/// Groups frames into ticks, with and without lost frames.
@Suite struct RingTickTests {
  enum Kind: Int { case spO2, ppg, accelerometer }

  /// A frame whose value is the number of its tick.
  private func sample(_ kind: Kind, _ tick: Int) -> RingRawSample {
    switch kind {
    case .spO2: .spO2(SpO2RawSample(value: UInt16(tick), max: 0, min: 0, diff: 0))
    case .ppg: .ppg(PPGRawSample(value: UInt16(tick), max: 0, min: 0, diff: 0))
    case .accelerometer: .accelerometer(AccelerometerSample(x: Int16(tick), y: 0, z: 0))
    }
  }

  /// Ticks of the kinds in `order`, with frames 0.2 ms apart; `isLost` removes frames.
  private func ticks(
    _ order: [Kind], count: Int, period: Double, isLost: (Int, Kind) -> Bool = { _, _ in false }
  ) -> [RingTick] {
    var grouper = RingTickGrouper()
    var ticks: [RingTick] = []
    for number in 0..<count {
      for (place, kind) in order.enumerated() where !isLost(number, kind) {
        let time = Int64(Double(number) * period * 1e9) + Int64(place) * 200_000
        if let tick = grouper.take(sample(kind, number), at: ReceiveTime(nanoseconds: time)) {
          ticks.append(tick)
        }
      }
    }
    if let tick = grouper.finish() { ticks.append(tick) }
    return ticks
  }

  /// The tick number in each place of the row; −1 if it is empty.
  private func numbers(_ tick: RingTick) -> [Int] {
    [
      tick.spO2.map { Int($0.value) } ?? -1, tick.ppg.map { Int($0.value) } ?? -1,
      tick.accelerometer.map { Int($0.x) } ?? -1,
    ]
  }

  /// Whether the row has frames of only one tick.
  private func isPure(_ tick: RingTick) -> Bool { Set(numbers(tick).filter { $0 >= 0 }).count == 1 }

  @Test(arguments: [1, 0.24, 0.04, 0.02, 0.01, 0.001])
  func groupsWholeTicks(period: Double) {
    let ticks = ticks([.spO2, .ppg, .accelerometer], count: 500, period: period)
    #expect(ticks.map(numbers) == (0..<500).map { [$0, $0, $0] })
    #expect(ticks[7].time.nanoseconds == Int64(7 * period * 1e9))
  }

  @Test func groupsOneKindAlone() {
    let ticks = ticks([.accelerometer], count: 100, period: 0.02)
    #expect(ticks.map(numbers) == (0..<100).map { [-1, -1, $0] })
  }

  /// Learning the order from the pauses does not split a tick.
  @Test func groupsTwoKinds() {
    let ticks = ticks([.ppg, .accelerometer], count: 100, period: 0.02)
    #expect(ticks.map(numbers) == (0..<100).map { [-1, $0, $0] })
  }

  /// One frame in seven is lost: its place is empty, the others stay together.
  @Test(arguments: [1, 0.04, 0.001])
  func leavesLostFramesEmpty(period: Double) {
    var noise = Noise()
    var lost: Set<Int> = []
    for frame in 0..<1_500 where noise.next() < 0.14 { lost.insert(frame) }
    // The only ambiguous case: the end of a tick and everything before that end in the next tick are lost.
    let isLost = { (tick: Int, kind: Kind) in lost.contains(3 * tick + kind.rawValue) }
    let ticks = ticks([.spO2, .ppg, .accelerometer], count: 500, period: period, isLost: isLost)
    let mixed = ticks.filter { !isPure($0) }
    #expect(period >= 0.1 ? mixed.isEmpty : mixed.count <= 20)
    let present = (0..<500).filter { tick in
      [Kind.spO2, .ppg, .accelerometer].contains { !isLost(tick, $0) }
    }
    #expect(ticks.count == present.count - mixed.count)
  }

  /// A ring that sends the accelerometer first: the order is known after the first 48 frames.
  @Test func learnsAnotherOrder() {
    let ticks = ticks([.accelerometer, .spO2, .ppg], count: 500, period: 0.04)
    let whole = (17..<500).map { [$0, $0, $0] }
    #expect(ticks.suffix(whole.count).map(numbers) == whole)
  }

  /// The same starting in the middle of a tick; every fourth event is lost, and the next one brings two
  /// ticks.
  @Test func learnsAnotherOrderFromTheMiddle() {
    var grouper = RingTickGrouper()
    var ticks: [RingTick] = []
    for number in 0..<500 {
      for (place, kind) in [Kind.accelerometer, .spO2, .ppg].enumerated() where number > 0 || place > 0 {
        let late = number % 4 == 3 ? 39_000_000 : 0
        let time = Int64(number * 40_000_000 + place * 200_000 + late)
        let tick = grouper.take(sample(kind, number), at: ReceiveTime(nanoseconds: time))
        if let tick { ticks.append(tick) }
      }
    }
    #expect(ticks.suffix(400).map(numbers) == (99..<499).map { [$0, $0, $0] })
  }

  /// Events with three frames each, the first one with two: the pauses are in the middle of each tick.
  @Test func learnsNoOrderFromAFullLink() {
    var grouper = RingTickGrouper()
    var ticks: [RingTick] = []
    for frame in 0..<1_500 {
      let time = Int64((frame + 1) / 3 * 50_000_000 + frame % 3 * 700_000)
      let sample = sample([.spO2, .ppg, .accelerometer][frame % 3], frame / 3)
      if let tick = grouper.take(sample, at: ReceiveTime(nanoseconds: time)) { ticks.append(tick) }
    }
    #expect(ticks.map(numbers) == (0..<499).map { [$0, $0, $0] })
  }

  /// A retransmission in the middle of a tick does not split it.
  @Test func keepsASplitTickTogether() {
    var grouper = RingTickGrouper()
    var ticks: [RingTick] = []
    for number in 0..<100 {
      for (place, kind) in [Kind.spO2, .ppg, .accelerometer].enumerated() {
        let late: Int64 = number % 10 == 3 && place > 0 ? 30_000_000 : 0
        let time = Int64(number) * 40_000_000 + Int64(place) * 200_000 + late
        if let tick = grouper.take(sample(kind, number), at: ReceiveTime(nanoseconds: time)) {
          ticks.append(tick)
        }
      }
    }
    #expect(ticks.map(numbers) == (0..<99).map { [$0, $0, $0] })
  }

  @Test func ignoresUnknownSubtypes() {
    var grouper = RingTickGrouper()
    #expect(grouper.take(.unknown(subtype: 5), at: ReceiveTime(nanoseconds: 1)) == nil)
    #expect(grouper.finish() == nil)
  }
}
