import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import CaptureKit
import TestKit
import Testing

@testable import CaptureTools
@testable import Recording
import SensorSessions

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

  // MARK: Reports

  private static let epoch: Int64 = 1_700_000_000_000_000_000

  /// Records half a minute of a ring at 50 Hz with events of 30 ms, of which the ticks in `lost` never
  /// arrive. The clock is set before tick 700 and, by the same amount again, before tick 1,100.
  private func record(_ seconds: Double, lost: Range<Int>, in folder: String) throws -> SessionReport {
    try Files.createDirectory(folder)
    var tables = RingTables()
    var files = try RecordingFiles(in: folder, tables.tables, log: nil)
    var report = SessionReport(
      device: .any, deviceName: nil, adapter: "hci0", mode: "test",
      startedAt: ReceiveTime(nanoseconds: Self.epoch))
    var (clock, last) = (ClockSetting(), 0 as Int64)
    for tick in 0..<1_500 where !lost.contains(tick) {
      if seconds != 0, (tick >= 700 && clock.offset == 0) || tick == 1_100 {
        clock.offset += Int64(seconds * 1e9)
        tables.begin(clock)
        var step = ClockStep(
          seenAt: ReceiveTime(nanoseconds: Self.epoch + Int64(tick) * 20_000_000 + clock.offset),
          span: TimeSpan(nanoseconds: Int64(seconds * 1e9)))
        step.rows = files.rowsOfSamples
        report.clockSteps.append(step)
        report.clockStepCount += 1
      }
      let event = (Double(tick) / 50 / 0.03).rounded(.up) * 0.03
      for frame in RingFrames.tick {
        // Packets of one event follow each other.
        last = max(Int64(event * 1e9), last + 200_000)
        let time = Self.epoch + last + clock.offset
        let sample = try RingRawSample(decoding: frame.span)
        tables.append(RingRawReading(time: ReceiveTime(nanoseconds: time), sample: sample), to: &files)
      }
    }
    tables.finish(&files)
    files.flush()
    files.sync()
    report.streams = RingStream.allCases.map {
      SessionReport.Stream(name: $0.name, file: $0.fileName, samples: 0)
    }
    var outcome = files.outcome
    (outcome.ticks, outcome.tickTable, outcome.account) = (tables.ticks, 3, tables.account)
    report.take(outcome, as: .csv)
    var directory = try CaptureDirectory(creating: folder, report)
    try directory.finish(report)
    return report
  }

  /// The recorder, its session and an analysis of its tables report the same as for a clock that was not set.
  @Test(arguments: [0.3, -0.3, 3600, -3600] as [Double], [500..<512, 695..<705])
  func countsWhatIsMissing(_ seconds: Double, _ lost: Range<Int>) throws {
    let count = lost.count
    try withFolder { folder in
      let still = try record(0, lost: lost, in: folder + "/still")
      let report = try record(seconds, lost: lost, in: folder + "/set")
      let (ticks, other) = (try #require(report.ticks), try #require(still.ticks))
      #expect(ticks.clock.missing == count && ticks.clock.missingAtMost == count)
      #expect(report.lost.missing == 3 * count && report.isNumbered)
      #expect(report.streams.allSatisfy { $0.part?.missing == count })
      #expect(ticks.clock == other.clock && ticks.rate == other.rate)
      let told = try CaptureAnalysis.run(folder + "/set", output: folder + "/analysis")
      #expect(told.ticks == ticks)
      let (written, made) = (rows(folder + "/set/samples.csv"), rows(folder + "/analysis/samples.csv"))
      let off = zip(written, made).first { $0 != $1 }
      #expect(written.count == made.count && off == nil, "\(String(describing: off))")
      #expect(try abs((#require(told.end) - #require(told.start)).seconds - 30) < 0.1)
      // Each row is on time by the clock at its time, and numbers continue.
      let rows = written.dropFirst().map { $0.split(separator: ",", omittingEmptySubsequences: false) }
      #expect(rows.count == 1_500 - count && rows.last?[1] == "1499")
      #expect(Set(rows.map { $0[3] }) == ["1", "2", "3"])
      let late = rows.map { (Int64($0[4]) ?? 0) - (Int64($0[0]) ?? .max) }
      #expect(late.allSatisfy { (-1_000_000...40_000_000).contains($0) })
      // Formats without times have no gap of an hour.
      let capture = try RecordedCapture(folder + "/set")
      let table = try #require(try SignalTable.all(of: capture).first)
      let scan = try SignalScan(capture, table) { _ in }
      #expect(scan.length == 1_500 && scan.gapCount == 1 && scan.gaps.first?.length == count)
    }
  }
}

/// A link is lost 90 s after the start and samples arrive again 12 s after the last one. Meanwhile, and once
/// long before, the clock is set.
@Suite struct ClockStepGapTests {
  @Test(arguments: [0, 3600, -3600, 0.3, 86_400 * 400, -60] as [Double], [0, 50, -50] as [Double])
  func measuresGaps(_ seconds: Double, _ earlier: Double) throws {
    let epoch: Int64 = 1_700_000_000_000_000_000
    func time(_ since: Double, _ setting: Double) -> ReceiveTime {
      ReceiveTime(nanoseconds: epoch + Int64((since + setting) * 1e9))
    }
    var report = SessionReport(
      device: .any, deviceName: nil, adapter: "hci0", mode: "test", startedAt: time(0, 0))
    for (since, step, all) in [(20.0, earlier, earlier), (95, seconds, earlier + seconds)] where step != 0 {
      report.clockSteps.append(
        ClockStep(seenAt: time(since, all), span: TimeSpan(nanoseconds: Int64(step * 1e9))))
    }
    var gap = SessionGap(
      end: .transactionTimeout, lastSampleAt: time(90, earlier), lostAt: time(92, earlier))
    gap.firstSampleAt = time(102, earlier + seconds)
    report.gaps = [gap]
    #expect(report.lengthNanoseconds(gap) == 12_000_000_000)
    #expect(report.medianRecoveryNanoseconds == 10_000_000_000)
  }
}

/// Tests which timestamps of a stream were made after the wall clock was set. The clocks are simulated.
@Suite struct ClockWatchTests {
  /// Arrivals by a clock that is never set, in nanoseconds, and the turns of the thread that takes them.
  struct Scene: CustomTestStringConvertible {
    var name: String
    var arrivals: [Int64]
    /// Nanoseconds between turns.
    var turn: Int64 = 250_000_000

    var testDescription: String { name }

    /// A ring whose ticks of 10 ms wait for events of 50 ms.
    static let dense = Scene(
      name: "ring", arrivals: (0..<1_000).map { ($0 / 5 * 50 + 50) * 1_000_000 + $0 % 5 * 200_000 })
    /// A strap that sends every second.
    static let sparse = Scene(name: "strap", arrivals: (0..<12).map { $0 * 1_003_000_000 + 417_000_000 })
    /// Frames of 73 samples at 130 Hz.
    static let frames = Scene(name: "frames", arrivals: (0..<20).map { $0 * 561_500_000 + 80_000_000 })
    /// A machine that is late: arrivals wait for up to 0.7 s.
    static let late = Scene(name: "late ring", arrivals: dense.arrivals, turn: 700_000_000)
  }

  private static let epoch: Int64 = 1_700_000_000_000_000_000

  @Test(
    arguments: [.dense, .sparse, .frames, .late] as [Scene],
    [0.3, -0.3, 1, -1, 5, 3600, -3600, 86_400 * 400] as [Double])
  func findsTheFirstTimestampAfterAStep(_ scene: Scene, _ seconds: Double) {
    for place in 0..<12 {
      let span = Int64(seconds * 1e9)
      let at = 2_031_000_000 + Int64(place) * 137_000_000
      func wall(_ steady: Int64) -> Int64 { Self.epoch + steady + (steady >= at ? span : 0) }
      func reading(_ steady: Int64) -> ClockWatch.Reading {
        ClockWatch.Reading(wall: wall(steady), steady: steady, doubt: 1_000)
      }
      var watch = ClockWatch(reading(0))
      var (next, begun, settings) = (0, [Int](), [ClockSetting]())
      for now in stride(from: scene.turn, through: scene.arrivals.last! + scene.turn, by: Int(scene.turn)) {
        let now = Int64(now)
        watch.look(reading(now))
        while next < scene.arrivals.count, scene.arrivals[next] <= now {
          var end = next + 1
          if watch.isApart(wall(scene.arrivals[next])) { watch.look(reading(now)) }
          var first: Int?
          if watch.isPending {
            while end < scene.arrivals.count, scene.arrivals[end] <= now { end += 1 }
            first = watch.firstAfterStep(scene.arrivals[next..<end].map(wall), now: now).map { next + $0 }
          }
          for index in next..<end {
            if index == first {
              watch.begin([:])
              begun.append(index)
            }
            watch.note(wall(scene.arrivals[index]))
            settings.append(watch.setting)
          }
          next = end
        }
        watch.noteEmpty(reading(now))
      }
      #expect(watch.count == 1 && abs(watch.steps[0].span.seconds - seconds) < 1e-3)
      let expected = scene.arrivals.firstIndex { $0 >= at }!
      #expect(begun == [expected], "set at \(at)")
      #expect(settings.last == ClockSetting(offset: span))
    }
  }

  /// A clock that is slewed by a tenth is not set. A clock that is set and set back between two samples shows
  /// no step.
  @Test func leavesOutWhatIsNoStep() {
    var watch = ClockWatch(ClockWatch.Reading(wall: Self.epoch, steady: 0))
    for second in 1...60 as ClosedRange<Int64> {
      watch.look(
        ClockWatch.Reading(wall: Self.epoch + second * 1_099_000_000, steady: second * 1_000_000_000))
    }
    #expect(watch.count == 0 && !watch.isPending)
    // The thread was preempted between its two readings.
    watch.look(
      ClockWatch.Reading(wall: Self.epoch + 70_000_000_000, steady: 61_000_000_000, doubt: 4_000_000_000))
    #expect(watch.count == 0)
  }
}
