import BLEWire
import TestKit
import Testing

@testable import Recording

/// Times of a sensor's samples compared with the true times, which the test knows. Some frames arrive late,
/// and the sensor's clock runs fast.
@Suite struct FrameTimesTests {
  private static let start: Int64 = 1_700_000_000_000_000_000
  private static let epoch: UInt64 = 599_616_000_000_000_000

  /// A chest strap: 73 samples per frame at 130 Hz, by a clock that is 40 ppm fast.
  private struct Strap {
    var number = 0
    var random: SeededGenerator
    let fast = 1.000_040
    let rate = 130.0
    let frame = 73

    /// Wall-clock time of a sample, in seconds since the start.
    func truth(_ sample: Int) -> Double { Double(sample) / rate / fast }
    func device(_ sample: Int) -> UInt64 { FrameTimesTests.epoch + UInt64(Double(sample) / rate * 1e9) }

    /// Time of receipt: a frame is sent at the next connection event (every 50 ms), and one in ten is
    /// retransmitted.
    mutating func stamp() -> ReceiveTime {
      let sent = truth(number * frame + frame - 1)
      var event = (sent / 0.05).rounded(.up) * 0.05 + 0.003
      while Int.random(in: 0..<10, using: &random) == 0 { event += 0.05 }
      return ReceiveTime(nanoseconds: FrameTimesTests.start + Int64(event * 1e9))
    }
  }

  /// Ten minutes of frames. Samples are in order, each with its own time, within 5 ms of the true time apart
  /// from a constant of at most one connection interval. The timestamps are off by 20 ms.
  @Test(arguments: [1, 2, 3] as [UInt64]) func followsTheSensorsClock(_ seed: UInt64) {
    var strap = Strap(random: SeededGenerator(state: seed))
    var times = FrameTimes()
    var last = Int64.min
    var errors: [Double] = []
    var stampErrors: [Double] = []
    while strap.number < 1_070 {
      let first = strap.number * strap.frame
      let stamp = strap.stamp()
      let placed = times.place(stamp, device: strap.device(first + strap.frame - 1))
      for sample in first..<first + strap.frame {
        let time = placed.time(strap.device(sample))
        #expect(time > last)
        // A period is 7.69 ms, and may be a tenth longer or shorter while the line converges.
        if last != .min { #expect(time - last > 6_900_000 && time - last < 8_500_000) }
        last = time
        // The first minute is needed to converge.
        if strap.number > 107 { errors.append(Double(time - Self.start) / 1e9 - strap.truth(sample)) }
      }
      stampErrors.append(Double(stamp.nanoseconds - Self.start) / 1e9 - strap.truth(first + strap.frame - 1))
      strap.number += 1
    }
    #expect(errors.count > 60_000)
    func spread(_ numbers: [Double]) -> (mean: Double, rms: Double) {
      let mean = numbers.reduce(0, +) / Double(numbers.count)
      return (
        mean, (numbers.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Double(numbers.count)).squareRoot()
      )
    }
    let (fitted, stamped) = (spread(errors), spread(stampErrors))
    #expect((0...0.05).contains(fitted.mean), "\(fitted)")
    #expect(fitted.rms < 0.005, "\(fitted)")
    #expect(stamped.rms > 3 * fitted.rms, "\(stamped)")
  }

  /// The wall clock is set, or the sensor restarts: the line begins again at the frame's timestamp.
  @Test func beginsAnew() {
    var times = FrameTimes()
    func place(_ seconds: Double, device: Double) -> Int64 {
      let stamp = ReceiveTime(nanoseconds: Self.start + Int64(seconds * 1e9))
      let device = Self.epoch + UInt64(device * 1e9)
      return times.place(stamp, device: device).time(device) - Self.start
    }
    #expect(place(0, device: 100) == 0)
    #expect(abs(place(1, device: 101) - 1_000_000_000) < 1_000_000)
    // One hour back.
    #expect(place(-3_598, device: 102) == -3_598_000_000_000)
    #expect(abs(place(-3_597, device: 103) + 3_597_000_000_000) < 1_000_000)
    // The sensor restarted.
    #expect(place(-3_500, device: 1) == -3_500_000_000_000)
    #expect(abs(place(-3_499, device: 2) + 3_499_000_000_000) < 1_000_000)
    // A minute without frames, while both clocks continued.
    #expect(abs(place(-3_439, device: 62) + 3_439_000_000_000) < 1_000_000)
  }

  /// Nonsensical times do not trap.
  @Test func takesAnything() {
    var times = FrameTimes()
    var count = 0
    for stamp in [Int64.max, .min, 0, -1, Self.start, .max] {
      for device in [UInt64.max, 0, 1, Self.epoch, .max / 2, .max - 1] as [UInt64] {
        _ = times.place(ReceiveTime(nanoseconds: stamp), device: device).time(device / 2)
        count += 1
      }
    }
    #expect(count == 36)
  }
}
