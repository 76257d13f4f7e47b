import BLEWire
import Foundation
import Physiology
import TestKit
import Testing

/// Filters, counts, steps and rest, compared with numbers computed with SciPy 1.17 or by hand.
@Suite struct MotionTests {
  /// The first six samples of the impulse response; `scipy.signal.butter(2, cutOff, kind, fs=rate)`.
  @Test func filtersAsButterworth() {
    func response(_ filter: Biquad) -> [Double] {
      var filter = filter
      return (0..<6).map { filter.filter($0 == 0 ? 1 : 0) }
    }
    let expected: [(Biquad, [Double])] = [
      (
        .highPass(cutOff: 0.5, rate: 50),
        [
          0.956543225557, -0.0849438435632, -0.0810151354845, -0.0771143251797, -0.0732537809185,
          -0.0694446672128,
        ]
      ),
      (
        .lowPass(cutOff: 8, rate: 50),
        [0.145323883877, 0.38816432142, 0.369124640861, 0.149749954801, 0.00734733895672, -0.0328553232012]
      ),
      (
        .highPass(cutOff: 0.29, rate: 1),
        [0.22295501346, -0.511726312247, 0.332319517341, -0.0023976669308, -0.061442571479, 0.0185862489787]
      ),
    ]
    for (filter, values) in expected {
      let ours = response(filter)
      #expect(zip(ours, values).allSatisfy { abs($0 - $1) < 1e-11 })
    }
  }

  /// A constant offset causes no ringing: the filter starts in its steady state.
  @Test func settlesOnAnOffset() {
    var filter = BandPass(0.5...8, rate: 50)
    #expect((0..<100).allSatisfy { _ in abs(filter.filter(10_800)) < 1e-6 })
    filter.reset()
    #expect((0..<100).allSatisfy { _ in abs(filter.filter(-3)) < 1e-9 })
  }

  // MARK: Counts

  private static let countsPerG = 512.0

  private func place(_ index: Int, _ rate: Double, x: Double, y: Double, z: Double) -> SignalSample {
    SignalSample(
      index: index, time: ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded())),
      acceleration: Acceleration(x: x, y: y, z: z))
  }

  /// Quantised as by a sensor of 12 bits and ±4 g.
  private func quantised(_ g: Double) -> Double {
    max(-2048, min(2047, (g * Self.countsPerG).rounded())) / Self.countsPerG
  }

  /// A minute of 1 Hz with 0.2 g on x (0.4 Hz if the rate is 1 Hz); 0.03 g on y, which is below the dead
  /// band; on z only gravity, or gravity with 2.9 g at 0.8 Hz, most of it clipped. Expected: the published
  /// steps in NumPy and SciPy on the same samples.
  @Test(arguments: [
    (1.0, 3_810.0, 20_605.3, 1_047.12), (4, 4_767.5, 58_016.2, 1_048.6), (25, 3_859.6, 56_808.1, 1_079.75),
    (50, 3_859.2, 56_796.7, 1_079.75), (100, 3_813.7, 56_764.1, 1_079.75),
  ])
  func countsMovement(rate: Double, still: Double, shaken: Double, enmo: Double) throws {
    for isShaken in [false, true] {
      var meter = try #require(MotionMeter(rate: rate))
      let cycles = rate > 2 ? 1 : 0.4
      for index in 0..<Int(60 * rate) {
        let t = Double(index) / rate
        let z = isShaken ? 1 + 2.9 * sin(2 * .pi * 0.8 * t) : 1
        let sample = place(
          index, rate, x: quantised(0.2 * sin(2 * .pi * cycles * t + 0.4)),
          y: quantised(0.03 * sin(2 * .pi * t)), z: quantised(z))
        #expect(meter.take(sample) == nil)
      }
      let finished = meter.finish()
      let epoch = try #require(finished)
      let expected = isShaken ? shaken : still
      // One sample at the edge of a level is 1/(rate × 60) of the sum.
      #expect(abs(epoch.counts - expected) <= 0.01 * expected)
      if isShaken { #expect(abs(epoch.enmo - enmo) < 0.01) }
      #expect(epoch.start.nanoseconds == 0 && abs(epoch.seconds - 60) < 1e-9)
      #expect((epoch.steps == nil) == (rate < 15))
    }
  }

  /// A ring at rest in any orientation, with its sensor's noise.
  @Test(arguments: [1.0, 25, 50]) func countsNothingAtRest(rate: Double) throws {
    var meter = try #require(MotionMeter(rate: rate))
    var noise = Noise()
    var epochs: [ActivityEpoch] = []
    for index in 0..<Int(150 * rate) {
      let axes = [200.0, -300, 350].map { ($0 + (4 * noise.next()).rounded(.towardZero)) / Self.countsPerG }
      if let epoch = meter.take(place(index, rate, x: axes[0], y: axes[1], z: axes[2])) {
        epochs.append(epoch)
      }
    }
    if let last = meter.finish() { epochs.append(last) }
    #expect(epochs.count == 3)
    #expect(epochs.allSatisfy { $0.counts == 0 && ($0.steps ?? 0) == 0 })
    #expect(epochs.last.map { abs($0.seconds - 30) < 1e-6 } == true)
  }

  @Test func refusesHalfASampleASecond() {
    #expect(MotionMeter(rate: 0.5) == nil)
    #expect(StepCounter(rate: 14.9) == nil)
  }

  // MARK: Steps

  /// Swinging arms: 0.3 g at the pace of the steps with a harmonic and noise, plus gravity.
  @Test(arguments: [(25.0, 1.8), (50, 1.4), (50, 1.9), (50, 2.6), (100, 1.8), (1_000, 1.8)])
  func countsSteps(rate: Double, pace: Double) throws {
    var counter = try #require(StepCounter(rate: rate))
    var noise = Noise()
    let seconds = 60.0
    for index in 0..<Int(seconds * rate) {
      let t = Double(index) / rate
      let swing = 0.3 * sin(2 * .pi * pace * t) + 0.1 * sin(4 * .pi * pace * t + 1)
      counter.take(1 + swing + 0.04 * (noise.next() - 0.5), at: Int64(t * 1e9))
    }
    // The first second sets the threshold; of the rest the method may miss 3 %.
    #expect(abs(Double(counter.count) - pace * seconds) <= pace + 0.03 * pace * seconds)
    Figures.note("\(rate) Hz, \(pace * seconds) steps: \(counter.count)")
  }

  /// Three jerks are not a walk: the method requires four steps in a row.
  @Test func doesNotCountJerks() throws {
    var counter = try #require(StepCounter(rate: 50))
    for index in 0..<3_000 {
      let t = Double(index) / 50
      let isJerk = (0..<3).contains {
        abs(t.truncatingRemainder(dividingBy: 10) - 2 - 0.5 * Double($0)) < 0.1
      }
      counter.take(isJerk ? 1.5 : 1, at: Int64(t * 1e9))
    }
    #expect(counter.count == 0)
  }

  // MARK: Rest

  /// The published sum computed by hand (in Python) for these minutes: awake from the fifth on, and so on.
  @Test func followsTheRule() {
    let counts: [Double] = [
      0, 0, 20, 0, 0, 600, 2_500, 40_000, 300, 0, 0, 0, 0, 0, 150, 0, 0, 0, 0, 900, 400, 0, 0, 0,
    ]
    var rule = SleepRule()
    let states = counts.compactMap { rule.take(counts: $0) }
    #expect(
      states.map { $0 == .asleep ? "S" : "W" }.joined() == "SSSSWWWWWWWWSSSSSSWWWS")
  }

  /// Minutes without measurements are not sleep.
  @Test func doesNotGuess() {
    var rule = SleepRule()
    let states = [Double?](repeating: 0, count: 10) + [nil] + [Double?](repeating: 0, count: 10)
    let found = states.compactMap { rule.take(counts: $0) }
    #expect(found.count == 19)
    #expect(found.enumerated().allSatisfy { ($1 == .unknown) == (8...14 ~= $0) })
  }
}
