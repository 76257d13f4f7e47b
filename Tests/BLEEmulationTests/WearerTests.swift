import BLEWire
import ColmiRing
import Foundation
import Physiology
import TestKit
import Testing

@testable import BLEEmulation

/// A ring's simulated wearer at 25 samples a second: beats follow the formulas, and the signal is as
/// difficult as a real body's.
@Suite struct WearerTests {
  private static let rate = 25.0

  private static func wearer(_ options: [String: String]) throws -> Wearer {
    var wearer = Wearer()
    for (name, text) in options { try wearer.set(name, text) }
    return wearer
  }

  /// The ring's samples as its decoder reads them, with the wearer's time.
  private static func samples(_ wearer: Wearer, seconds: Int) throws -> [SignalSample] {
    var signal = RingSignal(wearer)
    return try (0..<seconds * Int(rate)).map { tick in
      let time = Double(tick) / rate
      let light = signal.frame(.ppg, tick: tick + 9, seconds: time)
      let moved = signal.frame(.accelerometer, tick: tick + 9, seconds: time)
      var ppg: PPGRawSample?
      var accelerometer: AccelerometerSample?
      if case .ppg(let sample) = try RingRawSample(decoding: light.span) { ppg = sample }
      if case .accelerometer(let sample) = try RingRawSample(decoding: moved.span) { accelerometer = sample }
      return SignalSample(
        index: tick, time: ReceiveTime(nanoseconds: Int64((time * 1e9).rounded())),
        light: try #require(ppg).reading.map(Double.init),
        acceleration: try #require(accelerometer).acceleration)
    }
  }

  private struct Reading {
    var windows: [PulseRateWindow] = []
    var beatWindows: [PulseWindow] = []
    var beats: [PulseBeat] = []
    var segments: [VariabilitySegment] = []
  }

  private static func read(_ samples: [SignalSample]) throws -> Reading {
    var reading = Reading()
    var meter = try PulseRateMeter(rate: rate)
    var variability = VariabilityMeter()
    func note(_ window: PulseWindow?) {
      guard let window else { return }
      reading.beatWindows.append(window)
      for index in 0..<meter.windowBeatCount {
        reading.beats.append(meter.beat(index))
        reading.segments += variability.take(meter.beat(index)).map { [$0] } ?? []
      }
    }
    for sample in samples {
      note(meter.take(sample))
      while let window = meter.next() { reading.windows.append(window) }
    }
    note(meter.finish())
    while let window = meter.next() { reading.windows.append(window) }
    reading.segments += variability.finish().map { [$0] } ?? []
    return reading
  }

  /// The mean heart rate of a window by the published formula (McSharry et al. 2003, as `HeartRhythm`
  /// describes it), integrated numerically, with the delay of the pulse at the finger.
  private static func truth(_ window: PulseRateWindow, _ range: ClosedRange<Double>, _ variability: Double)
    -> Double
  {
    let start = window.start.seconds - 0.2
    let mean = (range.lowerBound + range.upperBound) / 2
    return (0..<800).map { step in
      let time = start + (Double(step) + 0.5) / 100
      let place = (time + 60).truncatingRemainder(dividingBy: 60) / 60
      let share = place < 0.5 ? 2 * place : 2 - 2 * place
      return range.lowerBound + (range.upperBound - range.lowerBound) * share
        + mean * variability * (0.6 * sin(2 * .pi * 0.25 * time) + 0.4 * sin(2 * .pi * 0.1 * time))
    }.mean
  }

  private static func distances(
    _ windows: [PulseRateWindow], _ range: ClosedRange<Double>, variability: Double = 0.05
  ) -> [(error: Double, quality: Double)] {
    windows.compactMap { window in
      window.pulse.map { (abs($0.beatsPerMinute - truth(window, range, variability)), $0.quality) }
    }
  }

  /// Five minutes of the optical signal at rest vary as the heart does, whose beats are computed from a
  /// formula.
  @Test func variesAsTheHeartDoes() throws {
    let wearer = try Self.wearer(["heart-rate": "60-66"])
    let segment = try #require(try Self.read(try Self.samples(wearer, seconds: 330)).segments.first)
    let found = try segment.result.get()
    let times = (0...400).map { wearer.rhythm.beat($0) }
      .filter { (segment.start.seconds - 0.4..<segment.end.seconds - 0.4).contains($0) }
    let intervals = zip(times, times.dropFirst()).map { 1_000 * ($1 - $0) }
    let steps = zip(intervals, intervals.dropFirst()).map { $1 - $0 }
    let deviation = intervals.map { $0 - intervals.mean }.rootMeanSquare
    Figures.note("RMSSD \(found.successiveMilliseconds) of \(steps.rootMeanSquare) ms")
    Figures.note("SDNN \(found.deviationMilliseconds) of \(deviation) ms")
    #expect(found.count > 300 && segment.artefacts.total == 0)
    #expect(abs(found.successiveMilliseconds / steps.rootMeanSquare - 1) < 0.02)
    #expect(abs(found.deviationMilliseconds / deviation - 1) < 0.02)
  }

  /// At rest each beat appears in the optical signal with the same delay, apart from the filter and a
  /// sample's duration.
  @Test func beatsAreWhereTheHeartHasThem() throws {
    let wearer = try Self.wearer(["heart-rate": "60-90"])
    let samples = try Self.samples(wearer, seconds: 120)
    let reading = try Self.read(samples)
    let found = reading.beats.filter(\.isAccepted).map(\.time.seconds)
    let known = (0...160).map { wearer.rhythm.beat($0) }
    Figures.note("PPG: \(samples.prefix(60 * 25).map { Int($0.light ?? 0) })")
    // neurokit2 0.2.13 (`ppg_clean`, `ppg_findpeaks` with their defaults) also finds one peak for each.
    let theirs = Self.neurokit2Light.map { Double($0) / Self.rate }
    #expect(theirs.count == 75)
    for (number, time) in theirs.enumerated() { #expect(abs(time - known[number] - 0.35) < 0.06) }
    let delays = found.map { time in time - (known.last { $0 < time } ?? 0) }
    let median = delays.median
    Figures.note("delay \(median) s, \(delays.map { $0 - median }.rootMeanSquare) s, \(found.count) beats")
    #expect(found.count >= 140)
    // The foot reaches the finger after 0.2 s, the peak six thirty-seconds of a beat later.
    #expect((0.25...0.45).contains(median))
    #expect(delays.allSatisfy { abs($0 - median) < 0.04 })
    let errors = Self.distances(reading.windows, 60...90)
    #expect(errors.count == 57 && errors.allSatisfy { $0.error < 1 })
  }

  /// In motion no beats are found, so the tracker is used: within 3/min in 90 % of the windows.
  @Test(arguments: [("walk", 86.0...98.0), ("run", 138.0...152.0)])
  func motionIsWork(_ motion: String, _ range: ClosedRange<Double>) throws {
    let reading = try Self.read(try Self.samples(try Self.wearer(["motion": motion]), seconds: 300))
    let errors = Self.distances(reading.windows, range)
    let right = errors.count { $0.error <= 3 }
    let sure = errors.filter { $0.quality >= 0.9 }
    Figures.note(
      "\(motion): \(right) of \(reading.windows.count) within 3, mean \(errors.map(\.error).mean); quality ≥ 0.9: "
        + "\(sure.count { $0.error <= 5 }) of \(sure.count); motion \(reading.windows.compactMap(\.motion).mean) g; "
        + "\(reading.beatWindows.count { $0.beatsPerMinute != nil }) windows by beats; "
        + "\(errors.map { "\(Int($0.error))" }.joined(separator: " "))")
    #expect(reading.windows.count >= 146)
    #expect(Double(right) >= 0.9 * Double(reading.windows.count))
    #expect(Double(sure.count { $0.error <= 5 }) >= 0.9 * Double(sure.count))
    #expect(reading.beatWindows.allSatisfy { $0.beatsPerMinute == nil })
  }

  /// Motion in the optical signal is not a pulse: without the accelerometer the beats alone are wrong or
  /// missing, although none is rejected for motion.
  @Test(arguments: [("walk", 86.0...98.0), ("run", 138.0...152.0)])
  func beatsAloneFail(_ motion: String, _ range: ClosedRange<Double>) throws {
    let samples = try Self.samples(try Self.wearer(["motion": motion]), seconds: 300).map {
      SignalSample(index: $0.index, time: $0.time, light: $0.light)
    }
    let windows = try Self.read(samples).beatWindows
    let right = windows.count { window in
      guard let pulse = window.beatsPerMinute else { return false }
      let middle = PulseRateWindow(
        start: ReceiveTime(nanoseconds: window.start.nanoseconds + 1_000_000_000), end: window.end)
      return abs(pulse - Self.truth(middle, range, 0.05)) <= 5
    }
    Figures.note("\(motion), beats alone: \(right) of \(windows.count)")
    #expect(windows.count >= 29 && 5 * right < windows.count)
  }

  /// The accelerometer shows the cadence, and rest between the bouts.
  @Test func movesInBouts() throws {
    let samples = try Self.samples(
      try Self.wearer(["motion": "run", "cadence": "150", "bout": "30"]), seconds: 60)
    func power(_ seconds: Range<Double>, _ turnsPerSecond: Double) -> Double {
      let part = samples.filter { seconds.contains($0.time.seconds) }
      let lengths = part.map { $0.acceleration?.y ?? 0 }
      let (cosine, sine) = zip(part, lengths).reduce((0.0, 0.0)) { sum, next in
        let angle = 2 * .pi * turnsPerSecond * next.0.time.seconds
        return (
          sum.0 + (next.1 - lengths.mean) * cos(angle), sum.1 + (next.1 - lengths.mean) * sin(angle)
        )
      }
      return (cosine * cosine + sine * sine) / Double(part.count * part.count)
    }
    let pace = stride(from: 0.8, to: 4, by: 0.05).max { power(34..<56, $0) < power(34..<56, $1) }
    #expect(abs(60 * (pace ?? 0) - 150) <= 5)
    #expect(power(5..<28, 2.5) < 1e-4 * power(34..<56, 2.5))
  }

  /// Bouts, cold fingers, a lifted ring: if many windows have a quality of at least 0.9, 95 in 100 are right.
  /// Below 0.02 each beat of the pulse is lower than the noise, and a hand at rest is refused as if there
  /// were no pulse.
  @Test(arguments: [
    (["motion": "run", "bout": "60"], 280), (["perfusion": "0.02"], 30), (["perfusion": "0.05"], 280),
    (["perfusion": "0.5", "motion": "walk"], 150), (["lifted-every": "60"], 250),
    (["lifted-every": "60", "motion": "walk"], 250), (["lifted-every": "20"], 150),
    (["lifted-every": "12"], 80), (["lifted-every": "12", "motion": "run"], 40), (["ectopic": "0.05"], 280),
  ])
  func qualityKeepsWhatItSays(_ options: [String: String], _ leastSure: Int) throws {
    let sure = try Self.errors(options, quality: 0.9)
    #expect(sure.count >= leastSure && Double(sure.count { $0 <= 5 }) >= 0.95 * Double(sure.count))
  }

  /// Artefacts of at least six times the pulse, or no pulse at all: some windows are accepted, but few of
  /// 297.
  @Test(arguments: [
    ["perfusion": "0"], ["perfusion": "0", "motion": "walk"], ["perfusion": "0", "motion": "run"],
    ["perfusion": "0.005"], ["perfusion": "0.2", "motion": "walk"], ["perfusion": "0.5", "motion": "run"],
  ])
  func qualityIsLowWithoutAPulse(_ options: [String: String]) throws {
    #expect(try Self.errors(options, quality: 0.9).count <= 10)
  }

  /// Noise alone is distinguished from a pulse.
  @Test func noiseHasNoQuality() throws {
    #expect(try Self.errors(["perfusion": "0"], quality: 0.5).count <= 5)
  }

  /// Errors of the windows with at least this quality, in ten minutes.
  private static func errors(_ options: [String: String], quality: Double) throws -> [Double] {
    let wearer = try wearer(options)
    let reading = try read(try samples(wearer, seconds: 600))
    let errors = distances(reading.windows, wearer.rhythm.beatsPerMinute)
    let known = errors.filter { $0.quality >= quality }.map(\.error)
    Figures.note(
      "\(options): \(errors.count { $0.error <= 5 }) of \(reading.windows.count) within 5, of \(quality) or more "
        + "\(known.count { $0 <= 5 }) of \(known.count), by beats "
        + "\(reading.windows.count { $0.pulse?.method == .beats })")
    return known
  }

  private static let ectopic = ["heart-rate": "66-74", "ectopic": "0.03"]

  /// Early by 0.35 of an interval; the next beat is in its regular place, so the two intervals add up to two
  /// regular ones.
  @Test func ectopicBeatsAreAsOftenAndEarlyAsTheyAreSaidToBe() throws {
    let rhythm = try Self.wearer(Self.ectopic).rhythm
    let numbers = (0..<20_000).filter { rhythm.isEctopic($0) }
    #expect((540...660).contains(numbers.count))
    #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $1 - $0 > 1 })
    for number in numbers.prefix(20) {
      let (before, beat, after) = (rhythm.beat(number - 1), rhythm.beat(number), rhythm.beat(number + 1))
      #expect(abs((beat - before) / (after - before) - 0.325) < 0.01)
    }
    var bigeminy = rhythm
    bigeminy.ectopicShare = 0.5
    #expect((0..<100).allSatisfy { bigeminy.isEctopic($0) == !$0.isMultiple(of: 2) })
  }

  /// Variability from a strap's intervals: as many artefacts are corrected as there are ectopic beats.
  @Test func ectopicBeatsOfAStrapAreCorrected() throws {
    let rhythm = try Self.wearer(Self.ectopic).rhythm
    var strap = PulseSignal()
    strap.rhythm = rhythm
    var meter = VariabilityMeter()
    var end = 0.0
    for interval in strap.intervals(until: 299).map({ Double($0) / 1024 }) {
      end += interval
      let segment = meter.take(interval, end: ReceiveTime(nanoseconds: Int64(end * 1e9)))
      #expect(segment == nil)
    }
    let last = meter.finish()
    let segment = try #require(last)
    let known = (0..<400).count { rhythm.isEctopic($0) && rhythm.beat($0 + 1) < end }
    Figures.note("strap: \(segment), known \(known)")
    #expect(known >= 5 && segment.artefacts.ectopic == known && segment.artefacts.total == known)
  }

  /// ECG: each R wave is found within 20 ms, including early ones.
  @Test func ectopicBeatsOfAnElectrocardiogramAreFound() throws {
    let rhythm = try Self.wearer(Self.ectopic).rhythm
    let heart = CardiacWave(rhythm: rhythm)
    var meter = try ECGMeter(rate: 130)
    var found: [ECGBeat] = []
    for index in 0..<300 * 130 {
      let time = Double(index) / 130
      let sample = ECGSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((time * 1e9).rounded())),
        microvolts: Double(heart.microvolts(at: time)))
      guard meter.take(sample) != nil else { continue }
      found += (0..<meter.beatCount).map { meter.beat($0) }
    }
    Figures.note("ECG: \((0..<60 * 130).map { heart.microvolts(at: Double($0) / 130) })")
    let times = found.map(\.time.seconds).filter { $0 > 0.3 }
    let last = try #require(times.last)
    let known = (1..<400).map { rhythm.beat($0) }.filter { $0 < last + 0.1 }
    #expect(times.count == known.count && known.count >= 330)
    #expect(zip(times, known).allSatisfy { abs($0 - $1) < 0.02 })
    // neurokit2 0.2.13 (`ecg_clean`, `ecg_peaks` with their defaults) finds the same in the first minute.
    let theirs = Self.neurokit2Heart.map { Double($0) / 130 }
    #expect(zip(theirs, known).allSatisfy { abs($0 - $1) < 0.02 })
    #expect(known.count { $0 < 59.5 } == theirs.count)
  }

  /// Optical signal: no interval at an ectopic beat is accepted, and nearly all others are.
  @Test func ectopicBeatsOfLightAreNotAccepted() throws {
    let wearer = try Self.wearer(Self.ectopic)
    let reading = try Self.read(try Self.samples(wearer, seconds: 300))
    let known = (0..<400).filter { wearer.rhythm.isEctopic($0) }.map { wearer.rhythm.beat($0) }
    let accepted = reading.beats.filter { $0.isAccepted }
    let touched = accepted.count { beat in
      // Peaks are 0.3 to 0.45 s after their R waves.
      let end = beat.time.seconds - 0.37
      let start = end - (beat.interval ?? 0)
      return known.contains { abs($0 - start) < 0.1 || abs($0 - end) < 0.1 }
    }
    Figures.note(
      "light: \(accepted.count) of \(reading.beats.count) accepted, \(touched) of them at one of \(known.count); "
        + "\(reading.segments)")
    #expect(touched == 0)
    #expect(accepted.count >= 250)
  }

  /// Sample numbers, for the samples in a note of figures.
  private static let neurokit2Heart = [
    115, 228, 303, 462, 577, 689, 804, 925, 1044, 1158, 1270, 1384, 1499, 1610, 1717, 1826, 1939, 2053, 2165,
    2274, 2386, 2501, 2612, 2719, 2823, 2930, 3039, 3147, 3251, 3357, 3466, 3578, 3649, 3791, 3895, 4002,
    4109, 4213, 4315, 4419, 4527, 4638, 4708, 4853, 4963, 5076, 5188, 5295, 5401, 5509, 5620, 5731, 5840,
    5949, 6063, 6181, 6296, 6408, 6520, 6636, 6751, 6861, 6971, 7086, 7205, 7323, 7439, 7557, 7679,
  ]
  private static let neurokit2Light = [
    9, 33, 57, 81, 104, 127, 149, 173, 196, 219, 240, 261, 283, 304, 324, 344, 364, 384, 404, 424, 443, 463,
    483, 502, 521, 538, 556, 574, 593, 611, 628, 645, 663, 681, 698, 716, 732, 749, 766, 783, 800, 817, 833,
    850, 867, 885, 903, 921, 939, 958, 977, 996, 1015, 1033, 1051, 1070, 1090, 1110, 1129, 1149, 1169, 1191,
    1212, 1233, 1254, 1276, 1298, 1320, 1341, 1363, 1387, 1411, 1434, 1458, 1484,
  ]
}

extension ReceiveTime {
  fileprivate var seconds: Double { Double(nanoseconds) / 1e9 }
}
