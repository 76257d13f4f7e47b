import BLEWire
import CMallocCounter
import ColmiRing
import Foundation
import Physiology
import Testing

@testable import BLEEmulation
import Recording
import SensorSessions

/// Frames to ticks, clock, pulse, breathing, movement and rest, without any allocation after initialisation.
@Suite(.serialized, .enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct SignalAllocationTests {
  /// All stages of an analysis; a recorder has the first of them.
  private struct Stages {
    var stream = TickStream()
    var pulse: PulseMeter
    var rate: PulseRateMeter
    var motion: MotionMeter
    var rest = SleepRule()
    var respiration = RespirationMeter()
    var breathing = 0
    var windows = 0
    var rates = 0
    var minutes = 0

    init?(rate: Double) throws {
      guard let motion = MotionMeter(rate: rate) else { return nil }
      self.motion = motion
      pulse = try PulseMeter(rate: rate)
      self.rate = try PulseRateMeter(rate: rate)
    }

    mutating func take(_ sample: RingRawSample, at time: ReceiveTime) {
      stream.take(sample, at: time)
      while let placed = stream.next() {
        if pulse.take(placed.signal) != nil {
          windows += 1
          for index in 0..<pulse.beatCount where respiration.take(pulse.beat(index)) != nil { breathing += 1 }
        }
        _ = rate.take(placed.signal)
        while rate.next() != nil { rates += 1 }
        if let minute = motion.take(placed.signal) {
          minutes += 1
          _ = rest.take(counts: minute.counts)
        }
      }
    }
  }

  /// Everything that an emulated ring's wearer can do, for 80 s after each was done once.
  @Test func emulatedFramesAllocateNothing() throws {
    var wearer = Wearer()
    (wearer.motion, wearer.boutSeconds, wearer.liftedEverySeconds) = (.run, 10, 20)
    (wearer.ectopicShare, wearer.perfusion) = (0.2, 0.5)
    var signal = RingSignal(wearer, dropoutRate: 0.1)
    let subtypes: InlineArray<3, RingSignal.Subtype> = [.spo2, .ppg, .accelerometer]
    var before: UInt64 = 0
    var sum = 0
    for tick in 0..<3_000 {
      if tick == 1_000 { before = malloc_counter_calls() }
      for index in subtypes.indices {
        let subtype = subtypes[index]
        sum += Int(signal.frame(subtype, tick: tick, seconds: Double(tick) / 25)[3])
      }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0 && sum > 0)
  }

  /// Eight minutes at 50 Hz or one at 1,000 Hz. The pulse is a triangle wave at 75/min, events are 30 ms
  /// apart, and every hundredth tick is lost.
  @Test(arguments: [(50.0, 24_000), (1_000, 66_000)])
  func allocatesNothingPerSample(rate: Double, ticks: Int) throws {
    // A second copy of the stages would make each array copy itself when it is first written.
    guard var stages = try Stages(rate: rate) else {
      Issue.record("no stages for \(rate) Hz")
      return
    }
    var before: UInt64 = 0
    for tick in 0..<ticks where tick % 100 != 99 {
      if tick == ticks / 4 { before = malloc_counter_calls() }
      let seconds = Double(tick) / rate
      let place = (seconds / 0.8).truncatingRemainder(dividingBy: 1)
      let wave = place < 0.3 ? place / 0.3 : (1 - place) / 0.7
      let time = Int64((seconds / 0.03).rounded(.up) * 0.03e9)
      let value = UInt16(10_700 + 200 * wave)
      stages.take(
        .ppg(PPGRawSample(value: value, max: 0, min: 0, diff: 0)), at: ReceiveTime(nanoseconds: time))
      stages.take(
        .accelerometer(AccelerometerSample(x: 372, y: 291, z: Int16(189 + tick % 3))),
        at: ReceiveTime(nanoseconds: time + 100_000))
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    #expect(stages.windows >= 6 && stages.minutes >= 1 && stages.rates >= 20 && stages.breathing >= 1)
  }

  /// The review of the first ticks, after `FirstTicks.limit` of them: nine of a thousand were dropped, and
  /// connection events are 30 ms apart.
  @Test func theLookBackAllocatesNothing() {
    var stream = TickStream()
    var placed = 0
    var missing = 0
    var before: UInt64 = 0
    for tick in 0..<3_000 where tick % 111 != 110 {
      // The review occurs within these.
      if tick == 900 { before = malloc_counter_calls() }
      let event = (tick * 20_000_000 / 30_000_000 + 1) * 30_000_000
      stream.take(
        .ppg(PPGRawSample(value: 10_625, max: 0, min: 0, diff: 0)), at: ReceiveTime(nanoseconds: Int64(event))
      )
      while let tick = stream.next() {
        placed += 1
        missing += tick.missingBefore
      }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    #expect(placed > 2_900 && missing >= 20)
  }

  /// A ring that stands still for a while, and whose ticks then arrive in a burst or are gone. The first of two
  /// equal streams may perform one-time initialisation.
  @Test(arguments: [(2.0, 300), (90, 6_000)], [true, false])
  func aStandstillAllocatesNothing(_ standstill: (seconds: Double, at: Int), isBurst: Bool) {
    var stream = TickStream()
    var placed = 0
    var before: UInt64 = 0
    for pass in 0..<2 {
      if pass > 0 { stream = TickStream() }
      before = malloc_counter_calls()
      for tick in 0..<standstill.at + 1_500 {
        let late = tick < standstill.at ? 0 : standstill.seconds * 1e9
        let due = Double(tick) * 1e9 / 116
        let resumed = Double(standstill.at) * 1e9 / 116 + late
        let sent = tick < standstill.at ? due : isBurst ? max(due, resumed) : due + late
        let event = Int64(sent / 30e6 + 1) * 30_000_000
        stream.take(
          .ppg(PPGRawSample(value: 10_625, max: 0, min: 0, diff: 0)), at: ReceiveTime(nanoseconds: event))
        while stream.next() != nil { placed += 1 }
      }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    #expect(placed > standstill.at)
  }

  /// ECG samples to beats, windows and variability: 22 minutes at 130 Hz, three at 1,000 Hz. One frame of 73
  /// samples is lost each minute, and three seconds once.
  @Test(arguments: [(130.0, 171_600), (1_000, 180_000)])
  func allocatesNothingPerECGSample(rate: Double, count: Int) throws {
    var meter = try ECGMeter(rate: rate)
    var variability = VariabilityMeter()
    var (windows, beats, segments) = (0, 0, 0)
    var before: UInt64 = 0
    let lost = Int(3 * rate)
    for index in 0..<count where index % Int(60 * rate) > 73 && !(count / 2..<count / 2 + lost ~= index) {
      if index == count / 4 { before = malloc_counter_calls() }
      // One wave of 80 ms every 0.8 s, with a little noise.
      let seconds = Double(index) / rate
      let place = ((seconds / 0.8).truncatingRemainder(dividingBy: 1) - 0.5) * 0.8 / 0.04
      let wave = abs(place) < 1 ? 1_000 * (1 - place * place) : 0
      let time = ReceiveTime(nanoseconds: Int64(seconds * 1e9))
      let sample = ECGSample(index: index, time: time, microvolts: wave + Double(index * 7_919 % 17))
      guard meter.take(sample) != nil else { continue }
      windows += 1
      for number in 0..<meter.beatCount {
        beats += 1
        if variability.take(meter.beat(number)) != nil { segments += 1 }
      }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    let time = Double(count) / rate
    #expect(windows > Int(time / 10) - 5 && Double(beats) > time / 0.8 * 0.9)
    #expect(segments == Int(time - 12) / 300)
  }

  /// Samples through the files of a recording, flushed as by its thread: no allocation per sample.
  @Test(arguments: TableFormat.allCases) func recordsWithoutAllocating(_ format: TableFormat) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var tables = RingTables()
    var files = try RecordingFiles(in: folder, tables.tables, as: format, log: nil)
    let ticks = 20_000
    var before: UInt64 = 0
    for tick in 0..<ticks {
      if tick == ticks / 2 { before = malloc_counter_calls() }
      let time = Int64(tick) * 20_000_000
      let samples: InlineArray<3, RingRawSample> = [
        .spO2(SpO2RawSample(value: 160, max: 194, min: 114, diff: 149)),
        .ppg(PPGRawSample(value: 10_625, max: 10_957, min: 10_689, diff: 268)),
        .accelerometer(AccelerometerSample(x: 372, y: 291, z: -189)),
      ]
      for part in samples.indices {
        let stamp = ReceiveTime(nanoseconds: time + Int64(part) * 100_000)
        tables.append(RingRawReading(time: stamp, sample: samples[part]), to: &files)
      }
      if tick % 25 == 24 { files.flush() }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    tables.finish(&files)
    files.flush()
    let outcome = files.outcome
    #expect(outcome.rows == [ticks, ticks, ticks, ticks] && outcome.failure == nil)
  }

  /// Samples to rows of four tables, as on a recorder's thread: frames at 50 and at 1,000 ticks a second.
  @Test(arguments: [(50, 12_000), (1_000, 40_000)] as [(Int, Int)])
  func writesRowsWithoutAllocating(rate: Int, ticks: Int) {
    var stream = TickStream()
    var rows = TickRows()
    var text: [UInt8] = []
    text.reserveCapacity(1 << 16)
    let samples: InlineArray<3, RingRawSample> = [
      .spO2(SpO2RawSample(value: 160, max: 194, min: 114, diff: 149)),
      .ppg(PPGRawSample(value: 10_625, max: 10_957, min: 10_689, diff: 268)),
      .accelerometer(AccelerometerSample(x: 372, y: 291, z: -189)),
    ]
    var before: UInt64 = 0
    var placedTicks = 0
    for tick in 0..<ticks where tick % 100 != 99 {
      if tick == ticks / 4 { before = malloc_counter_calls() }
      if text.count > 1 << 15 { text.removeAll(keepingCapacity: true) }
      let event = (tick * 1_000_000_000 / rate / 30_000_000 + 1) * 30_000_000
      for place in samples.indices {
        let time = ReceiveTime(nanoseconds: Int64(event + place * 100_000))
        RingRawReading(time: time, sample: samples[place]).appendRow(to: &text)
        stream.take(samples[place], at: time)
        while let placed = stream.next() {
          rows.append(placed, to: &text)
          placedTicks += 1
        }
      }
    }
    let calls = malloc_counter_calls() - before
    #expect(calls == 0)
    #expect(placedTicks > 9 * ticks / 10 - 4 * rate)
  }
}
