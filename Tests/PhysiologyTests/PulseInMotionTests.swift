import BLEWire
import Physiology
import TestKit
import Testing

/// Pulse of people who run, compared with their ECG: the figures in `Physiology.md`.
@Suite struct PulseInMotionTests {
  typealias Stream = (rate: Double, channel: TreadmillRun.Channel, sampling: TreadmillRun.Sampling)

  private static let someStreams: [Stream] = [
    (125, .mean, .plain), (50, .second, .plain), (25, .first, .plain), (25, .second, .filtered),
  ]

  /// The complete table takes a minute.
  private static var allStreams: [Stream] {
    TreadmillRun.Channel.allCases.flatMap { channel in
      [(125, channel, .plain)]
        + TreadmillRun.Sampling.allCases.flatMap { [(50, channel, $0), (25, channel, $0)] as [Stream] }
    }
  }

  static let isShared: Bool = Place.shared("captures/running/run01.csv.gz") != nil

  private func windows(_ run: TreadmillRun, _ stream: Stream) throws -> [PulseRateWindow] {
    var tracker = try PulseTracker(rate: stream.rate)
    var windows: [PulseRateWindow] = []
    for sample in run.samples(rate: stream.rate, stream.channel, stream.sampling) {
      tracker.take(sample)
      while let window = tracker.next() { windows.append(window) }
    }
    tracker.finish()
    while let window = tracker.next() { windows.append(window) }
    return windows
  }

  /// One stream of each run at each rate, including each optical channel, with one set of constants: an error
  /// of at most 2.0/min on average, in at least 95 % of the windows; and a quality that is as reliable as
  /// documented.
  @Test(
    .enabled(if: isShared, Place.noShared),
    arguments: Figures.areWanted ? allStreams : someStreams)
  func followsRunners(_ stream: Stream) throws {
    #expect(TreadmillRun.all.count == 6)
    let scores = try TreadmillRun.all.map { run in
      let windows = try windows(run, stream)
      #expect(windows.allSatisfy { ($0.pulse == nil) == ($0.absence != nil) })
      return PulseScore(windows, truth: run.truth)
    }
    for score in scores {
      #expect(score.coverage >= 0.95)
      #expect(score.errors.mean <= 2)
    }
    let all = PulseScore(scores)
    #expect(all.errors.mean <= 1.25)
    for quality in [0.5, 0.8, 0.9, 0.95, 0.97] {
      let share = all.share(quality: quality)
      #expect(share.count > all.count / 2 && share.right >= quality)
    }
    note(stream, scores)
  }

  /// Beats at rest and tracking in motion, combined in one meter: not worse than tracking alone.
  @Test(.enabled(if: isShared, Place.noShared))
  func choosesBetweenBeatsAndTracking() throws {
    let run = try #require(TreadmillRun.all.first)
    var meter = try PulseRateMeter(rate: 25)
    var windows: [PulseRateWindow] = []
    for sample in run.samples(rate: 25, .mean, .plain) {
      _ = meter.take(sample)
      while let window = meter.next() { windows.append(window) }
    }
    _ = meter.finish()
    while let window = meter.next() { windows.append(window) }
    let score = PulseScore(windows, truth: run.truth)
    #expect(score.coverage >= 0.95 && score.errors.mean <= 2)
    // The run begins at rest, when beats are found.
    #expect((1...15).contains(windows.count { $0.pulse?.method == .beats }))
    #expect(windows.dropFirst(15).allSatisfy { $0.pulse?.method == .tracking })
  }

  private func note(_ stream: Stream, _ scores: [PulseScore]) {
    let all = PulseScore(scores)
    let errors = scores.map { "\(($0.errors.mean * 100).rounded() / 100)" }.joined(separator: " | ")
    let shares = [0, 0.5, 0.8, 0.9, 0.95, 0.97].map { quality in
      let (right, count) = all.share(quality: quality)
      return "\(quality): \((right * 1_000).rounded() / 10) % of \(count)"
    }
    Figures.note(
      "\(stream): | \(errors) | all \(all.errors.mean), coverage \(all.coverage); "
        + shares.joined(separator: ", "))
  }

  /// Nonsensical times: all equal, decreasing, or jumping over centuries. Nothing traps.
  @Test(arguments: [
    [Int64](repeating: 5, count: 2_000), (0..<2_000).map { Int64(2_000 - $0) * 40_000_000 },
    (0..<2_000).map { $0.isMultiple(of: 2) ? -9_000_000_000_000_000_000 : 9_000_000_000_000_000_000 },
  ])
  func survivesNonsense(_ times: [Int64]) throws {
    var meter = try PulseRateMeter(rate: 25)
    var taken = 0
    for (index, time) in times.enumerated() {
      let light = 1_000 + Double(index % 20)
      let still = Acceleration(x: 0, y: 0, z: 1)
      _ = meter.take(
        SignalSample(
          index: index, time: ReceiveTime(nanoseconds: time), light: light, acceleration: still))
      while let window = meter.next() {
        taken += 1
        #expect((window.pulse == nil) == (window.absence != nil))
      }
    }
    _ = meter.finish()
    while meter.next() != nil { taken += 1 }
    #expect(taken <= times.count)
  }
}
