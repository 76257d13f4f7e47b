import BLEWire
import Physiology
import TestKit
import Testing

/// Pulse and intervals compared with known beats, and with the beats that neurokit2 and heartpy find.
@Suite struct PulseMeterTests {
  /// Pairs each reference beat with ours: within 150 ms after subtracting the filter's shift, which is the
  /// median difference.
  private func pairs(_ reference: [Double], _ beats: [PulseBeat]) -> [(reference: Int, ours: Int)] {
    func nearest(_ time: Double) -> Int? {
      beats.indices.min { abs(beats[$0].time.seconds - time) < abs(beats[$1].time.seconds - time) }
    }
    let lag = reference.compactMap { time in nearest(time).map { beats[$0].time.seconds - time } }.median
    return reference.indices.compactMap { index in
      guard let found = nearest(reference[index] + lag) else { return nil }
      let isNear = abs(beats[found].time.seconds - reference[index] - lag) < 0.15
      return isNear ? (index, found) : nil
    }
  }

  /// Differences between accepted intervals and the reference's, in seconds.
  private func intervalErrors(_ reference: [Double], _ beats: [PulseBeat]) -> [Double] {
    let pairs = pairs(reference, beats)
    return zip(pairs, pairs.dropFirst()).compactMap { before, pair in
      guard pair.reference == before.reference + 1, pair.ours == before.ours + 1,
        let interval = beats[pair.ours].interval, beats[pair.ours].isAccepted
      else { return nil }
      return interval - (reference[pair.reference] - reference[pair.reference - 1])
    }
  }

  /// Each complete window gives a rate, on average within 2/min of the known one; intervals are within 20 ms.
  @Test(arguments: PulseFixture.clean)
  func findsThePulse(_ fixture: PulseFixture) throws {
    let (windows, beats) = try fixture.measured()
    let errors = windows.compactMap { window -> Double? in
      guard let found = window.beatsPerMinute, let known = PulseFixture.rate(of: fixture.beats, in: window)
      else { return nil }
      return abs(found - known)
    }
    #expect(windows.count == fixture.ppg.count / Int(fixture.rate) / 10)
    #expect(errors.count == windows.count)
    #expect(errors.mean <= 2)
    let intervals = intervalErrors(fixture.beats, beats)
    #expect(intervals.rootMeanSquare <= 0.020)
    // The first beats are lost while the filter starts.
    #expect(intervals.count >= fixture.beats.count - 5)
    Figures.note(
      "\(fixture.name): rate error mean \(errors.mean) max \(errors.max() ?? 0) a minute, "
        + "\(intervals.count) intervals of \(fixture.beats.count) beats, RMS \(intervals.rootMeanSquare) s")
  }

  /// The other programs place peaks on whole samples, so a sample's duration is added to the tolerance.
  @Test(arguments: PulseFixture.clean)
  func agreesWithOtherPrograms(_ fixture: PulseFixture) throws {
    let (_, beats) = try fixture.measured()
    for others in [fixture.neurokit2, fixture.heartpy] {
      let others = try #require(others)
      let errors = intervalErrors(others, beats)
      #expect(errors.count >= others.count - 5)
      #expect(errors.rootMeanSquare <= 0.020)
    }
  }

  /// Windows with a moving hand give no rate; nearly all others give an accurate one.
  @Test(arguments: PulseFixture.shaken)
  func rejectsAMovingHand(_ fixture: PulseFixture) throws {
    let (windows, _) = try fixture.measured()
    let (moving, still) = (windows.filter(fixture.isCorrupted), windows.filter { !fixture.isCorrupted($0) })
    #expect(moving.count >= 4 && still.count >= 4)
    #expect(moving.allSatisfy { $0.rejection != nil && $0.beatsPerMinute == nil })
    #expect(still.count { $0.rejection == nil } >= still.count - 1)
    for window in windows {
      guard let found = window.beatsPerMinute else { continue }
      let known = try #require(PulseFixture.rate(of: fixture.beats, in: window))
      #expect(abs(found - known) <= 2)
    }
    Figures.note("\(fixture.name): \(windows.map { $0.rejection?.rawValue ?? "good" })")
  }

  /// A limit of the optical signal alone: steady steps look like a steady pulse.
  @Test func needsTheAccelerometerForSteps() throws {
    let fixture = try #require(PulseFixture.shaken.first { $0.name.hasPrefix("walking") })
    let (windows, _) = try fixture.measured()
    #expect(windows.filter(fixture.isCorrupted).allSatisfy { $0.rejection == .motion })
  }

  @Test(arguments: [1.0, 4, 8, 17.9])
  func refusesSlowStreams(rate: Double) {
    #expect(throws: PulseMeter.Refusal.tooSlow(rate: rate)) { _ = try PulseMeter(rate: rate) }
  }

  /// The samples of a burst all have the same time, which gives a rate that must not determine any size.
  @Test(arguments: [4_097.0, 1e9, 1e18, .infinity])
  func refusesRatesOfNoSensor(rate: Double) {
    #expect(throws: PulseMeter.Refusal.tooFast(rate: rate)) { _ = try PulseMeter(rate: rate) }
    #expect(throws: PulseMeter.Refusal.tooFast(rate: rate)) { _ = try PulseTracker(rate: rate) }
    #expect(throws: ECGMeter.Refusal.tooFast(rate: rate)) { _ = try ECGMeter(rate: rate) }
    #expect(MotionMeter(rate: rate) == nil)
  }

  /// Times and numbers at the limits of what a table can hold.
  @Test func survivesTimesThatMakeNoSense() throws {
    var pulse = try PulseRateMeter(rate: 25)
    var ecg = try ECGMeter(rate: 130)
    var motion = try #require(MotionMeter(rate: 25))
    let times: [Int64] = [.min, .max, 0, -1, .max, .min, 1, .max / 2, .min / 2]
    for number in 0..<2_000 {
      let index = number % 7 == 0 ? [Int.min, Int.max][number % 2] : number
      let time = ReceiveTime(nanoseconds: times[number % times.count])
      let still = Acceleration(x: 0, y: Double(number % 2), z: 1)
      let sample = SignalSample(index: index, time: time, light: Double(number % 25), acceleration: still)
      _ = pulse.take(sample)
      while pulse.next() != nil {}
      _ = motion.take(sample)
      _ = ecg.take(ECGSample(index: index, time: time, isRestart: false, microvolts: Double(number % 100)))
    }
    #expect(motion.finish()?.seconds ?? 0 <= MotionMeter.epochSeconds)
  }

  /// A flat line, as without a finger on the sensor, is not a pulse.
  @Test func refusesAFlatLine() throws {
    let fixture = try #require(PulseFixture.clean.first)
    var flat = fixture
    flat.ppg = fixture.ppg.map { _ in 9_000 }
    let windows = try flat.measured().windows
    #expect(windows.count == 6)
    #expect(windows.allSatisfy { $0.rejection == .tooFewBeats })
  }

  /// Single missing samples have no effect; after a second without samples the meter restarts, and no
  /// interval is shortened.
  @Test func bridgesAndBreaks() throws {
    let fixture = try #require(PulseFixture.clean.first { $0.rate == 50 })
    var meter = try PulseMeter(rate: fixture.rate)
    var windows: [PulseWindow] = []
    var beats: [PulseBeat] = []
    for (index, sample) in fixture.samples.enumerated() {
      // Every fortieth sample is lost, and 25 s … 26 s.
      if index % 40 == 7 || 1_250..<1_300 ~= index { continue }
      if let window = meter.take(sample) {
        windows.append(window)
        beats += (0..<meter.beatCount).map { meter.beat($0) }
      }
    }
    #expect(windows.map(\.rejection) == [nil, nil, .interrupted, nil, nil, nil])
    #expect(intervalErrors(fixture.beats, beats).rootMeanSquare <= 0.020)
    #expect(beats.count { $0.interval == nil } == 2)
  }

  /// More than a tenth of the samples is missing, evenly spread: bridged, but rejected.
  @Test func rejectsThinSignals() throws {
    let fixture = try #require(PulseFixture.clean.first { $0.rate == 50 })
    var meter = try PulseMeter(rate: fixture.rate)
    var windows: [PulseWindow] = []
    for (index, sample) in fixture.samples.enumerated() where index % 8 != 7 {
      if let window = meter.take(sample) { windows.append(window) }
    }
    #expect(windows.count == 5)
    #expect(windows.allSatisfy { $0.rejection == .missingSamples })
  }
}
