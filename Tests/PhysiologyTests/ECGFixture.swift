import BLEWire
import Foundation
import Physiology
import Testing

/// ECGs with known beats, made by `Fixtures/make_ecg_fixtures.py`. Times are in seconds.
struct ECGFixtures: Decodable {
  struct Noise: Decodable {
    var rate: Double
    var samples: String
  }

  struct Signal: Decodable {
    var name: String
    var rate: Double
    /// Microvolts per step.
    var unit: Double
    var samples: String
    /// Standard deviation of a simulated ECG without noise, in microvolts.
    var deviation: Double?
    var beats: String
    /// For a recorded ECG: beats that at least one of the other programs finds.
    var any: String?
  }

  var levels: [Double]
  var noises: [Noise]
  var simulated: [Signal]
  var recorded: [Signal]

  static let shared: ECGFixtures = {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(
      path: "Fixtures/ecg-fixtures.json")
    do {
      return try JSONDecoder().decode(ECGFixtures.self, from: Data(contentsOf: file))
    } catch {
      fatalError("\(file.path): \(error)")
    }
  }()

  /// Inverse of `packed` in the script.
  static func unpack(_ text: String) -> [Int] {
    guard let octets = Data(base64Encoded: text) else { fatalError("no base64") }
    var values: [Int] = []
    var (latest, number, shift) = (0, 0, 0)
    for octet in octets {
      number |= Int(octet & 127) << shift
      shift += 7
      guard octet < 128 else { continue }
      latest += number.isMultiple(of: 2) ? number / 2 : -(number + 1) / 2
      values.append(latest)
      (number, shift) = (0, 0)
    }
    return values
  }
}

/// An ECG, with or without noise.
struct ECGCase: CustomTestStringConvertible {
  var name: String
  var rate: Double
  var microvolts: [Double]
  var beats: [Double]
  var any: [Double]

  var testDescription: String { name }

  /// - Parameter noise: neurokit2's noise, in standard deviations of the signal.
  init(_ signal: ECGFixtures.Signal, noise level: Double = 0) {
    name = "\(signal.name) \(Int(signal.rate)) Hz, noise \(level)"
    rate = signal.rate
    microvolts = ECGFixtures.unpack(signal.samples).map { Double($0) * signal.unit }
    beats = ECGFixtures.unpack(signal.beats).map { Double($0) / 1000 }
    any = signal.any.map { ECGFixtures.unpack($0).map { Double($0) / 1000 } } ?? beats
    guard level > 0, let deviation = signal.deviation,
      let noise = ECGFixtures.shared.noises.first(where: { $0.rate == signal.rate })
    else { return }
    for (index, unit) in ECGFixtures.unpack(noise.samples).enumerated() {
      // An H10 sends whole microvolts.
      microvolts[index] = (microvolts[index] + Double(unit) / 1000 * level * deviation).rounded()
    }
  }

  static func simulated(noise level: Double) -> [ECGCase] {
    ECGFixtures.shared.simulated.map { ECGCase($0, noise: level) }
  }

  static let recorded = ECGFixtures.shared.recorded.map { ECGCase($0) }

  /// Samples at the times of an exact clock, starting at zero.
  var samples: [ECGSample] {
    microvolts.indices.map { index in
      ECGSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded())),
        microvolts: microvolts[index])
    }
  }

  /// Result of the meter for all samples, or for some of them.
  func measured(_ samples: [ECGSample]? = nil) throws -> (windows: [ECGWindow], beats: [ECGBeat]) {
    var meter = try ECGMeter(rate: rate)
    var windows: [ECGWindow] = []
    var beats: [ECGBeat] = []
    func note(_ window: ECGWindow?, _ meter: ECGMeter) {
      guard let window else { return }
      windows.append(window)
      beats += (0..<meter.beatCount).map { meter.beat($0) }
    }
    for sample in samples ?? self.samples { note(meter.take(sample), meter) }
    note(meter.finish(), meter)
    return (windows, beats)
  }

  /// Counts the known beats that were not found within 20 ms, and the found beats that are not within 20 ms
  /// of a beat that any program found. Ignores the first two seconds and the last half second, in which the
  /// filters start and end.
  func score(_ found: [Double]) -> Score {
    let range = 2...(Double(microvolts.count) / rate - 0.5)
    func isNear(_ time: Double, _ others: [Double]) -> Bool { others.contains { abs($0 - time) <= 0.020 } }
    let known = beats.filter(range.contains)
    var score = Score(known: known.count)
    score.missed = known.filter { !isNear($0, found) }
    score.extra = found.filter { range.contains($0) && !isNear($0, any) }
    score.errors = known.compactMap { time in
      found.map { $0 - time }.min { abs($0) < abs($1) }.flatMap { abs($0) <= 0.020 ? $0 : nil }
    }
    return score
  }

  struct Score {
    var known = 0
    var missed: [Double] = []
    var extra: [Double] = []
    /// Delays of our beats, in seconds.
    var errors: [Double] = []

    static func + (a: Score, b: Score) -> Score {
      Score(
        known: a.known + b.known, missed: a.missed + b.missed, extra: a.extra + b.extra,
        errors: a.errors + b.errors)
    }
  }
}
