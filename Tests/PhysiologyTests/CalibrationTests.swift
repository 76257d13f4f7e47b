import BLEWire
import BLEPacketLog
import Foundation
import Physiology
import TestKit
import Testing

/// Eight minutes of a patient at rest: light at the finger and the monitor's heart rate, from `captures/rest`
/// of the shared folder (BIDMC, Pimentel et al., IEEE Trans. Biomed. Eng. 64(8), 2017).
struct RestingPatient: CustomTestStringConvertible, Sendable {
  static let rate = 125.0
  static let names = ["02", "18", "21", "40"]

  var name: String
  /// Light, relative to its range.
  private var light: [Double]
  /// Beats a minute, for each second.
  private var heartRates: [Double]
  /// Times at which each of two annotators marked the start of a breath, in seconds.
  var breaths: [[Double]]

  var testDescription: String { "patient \(name)" }

  static let all: [RestingPatient] = names.compactMap { name in
    let path = "captures/rest/bidmc-\(name)"
    guard let signal = Place.shared(path + ".csv.gz"), let monitor = Place.shared(path + "-monitor.csv"),
      let marks = Place.shared(path + "-breaths.csv")
    else { return nil }
    do {
      let cells = try lines(marks).map { $0.split(separator: ",", omittingEmptySubsequences: false) }
      return RestingPatient(
        name: name, light: try lines(signal).map { Double($0.prefix { $0 != "," }) ?? 0 },
        heartRates: try lines(monitor).map { Double($0.split(separator: ",")[1]) ?? .nan },
        breaths: (0..<2).map { column in
          cells.compactMap { $0.count > column ? Double($0[column]).map { $0 / rate } : nil }
        })
    } catch {
      fatalError("\(path): \(error)")
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

  /// The samples that a ring would have sent, in whole counts.
  func samples(rate: Double) -> [SignalSample] {
    let spacing = Self.rate / rate
    return (0..<Int(Double(light.count) / spacing)).map { index in
      let place = Double(index) * spacing
      let before = Int(place)
      let after = min(before + 1, light.count - 1)
      let value = light[before] + (light[after] - light[before]) * (place - Double(before))
      return SignalSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded())),
        light: (10_000 + 20_000 * value).rounded())
    }
  }

  /// True rate of a window of 8 s, in beats a minute.
  func truth(_ start: Double) -> Double? {
    let known = heartRates.indices.filter { start..<start + 8 ~= Double($0) }.map { heartRates[$0] }
      .filter { !$0.isNaN }
    return known.count > 4 ? known.mean : nil
  }
}

/// The quality is a share: among windows with a given quality, this share is within 5 a minute. Also makes
/// the table of `Physiology.md`, and fits the steps of a tracked pulse's quality.
@Suite struct CalibrationTests {
  private static let isShared = PulseInMotionTests.isShared && RestingPatient.all.count == 4
  private static let rates = [25.0, 50, 125]

  /// A window with a known pulse.
  private struct Known {
    var person: String
    var quality: Double
    var isRight: Bool
    /// The tracker's own probability, if the line passed the gate.
    var probability: Double?
  }

  private static func windows(_ samples: [SignalSample], rate: Double) throws -> [PulseRateWindow] {
    var meter = try PulseRateMeter(rate: rate)
    var windows: [PulseRateWindow] = []
    for sample in samples {
      _ = meter.take(sample)
      while let window = meter.next() { windows.append(window) }
    }
    _ = meter.finish()
    while let window = meter.next() { windows.append(window) }
    return windows
  }

  private static func known(
    _ samples: [SignalSample], rate: Double, _ person: String, _ truth: (Double) -> Double?
  ) throws -> [Known] {
    try windows(samples, rate: rate).compactMap { window in
      guard let pulse = window.pulse, let truth = truth(window.start.seconds) else { return nil }
      return Known(
        person: person, quality: pulse.quality, isRight: abs(pulse.beatsPerMinute - truth) <= 5,
        probability: pulse.method == .tracking ? window.trackingProbability : nil)
    }
  }

  /// Six people who run, with three channels of light each.
  private static func runners(rate: Double, isAlone: Bool) throws -> [Known] {
    try TreadmillRun.all.flatMap { run in
      try TreadmillRun.Channel.allCases.flatMap { channel in
        var samples = run.samples(rate: rate, channel, .plain)
        if isAlone {
          samples = samples.map { SignalSample(index: $0.index, time: $0.time, light: $0.light) }
        }
        return try known(samples, rate: rate, run.name) { start in
          let number = Int((start / PulseRateWindow.stepSeconds).rounded())
          return run.truth.indices.contains(number) ? run.truth[number] : nil
        }
      }
    }
  }

  /// Bins of 30 windows or more, a tenth wide: the mean quality, and the share of correct windows.
  private static func bins(_ known: [Known]) -> [(told: Double, right: Double, count: Int)] {
    (0..<10).compactMap { bin in
      let inside = known.filter { min(9, Int($0.quality * 10)) == bin }
      guard inside.count >= 30 else { return nil }
      return (
        inside.map(\.quality).mean, Double(inside.count(where: \.isRight)) / Double(inside.count),
        inside.count
      )
    }
  }

  private static func expectCalibrated(_ known: [Known], _ name: String) {
    for bin in bins(known) {
      Figures.note("\(name): told \(bin.told), right \(bin.right) of \(bin.count)")
      #expect(abs(bin.told - bin.right) <= 0.07, "\(name): \(bin)")
    }
  }

  /// Steps of the model's probability, and the shares in use from each step on.
  private static let steps = [0, 0.4, 0.6, 0.72]
  private static let shares = [0.25, 0.66, 0.88, 0.98]

  private static func step(_ probability: Double) -> Int { (steps.lastIndex { probability >= $0 }) ?? 0 }

  /// The share of correct windows from each step to the next; `nil` with fewer than ten windows.
  private static func fit(_ known: [Known]) -> [Double?] {
    steps.indices.map { index in
      let inside = known.filter { $0.probability.map(step) == index }
      return inside.count < 10 ? nil : Double(inside.count(where: \.isRight)) / Double(inside.count)
    }
  }

  /// In motion, with the accelerometer: fitted to five people and tested on the sixth.
  @Test(.enabled(if: isShared, Place.noShared)) func holdsForPeopleItWasNotFittedTo() throws {
    let known = try Self.rates.flatMap { try Self.runners(rate: $0, isAlone: false) }
    #expect(known.count >= 7_500)
    var told: [Known] = []
    for run in TreadmillRun.all {
      let fitted = Self.fit(known.filter { $0.person != run.name })
      Figures.note("without \(run.name): \(fitted)")
      told += known.filter { $0.person == run.name }.compactMap { window in
        guard let probability = window.probability else { return nil }
        let step = Self.step(probability)
        var window = window
        window.quality = fitted[step] ?? Self.shares[step]
        return window
      }
    }
    // Compared by step, because the fit depends on the person who is left out.
    for step in Self.steps.indices {
      let inside = told.filter { $0.probability.map(Self.step) == step }
      guard inside.count >= 30 else { continue }
      let (mean, right) = (
        inside.map(\.quality).mean, Double(inside.count(where: \.isRight)) / Double(inside.count)
      )
      Figures.note("left out: told \(mean), right \(right) of \(inside.count)")
      #expect(abs(mean - right) <= 0.07, "\(mean), \(right) of \(inside.count)")
    }
    // The shares in use are those fitted to all six runs, rounded.
    for (share, fitted) in zip(Self.shares, Self.fit(known)) {
      if let fitted { #expect(abs(share - fitted) <= 0.03, "\(share) for \(fitted)") }
    }
  }

  @Test(.enabled(if: isShared, Place.noShared), arguments: rates) func holdsInMotion(rate: Double) throws {
    Self.expectCalibrated(try Self.runners(rate: rate, isAlone: false), "motion, \(rate) Hz")
  }

  /// Steps without an accelerometer: hardly any windows are reported, and those are correct.
  @Test(.enabled(if: isShared, Place.noShared), arguments: rates) func holdsForLightAlone(rate: Double) throws
  {
    let known = try Self.runners(rate: rate, isAlone: true)
    Self.expectCalibrated(known, "light alone, \(rate) Hz")
    #expect(known.count { !$0.isRight } <= 2)
  }

  @Test(.enabled(if: isShared, Place.noShared), arguments: rates) func holdsAtRest(rate: Double) throws {
    let known = try RestingPatient.all.flatMap { patient in
      try Self.known(patient.samples(rate: rate), rate: rate, patient.name, patient.truth)
    }
    #expect(known.count >= 700)
    Self.expectCalibrated(known, "rest, \(rate) Hz")
  }
}
