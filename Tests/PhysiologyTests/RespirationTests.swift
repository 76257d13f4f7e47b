import BLEWire
import Foundation
import Physiology
import TestKit
import Testing

/// Breathing in the light of a body at rest, compared with the breaths that two annotators marked.
@Suite struct RespirationTests {
  private static let isShared = RestingPatient.all.count == 4

  private func windows(_ samples: [SignalSample], rate: Double) throws -> [RespirationWindow] {
    var (meter, respiration) = (try PulseMeter(rate: rate), RespirationMeter())
    var windows: [RespirationWindow] = []
    func note(_ window: PulseWindow?) {
      guard window != nil else { return }
      for index in 0..<meter.beatCount { windows += respiration.take(meter.beat(index)).map { [$0] } ?? [] }
    }
    for sample in samples { note(meter.take(sample)) }
    note(meter.finish())
    return windows
  }

  private func signal(_ seconds: Double, rate: Double, _ light: (Double) -> Double) -> [SignalSample] {
    (0..<Int(seconds * rate)).map { index in
      let time = Double(index) / rate
      return SignalSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((time * 1e9).rounded())),
        light: light(time).rounded())
    }
  }

  /// A pulse with a fundamental and a second harmonic.
  private func pulse(_ time: Double) -> Double {
    let turns = 72.0 / 60 * time
    return 200 * (sin(2 * .pi * turns) + 0.4 * sin(4 * .pi * turns + 1))
  }

  /// Four patients, compared with the mean of both annotators' rates if these differ by at most 2 a minute.
  @Test(.enabled(if: isShared, Place.noShared), arguments: [25.0, 50, 125])
  func followsPatients(rate: Double) throws {
    var all: [Double] = []
    for patient in RestingPatient.all {
      let windows = try windows(patient.samples(rate: rate), rate: rate)
      #expect(windows.allSatisfy { ($0.breathsPerMinute == nil) == ($0.absence != nil) })
      let errors = windows.compactMap { window -> Double? in
        let known = patient.breaths.compactMap { marks -> Double? in
          let inside = marks.filter { window.start.seconds..<window.end.seconds ~= $0 }
          guard let first = inside.first, let last = inside.last, inside.count > 2 else { return nil }
          return 60 * Double(inside.count - 1) / (last - first)
        }
        guard let told = window.breathsPerMinute, known.count == 2, abs(known[0] - known[1]) <= 2 else {
          return nil
        }
        return abs(told - known.mean)
      }
      Figures.note(
        "patient \(patient.name), \(rate) Hz: told \(windows.count { $0.breathsPerMinute != nil }) of \(windows.count), "
          + "median error \(errors.isEmpty ? .nan : errors.median), within 2: \(errors.count { $0 <= 2 }) of \(errors.count)"
      )
      if errors.count >= 5 { #expect(errors.median <= 2, "patient \(patient.name)") }
      all += errors
    }
    #expect(all.count >= 30 && all.median <= 0.5)
    #expect(Double(all.count { $0 <= 2 }) >= 0.95 * Double(all.count))
  }

  /// Breaths of a known rate in the baseline, at a tenth of the pulse's height.
  @Test(arguments: [10.0, 12, 15, 20, 27, 34], [25.0, 50]) func findsAKnownRate(breaths: Double, rate: Double)
    throws
  {
    let windows = try windows(
      signal(120, rate: rate) { 10_000 + pulse($0) + 20 * sin(2 * .pi * breaths / 60 * $0) }, rate: rate)
    let told = windows.compactMap(\.breathsPerMinute)
    // The first four windows have no earlier one that does not overlap.
    // At 34 a minute a pulse of 72 has hardly two beats for a breath: what is reported must be right, if it is.
    #expect(windows.count >= 8 && (told.count >= windows.count - 4 || breaths > 30))
    #expect(told.allSatisfy { abs($0 - breaths) <= 1 }, "\(told)")
  }

  /// No breathing, a baseline that does not repeat itself, no pulse, and steps.
  @Test(arguments: [25.0, 50]) func refusesWhatDoesNotBreathe(rate: Double) throws {
    var (noise, walk) = (Noise(), 0.0)
    let white = try windows(
      signal(300, rate: rate) { 10_000 + pulse($0) + 60 * (noise.next() - 0.5) }, rate: rate)
    #expect(white.count >= 25 && 10 * white.count { $0.breathsPerMinute != nil } <= white.count)
    let drift = try windows(
      signal(300, rate: rate) {
        walk += 4 * (noise.next() - 0.5) * (50 / rate).squareRoot()
        return 10_000 + pulse($0) + walk
      }, rate: rate)
    let reported = drift.count { $0.breathsPerMinute != nil }
    Figures.note("a baseline that wanders at random, \(rate) Hz: told \(reported) of \(drift.count)")
    #expect(drift.count >= 25 && 10 * reported <= drift.count, "\(reported) of \(drift.count)")
    #expect(try windows(signal(120, rate: rate) { _ in 10_000 }, rate: rate).isEmpty)
    #expect(
      try windows(signal(120, rate: rate) { _ in 10_000 + 80 * (noise.next() - 0.5) }, rate: rate).isEmpty)
    // Breathing without a pulse is not measured.
    #expect(
      try windows(signal(120, rate: rate) { 10_000 + 300 * sin(2 * .pi * 0.25 * $0) }, rate: rate).isEmpty)
  }

  /// After three seconds without beats, the window starts anew.
  @Test func beginsAnewAfterAGap() throws {
    var samples = signal(100, rate: 50) { 10_000 + pulse($0) + 20 * sin(2 * .pi * 0.25 * $0) }
    samples.removeAll { (48.0..<53).contains($0.time.seconds) }
    let windows = try windows(samples, rate: 50)
    #expect(!windows.isEmpty)
    #expect(windows.allSatisfy { $0.end.seconds <= 49 || $0.start.seconds >= 52 })
  }
}
