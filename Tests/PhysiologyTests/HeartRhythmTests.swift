import BLEPacketLog
import BLEWire
import Foundation
import Physiology
import TestKit
import Testing

/// A record of the MIT-BIH Arrhythmia Database with its annotated beats, from `captures/ecg` of the shared
/// folder.
struct AnnotatedECG: CustomTestStringConvertible {
  static let names = [203, 106, 228, 231]
  static let isShared: Bool = Place.shared("captures/ecg/mitdb-203.csv.gz") != nil
  static let rate = 360.0
  /// Annotations that are beats: https://archive.physionet.org/physiobank/annotations.shtml
  private static let beatSymbols = Set("NLRBAaJSVrFejnE/fQ?")

  var name: Int
  var microvolts: [Double]
  /// Times in seconds.
  var beats: [Double]

  var testDescription: String { "record \(name)" }

  init(_ name: Int) throws {
    self.name = name
    let signal = try #require(Place.shared("captures/ecg/mitdb-\(name).csv.gz"))
    let marks = try #require(Place.shared("captures/ecg/mitdb-\(name)-beats.csv"))
    microvolts = try Self.lines(signal).compactMap { Double($0) }
    beats = try Self.lines(marks).compactMap { line in
      let cells = line.split(separator: ",", omittingEmptySubsequences: false)
      guard cells.count > 1, cells[1].count == 1, let symbol = cells[1].first,
        Self.beatSymbols.contains(symbol)
      else { return nil }
      return Double(cells[0]).map { $0 / Self.rate }
    }
  }

  private static func lines(_ path: String) throws -> [Substring] {
    var input = try CompressedInput(path: path)
    var octets: [UInt8] = []
    while true {
      let piece = try input.next()
      if piece.isEmpty { break }
      octets += piece
    }
    return String(decoding: octets, as: UTF8.self).split(separator: "\n").dropFirst().map { $0 }
  }

  /// Beats per minute between two times; `nil` with fewer than three beats.
  func rate(_ start: Double, _ end: Double) -> Double? {
    let inside = beats.filter { start..<end ~= $0 }
    guard inside.count > 2 else { return nil }
    return 60 * Double(inside.count - 1) / (inside[inside.count - 1] - inside[0])
  }
}

/// Extreme rates, missing or extra beats, and irregular rhythms.
@Suite struct HeartRhythmTests {
  private struct Measured {
    var windows: [ECGWindow] = []
    var beats: [ECGBeat] = []
    var segments: [VariabilitySegment] = []
  }

  private func measured(_ microvolts: [Double], rate: Double) throws -> Measured {
    var meter = try ECGMeter(rate: rate)
    var variability = VariabilityMeter()
    var found = Measured()
    func note(_ window: ECGWindow?, _ meter: ECGMeter) {
      guard let window else { return }
      found.windows.append(window)
      for index in 0..<meter.beatCount {
        found.beats.append(meter.beat(index))
        if let segment = variability.take(meter.beat(index)) { found.segments.append(segment) }
      }
    }
    for (index, value) in microvolts.enumerated() {
      let time = ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded()))
      note(meter.take(ECGSample(index: index, time: time, microvolts: value.rounded())), meter)
    }
    note(meter.finish(), meter)
    if let segment = variability.finish() { found.segments.append(segment) }
    return found
  }

  /// An ECG with R peaks at known times: sums of Gaussian waves as in McSharry et al., IEEE Trans. Biomed.
  /// Eng. 50(3), 2003, with P and T closer to the R peak at high rates.
  private func electrocardiogram(_ beats: [Double], interval: Double, seconds: Double, rate: Double)
    -> [Double]
  {
    let squeeze = interval.squareRoot()
    let waves: [(place: Double, width: Double, height: Double)] = [
      (-0.18 * squeeze, 0.025 * squeeze, 120), (-0.025, 0.009, -110), (0, 0.010, 1_000), (0.026, 0.010, -220),
      (0.28 * squeeze, 0.045 * squeeze, 280),
    ]
    var noise = Noise()
    var values = (0..<Int(seconds * rate)).map { _ in 60 * (noise.next() - 0.5) }
    for beat in beats {
      for wave in waves {
        let middle = beat + wave.place
        let reach =
          max(0, Int((middle - 5 * wave.width) * rate))..<max(0, Int((middle + 5 * wave.width) * rate))
        for index in reach.clamped(to: values.indices) {
          let distance = (Double(index) / rate - middle) / wave.width
          values[index] += wave.height * exp(-distance * distance / 2)
        }
      }
    }
    return values
  }

  /// Intervals that vary by 2 %.
  private func beats(perMinute: Double, seconds: Double) -> [Double] {
    var noise = Noise(seed: 7)
    var times = [0.3]
    while times[times.count - 1] < seconds - 1 {
      times.append(times[times.count - 1] + 60 / perMinute * (1 + 0.04 * (noise.next() - 0.5)))
    }
    return times
  }

  @Test(arguments: [25.0, 40, 75, 150, 180, 200, 220, 240], [100.0, 130, 250])
  func findsEveryBeat(perMinute: Double, rate: Double) throws {
    let known = beats(perMinute: perMinute, seconds: 120)
    let found = try measured(
      electrocardiogram(known, interval: 60 / perMinute, seconds: 120, rate: rate), rate: rate)
    let (inside, times) = (known.filter { 2.6..<118 ~= $0 }, found.beats.map(\.time.seconds))
    let missed = inside.filter { beat in !times.contains { abs($0 - beat) <= 0.02 } }
    let extra = times.filter { time in 2.6..<118 ~= time && !known.contains { abs($0 - time) <= 0.02 } }
    #expect(Double(missed.count) <= 0.005 * Double(inside.count), "\(missed)")
    #expect(Double(extra.count) <= 0.005 * Double(inside.count), "\(extra)")
    let rates = found.windows.dropLast().dropFirst().map(\.beatsPerMinute)
    #expect(rates.allSatisfy { abs(($0 ?? 0) - perMinute) <= 0.02 * perMinute }, "\(rates)")
  }

  /// In each window one beat is missing from the signal, or a spike of a beat's height lies between two
  /// beats.
  @Test(arguments: [60.0, 75, 120, 150, 177, 200, 220], [false, true])
  func bearsOneWrongBeat(perMinute: Double, isExtra: Bool) throws {
    let known = beats(perMinute: perMinute, seconds: 60)
    let interval = 60 / perMinute
    var shown = known
    for window in 0..<6 {
      guard let place = shown.firstIndex(where: { $0 > Double(10 * window) + 5 }) else { continue }
      if !isExtra { shown.remove(at: place) }
    }
    var signal = electrocardiogram(shown, interval: interval, seconds: 60, rate: 130)
    if isExtra {
      for window in 0..<6 {
        guard let beat = known.first(where: { $0 > Double(10 * window) + 5 }) else { continue }
        for tap in -3...3 {
          signal[Int((beat + interval / 2) * 130) + tap] += 800 * (1 - Double(abs(tap)) / 4)
        }
      }
    }
    let found = try measured(signal, rate: 130)
    // Below 100/min a pause and a missed beat look the same: half a beat in ten seconds.
    let most = perMinute < 100 ? 4.0 : 2.0
    for window in found.windows.dropLast().dropFirst() {
      guard let rate = window.beatsPerMinute else { continue }
      #expect(abs(rate - perMinute) <= most, "\(rate)")
    }
    #expect(found.windows.count { $0.beatsPerMinute != nil } >= 4)
  }

  /// A sensor with 100 samples a second, by an inaccurate clock.
  @Test(arguments: [98.5, 99.9, 99.999, 100]) func takesAHundredSamples(rate: Double) throws {
    _ = try ECGMeter(rate: rate)
  }

  /// A strap on the table picks up mains hum, 50 or 60 Hz with a harmonic and a varying amplitude, and the
  /// amplifier's noise.
  @Test(arguments: [50.0, 50.03, 59.97, 60], [100.0, 130, 250]) func refusesTheMains(
    hertz: Double, rate: Double
  ) throws {
    var (noise, walk) = (Noise(), 0.0)
    let signal = (0..<Int(120 * rate)).map { index in
      let turns = 2 * .pi * hertz * Double(index) / rate
      walk += 12 * (noise.next() - 0.5)
      return (400 + walk) * (sin(turns) + 0.2 * sin(3 * turns + 1)) + 40 * (noise.next() - 0.5)
    }
    let found = try measured(signal, rate: rate)
    #expect(found.windows.allSatisfy { $0.rejection != nil && $0.beatsPerMinute == nil })
    #expect(found.beats.allSatisfy { !$0.isAccepted })
  }

  /// Fibrillation, bigeminy, large ectopic beats, block: at most 1 % of the windows with a rate are off by
  /// more than 5/min.
  @Test(.enabled(if: AnnotatedECG.isShared, Place.noShared)) func tellsTheRateOfArrhythmias() throws {
    var (told, wrong) = (0, 0)
    for name in AnnotatedECG.names {
      let record = try AnnotatedECG(name)
      let found = try measured(record.microvolts, rate: AnnotatedECG.rate)
      var (own, off) = (0, 0)
      for window in found.windows {
        guard let rate = window.beatsPerMinute,
          let known = record.rate(window.start.seconds, window.end.seconds)
        else { continue }
        own += 1
        if abs(rate - known) > 5 { off += 1 }
      }
      let times = found.beats.map(\.time.seconds)
      let missed = record.beats.count { beat in !times.contains { abs($0 - beat) <= 0.15 } }
      let extra = times.count { time in !record.beats.contains { abs($0 - time) <= 0.15 } }
      Figures.note(
        "record \(name): \(off) of \(own) of \(found.windows.count); missed \(missed), extra \(extra) of \(record.beats.count)"
      )
      // One beat in a hundred, or three in recordings with much noise and many ectopic beats.
      #expect(Double(missed) <= 0.03 * Double(record.beats.count), "record \(name)")
      #expect(Double(extra) <= 0.03 * Double(record.beats.count), "record \(name)")
      (told, wrong) = (told + own, wrong + off)
    }
    #expect(told >= 140 && 100 * wrong <= told, "\(wrong) of \(told)")
  }

  /// Stretches of irregular rhythm get no variability. Record 106's second one has two ectopic beats in five
  /// minutes.
  @Test(
    .enabled(if: AnnotatedECG.isShared, Place.noShared), arguments: [(203, 2), (106, 1), (228, 2), (231, 2)])
  func refusesIrregularRhythm(_ name: Int, _ stretches: Int) throws {
    let record = try AnnotatedECG(name)
    let segments = try measured(record.microvolts, rate: AnnotatedECG.rate).segments
    #expect(segments.count == 2)
    for segment in segments.prefix(stretches) { #expect((try? segment.result.get()) == nil) }
  }

  // MARK: Intervals alone

  private func segment(_ intervals: [Double]) throws -> VariabilitySegment {
    var meter = VariabilityMeter()
    var time = 0.0
    for interval in intervals {
      time += interval
      _ = meter.take(interval, end: ReceiveTime(nanoseconds: Int64((time * 1e9).rounded())))
    }
    let last = meter.finish()
    return try #require(last)
  }

  /// The annotators' own intervals during fibrillation, as a strap would send them: reported as irregular.
  @Test(.enabled(if: AnnotatedECG.isShared, Place.noShared)) func callsFibrillationIrregular() throws {
    let beats = try AnnotatedECG(203).beats.filter { $0 < 299 }
    let segment = try segment(zip(beats.dropFirst(), beats).map(-))
    guard case .failure(.irregular(let share)) = segment.result else {
      Issue.record("\(segment.result)")
      return
    }
    // Counted by hand in the list: more than a third of the pairs.
    #expect(share > 0.3 && segment.irregularShare == share)
    #expect("\(Variability.Refusal.irregular(share: 0.41))".hasPrefix("irregular: 41 % of the intervals"))
  }

  /// Respiratory variation as strong as in young hearts, a tenth up and down four to fifteen times a minute,
  /// is regular.
  @Test(arguments: [4.0, 6, 10, 15], [0.7, 1.0, 1.3]) func takesBreathingForRegular(
    breaths: Double, mean: Double
  ) throws {
    var (intervals, time) = ([Double](), 0.0)
    while time < 290 {
      intervals.append(mean * (1 + 0.1 * sin(2 * .pi * breaths / 60 * time)))
      time += intervals[intervals.count - 1]
    }
    let segment = try segment(intervals)
    #expect(segment.irregularShare == 0 && segment.leaps == 0)
    if case .failure(.irregular) = segment.result { Issue.record("\(segment.result)") }
  }

  /// Every second beat is missing for a minute: the intervals double suddenly and return.
  @Test func seesABlock() throws {
    let regular = (0..<100).map { 0.9 + 0.02 * sin(Double($0)) }
    let blocked = (0..<35).map { 1.8 + 0.02 * sin(Double($0)) }
    let segment = try segment(regular + blocked + regular)
    #expect(segment.leaps == 2)
    guard case .failure(.leaps(count: 2)) = segment.result else {
      Issue.record("\(segment.result)")
      return
    }
    // A single missed beat does not count.
    #expect(try self.segment(regular + [1.8] + regular).leaps == 0)
  }
}
