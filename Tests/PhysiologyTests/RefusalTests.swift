import BLEWire
import Foundation
import Physiology
import TestKit
import Testing

/// A pulse is reported correctly or not at all, from 25 to 240/min; without a pulse none is reported.
@Suite struct RefusalTests {
  /// Signals that are not a pulse.
  enum Nothing: String, CaseIterable {
    case flat, saturated, noFinger, white, brown, narrow, lamp, breathing, steps, stepsWithoutAccelerometer,
      swappedColumns
    case twoSeconds
  }

  /// A standard normal deviate from the sum of twelve uniform ones.
  private struct Deviates {
    private var noise = Noise()
    mutating func next() -> Double { (0..<12).reduce(0.0) { sum, _ in sum + noise.next() } - 6 }
  }

  /// Two poles around a frequency in hertz: noise becomes a wave of varying amplitude.
  private struct Resonator {
    private let (a1, a2): (Double, Double)
    private var (y1, y2) = (0.0, 0.0)

    init(_ frequency: Double, width: Double, rate: Double) {
      let radius = exp(-.pi * width / rate)
      (a1, a2) = (2 * radius * cos(2 * .pi * frequency / rate), -radius * radius)
    }

    mutating func filter(_ x: Double) -> Double {
      (y1, y2) = (x + a1 * y1 + a2 * y2, y1)
      return y1
    }
  }

  private static func signal(
    _ rate: Double, seconds: Double, _ value: (Double) -> (light: Double, acceleration: Acceleration?)
  ) -> [SignalSample] {
    (0..<Int(seconds * rate)).map { index in
      let t = Double(index) / rate
      let (light, acceleration) = value(t)
      return SignalSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((t * 1e9).rounded())), light: light.rounded(),
        acceleration: acceleration)
    }
  }

  private static func samples(_ kind: Nothing, rate: Double) -> [SignalSample] {
    var deviates = Deviates()
    var (walk, narrow) = (0.0, Resonator(1.25, width: 0.35, rate: rate))
    return signal(rate, seconds: kind == .twoSeconds ? 2 : 300) { t in
      let tremble = Acceleration(
        x: 0.002 * deviates.next(), y: 0.002 * deviates.next(), z: 1 + 0.002 * deviates.next())
      let step = 2 * .pi * (132.0 / 60 * t + 0.3 * sin(0.4 * t))
      let swing = Acceleration(
        x: 0.3 * sin(step / 2) + 0.1 * sin(step + 0.5) + 0.02 * deviates.next(),
        y: 0.4 * sin(step + 0.5) + 0.1 * sin(2 * step) + 0.02 * deviates.next(),
        z: 1 + 0.2 * sin(2 * step) + 0.2 * sin(step / 2) + 0.02 * deviates.next())
      let shaken = 200 * (0.6 * sin(step / 2 - 0.7) + sin(step) + 0.3 * sin(2 * step + 0.4))
      switch kind {
      case .flat: return (10_000, tremble)
      case .saturated: return (65_535, tremble)
      case .noFinger: return (300 + 1.2 * deviates.next(), tremble)
      case .white: return (10_000 + 40 * deviates.next(), tremble)
      case .brown:
        walk += 20 * deviates.next() * (25 / rate).squareRoot()
        return (10_000 + walk, tremble)
      case .narrow: return (10_000 + 100 * narrow.filter(deviates.next()), tremble)
      case .lamp: return (10_000 + 100 * sin(2 * .pi * 1.1 * t) + 3 * deviates.next(), tremble)
      case .breathing:
        return (10_000 + 300 * sin(2 * .pi * 0.25 * t + 0.3 * sin(0.1 * t)) + 3 * deviates.next(), tremble)
      case .steps: return (10_000 + shaken + 10 * deviates.next(), swing)
      case .stepsWithoutAccelerometer: return (10_000 + shaken + 10 * deviates.next(), nil)
      case .swappedColumns: return (512 * swing.x, Acceleration(x: swing.y, y: swing.z, z: swing.x))
      case .twoSeconds: return (10_000 + 100 * sin(2 * .pi * 1.2 * t), tremble)
      }
    }
  }

  private func windows(_ samples: [SignalSample], rate: Double) throws -> (
    rates: [PulseRateWindow], beats: [PulseWindow]
  ) {
    var meter = try PulseRateMeter(rate: rate)
    var (rates, beats): ([PulseRateWindow], [PulseWindow]) = ([], [])
    for sample in samples {
      if let window = meter.take(sample) { beats.append(window) }
      while let window = meter.next() { rates.append(window) }
    }
    if let window = meter.finish() { beats.append(window) }
    while let window = meter.next() { rates.append(window) }
    return (rates, beats)
  }

  @Test(arguments: Nothing.allCases, [25.0, 50, 100]) func tellsNoPulse(of kind: Nothing, rate: Double) throws
  {
    let found = try windows(Self.samples(kind, rate: rate), rate: rate)
    #expect(found.rates.count == (kind == .twoSeconds ? 0 : 147))
    #expect(found.rates.allSatisfy { ($0.pulse == nil) == ($0.absence != nil) })
    let believed = found.rates.filter { ($0.pulse?.quality ?? 0) >= 0.5 }
    #expect(believed.isEmpty, "\(believed)")
    if kind != .stepsWithoutAccelerometer { #expect(found.beats.allSatisfy { $0.beatsPerMinute == nil }) }
  }

  /// A stretch that is too short for a beat has no pulse.
  @Test(arguments: [25.0, 50, 100, 200]) func tellsNoPulseOfAMoment(rate: Double) throws {
    let samples = Self.samples(.lamp, rate: rate)
    for count in 1...Int(2 * rate) {
      let found = try windows(Array(samples.prefix(count)), rate: rate)
      #expect(found.rates.isEmpty && found.beats.allSatisfy { $0.beatsPerMinute == nil })
    }
  }

  /// A pulse wave with a second harmonic, or a systolic wave and a dicrotic one nearly half as high; it
  /// varies with respiration, and the hand is still.
  @Test(arguments: [25.0, 50, 100], [false, true]) func tellsAPulseOrNone(rate: Double, isDicrotic: Bool)
    throws
  {
    for beatsPerMinute in [25.0, 28, 30, 34, 38, 42, 50, 60, 75, 100, 130, 160, 180, 200, 215, 230, 240] {
      var deviates = Deviates()
      let breath = beatsPerMinute < 120 ? 0.03 : 0
      let samples = Self.signal(rate, seconds: 60) { t in
        let turns = beatsPerMinute / 60 * (t + breath * (1 - cos(2 * .pi * 0.25 * t)) / (2 * .pi * 0.25))
        let place = turns - turns.rounded(.down)
        let wave =
          isDicrotic
          ? 3 * exp(-pow((place - 0.2) / 0.09, 2)) + 1.35 * exp(-pow((place - 0.55) / 0.12, 2))
          : sin(2 * .pi * turns) + 0.4 * sin(4 * .pi * turns + 1)
        let still = Acceleration(x: 0.002 * deviates.next(), y: 0.002 * deviates.next(), z: 1)
        return (10_000 + 100 * wave + 10 * sin(2 * .pi * 0.25 * t) + 3 * deviates.next(), still)
      }
      let found = try windows(samples, rate: rate)
      let told = found.rates.compactMap { $0.pulse?.beatsPerMinute }
      #expect(told.allSatisfy { abs($0 - beatsPerMinute) <= 5 }, "\(beatsPerMinute): \(told)")
      let good = found.beats.compactMap(\.beatsPerMinute)
      #expect(good.allSatisfy { abs($0 - beatsPerMinute) <= 5 }, "\(beatsPerMinute): \(good)")
      // At 25 samples a second, a beat at 240/min is six samples.
      if rate > 25 || beatsPerMinute < 230 { #expect(told.count >= 18, "\(beatsPerMinute): \(told.count)") }
    }
  }
}
