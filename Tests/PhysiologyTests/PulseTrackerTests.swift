import BLEWire
import Foundation
import Physiology
import TestKit
import Testing

/// The tracker on signals with known pulse and steps, and the meter that selects the method.
@Suite struct PulseTrackerTests {
  /// A person who walks faster and faster: steps of `stepsPerMinute`, their half (an arm swings once in two
  /// steps) and their double, on all axes and, four times as strong as the pulse, in the optical signal.
  private struct Walker {
    var rate = 25.0
    var seconds = 120.0
    var scale = 1.0
    var offset = 10_000.0
    var stepsPerMinute = 132.0
    var motion = 4.0
    /// Start and end values, per minute.
    var pulse = (80.0, 150.0)

    func beatsPerMinute(at t: Double) -> Double { pulse.0 + (pulse.1 - pulse.0) * t / seconds }

    var samples: [SignalSample] {
      var noise = Noise()
      return (0..<Int(seconds * rate)).map { index in
        let t = Double(index) / rate
        let turns = (pulse.0 * t + (pulse.1 - pulse.0) * t * t / (2 * seconds)) / 60
        let beat = sin(2 * .pi * turns) + 0.4 * sin(4 * .pi * turns + 1)
        // Feet are not clocks: the step rate varies.
        let step = 2 * .pi * (stepsPerMinute / 60 * t + 0.3 * sin(0.4 * t))
        let (arm, foot, heel) = (sin(step / 2), sin(step + 0.5), sin(2 * step))
        let shaken = motion * (0.6 * sin(step / 2 - 0.7) + sin(step) + 0.3 * sin(2 * step + 0.4))
        return SignalSample(
          index: index, time: ReceiveTime(nanoseconds: Int64((t * 1e9).rounded())),
          light: offset + scale * (beat + shaken + 0.5 * (noise.next() - 0.5)),
          acceleration: Acceleration(
            x: 0.3 * arm + 0.1 * foot + 0.02 * noise.next(),
            y: 0.4 * foot + 0.1 * heel + 0.02 * noise.next(),
            z: 1 + 0.2 * heel + 0.2 * arm + 0.02 * noise.next()))
      }
    }

    func errors(_ windows: [PulseRateWindow]) -> [Double] {
      windows.compactMap { window in
        window.pulse.map { abs($0.beatsPerMinute - beatsPerMinute(at: window.start.seconds + 4)) }
      }
    }
  }

  private func windows(_ samples: [SignalSample], rate: Double) throws -> [PulseRateWindow] {
    var tracker = try PulseTracker(rate: rate)
    var windows: [PulseRateWindow] = []
    for sample in samples {
      tracker.take(sample)
      while let window = tracker.next() { windows.append(window) }
    }
    tracker.finish()
    while let window = tracker.next() { windows.append(window) }
    return windows
  }

  /// The pulse crosses the frequency of the stronger steps, and is tracked all the way.
  @Test(arguments: [25.0, 50, 125]) func followsAPulseBelowStrongerSteps(rate: Double) throws {
    let walker = Walker(rate: rate)
    let windows = try windows(walker.samples, rate: rate)
    #expect(windows.count == 57)
    #expect(windows.enumerated().allSatisfy { abs($1.start.seconds - 2 * Double($0)) < 0.01 })
    #expect(windows.allSatisfy { abs($0.end.seconds - $0.start.seconds - 8) < 0.05 })
    let errors = walker.errors(windows)
    #expect(errors.count == windows.count && errors.mean <= 1.5)
    #expect((errors.max() ?? .infinity) <= 6)
    // Steps of 0.3 g and more: the accelerometer's own figure is included.
    #expect(windows.allSatisfy { ($0.motion ?? 0) > 0.3 && $0.pulse?.method == .tracking })
    Figures.note("walker, \(rate) Hz: mean \(errors.mean), largest \(errors.max() ?? 0)")
  }

  /// Counts have no unit: another gain, offset or sign of the optical signal gives the same result.
  @Test(arguments: [(0.01, 3.0), (37, 40_000), (-5, 60_000)])
  func takesAnyScale(scale: Double, offset: Double) throws {
    let plain = try windows(Walker(seconds: 30).samples, rate: 25)
    let scaled = try windows(Walker(seconds: 30, scale: scale, offset: offset).samples, rate: 25)
    #expect(plain.count == 12 && scaled.count == 12)
    for (one, other) in zip(plain, scaled) {
      let (one, other) = (try #require(one.pulse), try #require(other.pulse))
      #expect(abs(one.beatsPerMinute - other.beatsPerMinute) < 1e-3)
      #expect(abs(one.quality - other.quality) < 1e-3)
    }
  }

  /// Without an accelerometer, steps and pulse look the same: no pulse is reported.
  @Test func tellsNothingWithoutAccelerometer() throws {
    let samples = Walker(seconds: 40).samples.map {
      SignalSample(index: $0.index, time: $0.time, light: $0.light)
    }
    let windows = try windows(samples, rate: 25)
    #expect(windows.count == 17)
    #expect(windows.allSatisfy { $0.motion == nil })
    #expect(windows.allSatisfy { $0.pulse == nil && $0.absence == .noAccelerometer })
  }

  /// The sensor slips every fifteen seconds: the optical signal jumps by twenty times the pulse's amplitude.
  @Test func bearsASensorThatSlips() throws {
    let walker = Walker(seconds: 60)
    let samples = walker.samples.map { sample in
      SignalSample(
        index: sample.index, time: sample.time,
        light: sample.light.map { $0 + ((sample.index / 375).isMultiple(of: 2) ? 20 : 0) },
        acceleration: sample.acceleration)
    }
    let errors = walker.errors(try windows(samples, rate: 25))
    #expect(errors.count == 27 && errors.mean <= 1.5)
    Figures.note("slips: mean \(errors.mean), largest \(errors.max() ?? 0)")
  }

  // MARK: Gaps

  /// Single missing samples have no effect. If four seconds are missing, windows that lack more than a third
  /// have no pulse, and the others keep theirs.
  @Test func saysWhereSamplesAreMissing() throws {
    let walker = Walker(seconds: 80)
    let samples = walker.samples.filter { !(1_000..<1_100 ~= $0.index) && $0.index % 50 != 7 }
    let windows = try windows(samples, rate: 25)
    #expect(windows.count == 37)
    // A window from s to s + 8 lacks its part of 40 … 44, and a little more.
    let missing = windows.filter { $0.absence == .missingSamples }.map { Int($0.start.seconds.rounded()) }
    #expect(missing == [36, 38, 40])
    #expect(windows.allSatisfy { ($0.pulse == nil) == ($0.absence != nil) })
    let errors = walker.errors(windows)
    #expect(errors.mean <= 1.5)
  }

  /// A dropout of the optical signal is treated like a missing sample.
  @Test func takesDropoutsForMissing() throws {
    let samples = Walker(seconds: 40).samples
    let dropped = samples.map {
      450..<510 ~= $0.index || $0.index % 9 == 0
        ? SignalSample(index: $0.index, time: $0.time, acceleration: $0.acceleration) : $0
    }
    let absent = samples.filter { !(450..<510 ~= $0.index || $0.index % 9 == 0) }
    let one = try windows(dropped, rate: 25)
    #expect(one == (try windows(absent, rate: 25)))
    #expect(one.count { $0.absence == .missingSamples } > 0)
  }

  /// A restart or a long gap ends the earlier part with its last windows, and begins a new one.
  @Test(arguments: [true, false]) func beginsAnew(isRestart: Bool) throws {
    let walker = Walker(seconds: 30)
    let again = walker.samples.map { sample in
      SignalSample(
        index: sample.index + (isRestart ? 750 : 1_100),
        time: ReceiveTime(nanoseconds: sample.time.nanoseconds + 44_000_000_000),
        isRestart: isRestart && sample.index == 0, light: sample.light, acceleration: sample.acceleration)
    }
    let windows = try windows(walker.samples + again, rate: 25)
    let single = try self.windows(walker.samples, rate: 25)
    #expect(windows.count == 24)
    #expect(Array(windows.prefix(12)) == single)
    #expect(windows.dropFirst(12).map(\.pulse) == single.map(\.pulse))
    #expect(windows[12].start.seconds == 44)
  }

  /// The sensor is lifted for five seconds: windows that lack more than a third have no pulse, and the jumps
  /// do not distort the others.
  @Test(arguments: [25.0, 125]) func leavesJumpsOut(rate: Double) throws {
    let walker = Walker(rate: rate, seconds: 80)
    let samples = walker.samples.map { sample in
      let isLifted = (40.0..<45).contains(sample.time.seconds)
      return isLifted
        ? SignalSample(
          index: sample.index, time: sample.time, light: 2_000, acceleration: sample.acceleration) : sample
    }
    let windows = try windows(samples, rate: rate)
    let absent = windows.filter { $0.pulse == nil }
    // Lifted from 40 to 45, settled a second or two later.
    #expect(absent.allSatisfy { $0.absence == .unsettled })
    #expect(absent.map { Int($0.start.seconds.rounded()) } == [36, 38, 40, 42])
    #expect(walker.errors(windows).mean <= 1.5)
  }

  /// White noise is neither a pulse nor a jump, however high the sampling rate.
  @Test(arguments: [25.0, 50, 125]) func takesNoiseForNoise(rate: Double) throws {
    var noise = Noise()
    let samples = (0..<Int(300 * rate)).map { index in
      SignalSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded())),
        light: 10_000 + 40 * (noise.next() - 0.5),
        acceleration: Acceleration(x: 0.002 * noise.next(), y: 0.002 * noise.next(), z: 1))
    }
    let windows = try windows(samples, rate: rate)
    #expect(windows.count == 147 && windows.allSatisfy { $0.absence == .noise && $0.pulse == nil })
  }

  /// A sensor on a table has no pulse.
  @Test func refusesAFlatLine() throws {
    let samples = Walker(seconds: 20, scale: 0).samples
    let windows = try windows(samples, rate: 25)
    #expect(windows.count == 7 && windows.allSatisfy { $0.absence == .noSignal && $0.pulse == nil })
  }

  @Test(arguments: [1.0, 17.9]) func refusesSlowStreams(rate: Double) {
    #expect(throws: PulseMeter.Refusal.tooSlow(rate: rate)) { _ = try PulseTracker(rate: rate) }
    #expect(throws: PulseMeter.Refusal.tooSlow(rate: rate)) { _ = try PulseRateMeter(rate: rate) }
  }

  // MARK: Rest

  /// At rest, with known beats: within 1/min on average.
  @Test(arguments: PulseFixture.clean) func findsAPulseAtRest(_ fixture: PulseFixture) throws {
    let samples = fixture.samples.map {
      SignalSample(
        index: $0.index, time: $0.time, light: $0.light, acceleration: Acceleration(x: 0, y: 0, z: 1))
    }
    let errors = errors(try windows(samples, rate: fixture.rate), fixture)
    #expect(errors.count >= 17 && errors.mean <= 1)
  }

  private func errors(_ windows: [PulseRateWindow], _ fixture: PulseFixture) -> [Double] {
    windows.compactMap { window in
      let inside = fixture.beats.filter { window.start.seconds..<window.end.seconds ~= $0 }
      guard let pulse = window.pulse, let first = inside.first, let last = inside.last else { return nil }
      return abs(pulse.beatsPerMinute - 60 * Double(inside.count - 1) / (last - first))
    }
  }

  private struct Measured {
    var rates: [PulseRateWindow] = []
    var windows: [PulseWindow] = []
    var beats: [PulseBeat] = []
  }

  private func measured(_ fixture: PulseFixture) throws -> Measured {
    var meter = try PulseRateMeter(rate: fixture.rate)
    var measured = Measured()
    func note(_ window: PulseWindow?, _ meter: PulseRateMeter) {
      guard let window else { return }
      measured.windows.append(window)
      measured.beats += (0..<meter.windowBeatCount).map { meter.beat($0) }
    }
    for sample in fixture.samples {
      note(meter.take(sample), meter)
      while let window = meter.next() { measured.rates.append(window) }
    }
    note(meter.finish(), meter)
    while let window = meter.next() { measured.rates.append(window) }
    return measured
  }

  /// The beat meter inside gives the same result as alone, bit for bit.
  @Test(arguments: PulseFixture.all) func leavesTheBeatsAlone(_ fixture: PulseFixture) throws {
    let (both, alone) = (try measured(fixture), try fixture.measured())
    #expect(both.windows == alone.windows && both.beats == alone.beats)
  }

  /// At rest each value is from beats, and on average within 0.15/min, like the beat meter's own.
  @Test(arguments: PulseFixture.clean) func takesBeatsAtRest(_ fixture: PulseFixture) throws {
    let windows = try measured(fixture).rates
    #expect(windows.count == (fixture.ppg.count / Int(fixture.rate) - 8) / 2 + 1)
    #expect(windows.allSatisfy { $0.pulse?.method == .beats })
    let mean = errors(windows, fixture).mean
    #expect(mean <= 0.15)
    Figures.note("\(fixture.name): both \(mean)")
  }

  /// Beats while the hand is still, tracking while it moves; both are near the known pulse.
  @Test(arguments: PulseFixture.shaken.filter { $0.accelerometer != nil })
  func takesTurns(_ fixture: PulseFixture) throws {
    let windows = try measured(fixture).rates
    let moving = windows.filter { window in
      fixture.corrupted.contains { $0[0] < window.end.seconds && window.start.seconds < $0[1] }
    }
    #expect(moving.count >= 20 && moving.allSatisfy { $0.pulse?.method == .tracking })
    #expect(windows.count { $0.pulse?.method == .beats } >= 8)
    let errors = errors(windows, fixture)
    #expect(errors.count == windows.count && errors.mean <= 1)
  }
}
