import BLEWire
import Foundation
import Physiology
import Testing

/// A plethysmogram with known beats, made by `Fixtures/make_pulse_fixtures.py`. Times are in seconds.
struct PulseFixture: Decodable, CustomTestStringConvertible {
  var name: String
  var rate: Double
  var ppg: [UInt16]
  var accelerometer: [[Int16]]?
  /// Systolic peaks from which neurokit2 generated the signal.
  var beats: [Double]
  /// Start and end of each period in which the hand moves.
  var corrupted: [[Double]]
  /// Peaks that two other programs find in the signal.
  var neurokit2: [Double]?
  var heartpy: [Double]?

  var testDescription: String { name }

  static let all: [PulseFixture] = {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "Fixtures/pulse-fixtures.json")
    do {
      return try JSONDecoder().decode([PulseFixture].self, from: Data(contentsOf: file))
    } catch {
      fatalError("\(file.path): \(error)")
    }
  }()
  static let clean = all.filter(\.corrupted.isEmpty)
  static let shaken = all.filter { !$0.corrupted.isEmpty }

  /// Samples at the times of an exact clock, starting at zero. The accelerometer has 512 counts per g.
  var samples: [SignalSample] {
    ppg.indices.map { index in
      let time = ReceiveTime(nanoseconds: Int64((Double(index) / rate * 1e9).rounded()))
      let acceleration = accelerometer.map { counts in
        let axes = counts[index].map { Double($0) / 512 }
        return Acceleration(x: axes[0], y: axes[1], z: axes[2])
      }
      return SignalSample(
        index: index, time: time, light: ppg[index] == 0 ? nil : Double(ppg[index]),
        acceleration: acceleration)
    }
  }

  /// Result of the meter.
  func measured() throws -> (windows: [PulseWindow], beats: [PulseBeat]) {
    var meter = try PulseMeter(rate: rate)
    var windows: [PulseWindow] = []
    var beats: [PulseBeat] = []
    func note(_ window: PulseWindow?, _ meter: PulseMeter) {
      guard let window else { return }
      windows.append(window)
      beats += (0..<meter.beatCount).map { meter.beat($0) }
    }
    for sample in samples { note(meter.take(sample), meter) }
    note(meter.finish(), meter)
    return (windows, beats)
  }

  /// Returns the rate per minute between two times, computed from beats at known times.
  static func rate(of beats: [Double], in window: PulseWindow) -> Double? {
    let inside = beats.filter { window.start.seconds..<window.end.seconds ~= $0 }
    guard let first = inside.first, let last = inside.last, inside.count > 1 else { return nil }
    return 60 * Double(inside.count - 1) / (last - first)
  }

  func isCorrupted(_ window: PulseWindow) -> Bool {
    corrupted.contains { $0[0] < window.end.seconds && window.start.seconds < $0[1] }
  }
}

extension ReceiveTime {
  var seconds: Double { Double(nanoseconds) / 1e9 }
}
