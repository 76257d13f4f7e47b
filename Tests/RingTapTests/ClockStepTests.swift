import BLELinux
import BLEWire
import TestKit
import Testing

@testable import Recording

/// The wall clock is set while a ring streams, so its timestamps jump.
@Suite(.timeLimit(.minutes(1))) struct ClockStepTests {
  /// Regression: when the clock was set back by an hour, the estimated tick period diverged and the writer
  /// trapped.
  @Test(arguments: [3600, -3600, 1, -1] as [Int64]) func writesEachSample(_ seconds: Int64) async throws {
    try await withFolder { folder in
      let sink = RingSink()
      let recorder = try await Recorder.start(in: folder, sink, packets: nil)
      var time: Int64 = 1_700_000_000_000_000_000
      for number in 0..<3000 {
        if number == 1500 { time += seconds * 1_000_000_000 }
        if number.isMultiple(of: 3) { time += 10_000_000 }
        sink.take(RingFrames.tick[number % 3], at: time)
      }
      let outcome = await recorder.finish()
      #expect(outcome.failure == nil && outcome.lostSamples == 0)
      #expect(outcome.rows[..<3] == [1000, 1000, 1000])
      let stamps = rows(folder + "/ppg.csv").dropFirst().compactMap { Int64($0.prefix { $0 != "," }) }
      let steps = zip(stamps, stamps.dropFirst()).map { $1 - $0 }
      #expect(steps.count { $0 != 10_000_000 } == 1)
    }
  }
}
