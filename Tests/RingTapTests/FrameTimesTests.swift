import BLEWire
import TestKit
import Testing

@testable import Recording

/// The times of a sensor's samples, whose truth the test knows: frames arrive late by turns, and its clock runs fast.
@Suite struct FrameTimesTests {
  private static let start: Int64 = 1_700_000_000_000_000_000
  private static let epoch: UInt64 = 599_616_000_000_000_000

  /// Of a chest strap: 73 samples a frame at 130 Hz, by a clock that is 40 parts in a million fast.
  private struct Strap {
    var number = 0
    var random: SeededGenerator
    let fast = 1.000_040
    let rate = 130.0
    let frame = 73

    /// The wall clock's time of a sample, in seconds since the start.
    func truth(_ sample: Int) -> Double { Double(sample) / rate / fast }
    func device(_ sample: Int) -> UInt64 { FrameTimesTests.epoch + UInt64(Double(sample) / rate * 1e9) }

    /// A frame goes out at the next connection event, 50 ms apart; one of ten is sent again.
    mutating func stamp() -> ReceiveTime {
      let sent = truth(number * frame + frame - 1)
      var event = (sent / 0.05).rounded(.up) * 0.05 + 0.003
      while Int.random(in: 0..<10, using: &random) == 0 { event += 0.05 }
      return ReceiveTime(nanoseconds: FrameTimesTests.start + Int64(event * 1e9))
    }
  }

  /// Ten minutes: each sample has its own time, in order, within 5 ms of when it was measured but for one constant of at
  /// most a connection interval. The stamps are off by 20 ms.
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
        // A period is 7.69 ms, and may be a tenth longer or shorter while the line settles.
        if last != .min { #expect(time - last > 6_900_000 && time - last < 8_500_000) }
        last = time
        // The first minute finds the clock.
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

  /// A wall clock that was set, a sensor that was switched on anew: the line begins at the frame's stamp.
  @Test func beginsAnew() {
    var times = FrameTimes()
    func place(_ seconds: Double, device: Double) -> Int64 {
      let stamp = ReceiveTime(nanoseconds: Self.start + Int64(seconds * 1e9))
      let device = Self.epoch + UInt64(device * 1e9)
      return times.place(stamp, device: device).time(device) - Self.start
    }
    #expect(place(0, device: 100) == 0)
    #expect(abs(place(1, device: 101) - 1_000_000_000) < 1_000_000)
    // An hour back.
    #expect(place(-3_598, device: 102) == -3_598_000_000_000)
    #expect(abs(place(-3_597, device: 103) + 3_597_000_000_000) < 1_000_000)
    // Switched on anew.
    #expect(place(-3_500, device: 1) == -3_500_000_000_000)
    #expect(abs(place(-3_499, device: 2) + 3_499_000_000_000) < 1_000_000)
    // A minute without frames: both clocks went on.
    #expect(abs(place(-3_439, device: 62) + 3_439_000_000_000) < 1_000_000)
  }

  /// Times that make no sense do no harm.
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
