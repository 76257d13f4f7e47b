import BLEPacketLog
import BLEWire
import Foundation
import Physiology
import TestKit
import Testing

/// Five minutes of a person on a treadmill with the pulse from an ECG, from `captures/running` of the shared
/// folder.
struct TreadmillRun: CustomTestStringConvertible, Sendable {
  enum Channel: String, CaseIterable { case first, second, mean }

  enum Sampling: String, CaseIterable {
    /// Filtered first, to remove frequencies above the limit of the slower rate.
    case filtered
    /// Single samples, as from a sensor without such a filter.
    case plain
  }

  static let rate = 125.0

  var name: String
  /// Values per row: ECG, two optical signals, three of acceleration in g.
  private var rows: [Double]
  /// Beats per minute in windows of 8 s, one every 2 s.
  var truth: [Double]

  var testDescription: String { name }

  static let all: [TreadmillRun] = (1...6).compactMap { number in
    let path = "captures/running/run0\(number)"
    guard let signal = Place.shared(path + ".csv.gz"), let pulse = Place.shared(path + "-truth.csv") else {
      return nil
    }
    do {
      let known = parsed(try contents(pulse))
      return TreadmillRun(
        name: "run \(number)", rows: parsed(try contents(signal)),
        truth: stride(from: 1, to: known.count, by: 2).map { known[$0] })
    } catch {
      fatalError("\(path): \(error)")
    }
  }

  private static func contents(_ path: String) throws -> [UInt8] {
    var input = try CompressedInput(path: path)
    var octets: [UInt8] = []
    while true {
      let piece = try input.next()
      if piece.isEmpty { return octets }
      octets += piece
    }
  }

  /// All numbers after the first line: digits, at most one point, a sign.
  private static func parsed(_ text: [UInt8]) -> [Double] {
    var numbers: [Double] = []
    var (value, scale, sign, isNumber, isFraction) = (0.0, 1.0, 1.0, false, false)
    let start = (text.firstIndex(of: UInt8(ascii: "\n")) ?? 0) + 1
    for octet in text[start...] {
      switch octet {
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        value = value * 10 + Double(octet - UInt8(ascii: "0"))
        if isFraction { scale *= 10 }
        isNumber = true
      case UInt8(ascii: "."): isFraction = true
      case UInt8(ascii: "-"): sign = -1
      case UInt8(ascii: ","), UInt8(ascii: "\n"):
        if isNumber { numbers.append(sign * value / scale) }
        (value, scale, sign, isNumber, isFraction) = (0, 1, 1, false, false)
      default: break
      }
    }
    return numbers
  }

  /// Resamples the recording with the resolution of a ring: light in whole counts around 20,000, acceleration
  /// in 1/512 g.
  func samples(rate: Double, _ channel: Channel, _ sampling: Sampling) -> [SignalSample] {
    let spacing = Self.rate / rate
    let count = Int(Double(rows.count / 6) / spacing)
    let kernel = Kernel(spacing: sampling == .plain ? 1 : spacing)
    return (0..<count).map { index in
      func value(_ column: Int) -> Double {
        sampling == .plain || rate == Self.rate
          ? line(column, at: Double(index) * spacing)
          : kernel.value(rows, column, at: Double(index) * spacing)
      }
      let light =
        switch channel {
        case .first: value(1)
        case .second: value(2)
        case .mean: (value(1) + value(2)) / 2
        }
      return SignalSample(
        index: index, time: ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded())),
        light: (20_000 + 8 * light).rounded(),
        acceleration: Acceleration(
          x: (512 * value(3)).rounded() / 512, y: (512 * value(4)).rounded() / 512,
          z: (512 * value(5)).rounded() / 512))
    }
  }

  private func line(_ column: Int, at place: Double) -> Double {
    let before = Int(place)
    let after = min(before + 1, rows.count / 6 - 1)
    return rows[6 * before + column]
      + (rows[6 * after + column] - rows[6 * before + column]) * (place - Double(before))
  }

  /// A low-pass filter below half of the slower rate: a sinc under a Hann window, at whole and half
  /// positions.
  private struct Kernel {
    private let half: Int
    private let weights: [[Double]]

    init(spacing: Double) {
      half = Int(8 * spacing)
      let half = half
      weights = [0, 0.5].map { part in
        let weights = (-half...half).map { tap in
          let x = Double(tap) - part
          let sinc = x == 0 ? 1 : sin(.pi * x * 0.8 / spacing) / (.pi * x * 0.8 / spacing)
          return sinc * (0.5 + 0.5 * cos(.pi * x / Double(half + 1)))
        }
        return weights.map { $0 / weights.reduce(0, +) }
      }
    }

    func value(_ rows: [Double], _ column: Int, at place: Double) -> Double {
      let middle = Int(place)
      let last = rows.count / 6 - 1
      let taps = weights[place > Double(middle) ? 1 : 0]
      var sum = 0.0
      for tap in taps.indices {
        sum += taps[tap] * rows[6 * min(max(0, middle - half + tap), last) + column]
      }
      return sum
    }
  }
}

/// Windows compared with known values.
struct PulseScore {
  /// Errors and qualities of the windows with a pulse.
  var errors: [Double] = []
  var qualities: [Double] = []
  /// Number of windows with a known value.
  var count = 0

  /// - Parameter truth: known values of the windows from time zero, one every 2 s.
  init(_ windows: [PulseRateWindow], truth: [Double]) {
    count = truth.count
    for window in windows {
      let number = Int((window.start.seconds / PulseRateWindow.stepSeconds).rounded())
      guard truth.indices.contains(number), let pulse = window.pulse else { continue }
      errors.append(abs(pulse.beatsPerMinute - truth[number]))
      qualities.append(pulse.quality)
    }
  }

  init(_ scores: [PulseScore]) {
    errors = scores.flatMap(\.errors)
    qualities = scores.flatMap(\.qualities)
    count = scores.reduce(0) { $0 + $1.count }
  }

  var coverage: Double { Double(errors.count) / Double(count) }

  /// Fraction of the windows with at least this quality whose error is at most 5 per minute, and the number
  /// of these windows.
  func share(quality: Double = 0) -> (right: Double, count: Int) {
    let known = zip(errors, qualities).filter { $0.1 >= quality }
    return (Double(known.count { $0.0 <= 5 }) / Double(known.count), known.count)
  }
}
