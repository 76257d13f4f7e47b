import BLESensors
import BLEWire
import ColmiRing
import Physiology
import Relay
import SensorSessions
import TestKit
import Testing

/// Rates that `ringtap relay` reports for real people, with the optical signal of their wrists as if from a
/// ring.
@Suite(.enabled(if: PulseInMotionTests.isShared, Place.noShared), .timeLimit(.minutes(2)))
struct RelayedBodyTests {
  private static let rate = 25.0
  private static let start: Int64 = 1_700_000_000_000_000_000

  /// A reported pulse is within 5/min of the ECG's in the share of cases that the module's guide states for
  /// this quality, 98.6 %.
  @Test func tellsWhatTheECGSays() async throws {
    var (told, right, windows) = (0, 0, 0)
    for run in TreadmillRun.all {
      windows += run.truth.count
      var relay = LightRelay()
      for sample in run.samples(rate: Self.rate, .first, .plain) {
        let time = ReceiveTime(nanoseconds: Self.start + Int64(Double(sample.index) / Self.rate * 1e9))
        for part in Self.frames(sample) {
          relay.take(RingRawReading(time: time, sample: part)) { value in
            guard case .heartRate(let rate) = value.measurement, rate.contact == .detected else { return }
            // A window ends with the tick after its last one.
            let end = (value.measuredAt - ReceiveTime(nanoseconds: Self.start)).seconds + 1 / Self.rate
            let number = Int(((end - PulseRateWindow.seconds) / PulseRateWindow.stepSeconds).rounded())
            guard run.truth.indices.contains(number) else { return }
            told += 1
            if abs(Double(rate.beatsPerMinute) - run.truth[number]) <= 5 { right += 1 }
          }
        }
      }
    }
    print("relayed bodies: \(told) of \(windows) windows told, \(right) within 5 a minute")
    #expect(Double(told) > 0.85 * Double(windows))
    #expect(Double(right) > 0.97 * Double(told))
  }

  private static func frames(_ sample: SignalSample) -> [RingRawSample] {
    let light = UInt16(clamping: Int(sample.light ?? 0))
    var frames = [RingRawSample.ppg(PPGRawSample(value: light, max: light, min: light, diff: 0))]
    if let force = sample.acceleration {
      func counts(_ g: Double) -> Int16 {
        Int16(max(-2048, min(2047, (g * AccelerometerSample.countsPerG).rounded())))
      }
      frames.append(
        .accelerometer(AccelerometerSample(x: counts(force.x), y: counts(force.y), z: counts(force.z))))
    }
    return frames
  }
}
