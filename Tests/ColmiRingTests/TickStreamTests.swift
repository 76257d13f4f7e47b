import BLEWire
import ColmiRing
import Foundation
import TestKit
import Testing

/// Turns frames into ticks on the sensor's clock.
@Suite struct TickStreamTests {
  static let streams = [
    SimulatedStream(rate: 1, connectionInterval: 0.05, ticks: 600),
    SimulatedStream(rate: 5, connectionInterval: 0.03, ticks: 3_000),
    SimulatedStream(rate: 10, connectionInterval: 0.05, ticks: 3_000),
    SimulatedStream(rate: 25, connectionInterval: 0.03, ticks: 5_000),
    SimulatedStream(rate: 50, connectionInterval: 0.03, ticks: 10_000),
    SimulatedStream(rate: 1_000, connectionInterval: 0.0075, ticks: 30_000),
  ]

  private struct Frame {
    var sample: RingRawSample
    var time: ReceiveTime
  }

  /// Deviation from the mean: the constant part of the delay cannot be measured.
  private func deviation(_ errors: [Double]) -> Double {
    let mean = errors.mean
    return errors.map { $0 - mean }.rootMeanSquare
  }

  /// The three frames of each tick, numbered by their values, 30 µs apart.
  private func frames(_ stream: SimulatedStream) -> [Frame] {
    stream.arrivals.flatMap { arrival in
      let number = UInt16(truncatingIfNeeded: arrival.number)
      let samples: [RingRawSample] = [
        .spO2(SpO2RawSample(value: number, max: 0, min: 0, diff: 0)),
        .ppg(PPGRawSample(value: number, max: 0, min: 0, diff: 0)),
        .accelerometer(AccelerometerSample(x: Int16(number % 2_048), y: 0, z: 0)),
      ]
      return samples.enumerated().map { place, sample in
        Frame(
          sample: sample, time: ReceiveTime(nanoseconds: arrival.kernel.nanoseconds + Int64(place) * 30_000))
      }
    }
  }

  private func placed(_ frames: [Frame], _ stream: inout TickStream) -> [PlacedTick] {
    var placed: [PlacedTick] = []
    for frame in frames {
      stream.take(frame.sample, at: frame.time)
      while let tick = stream.next() { placed.append(tick) }
    }
    stream.finish()
    while let tick = stream.next() { placed.append(tick) }
    return placed
  }

  private func placed(_ frames: [Frame]) -> [PlacedTick] {
    var stream = TickStream()
    return placed(frames, &stream)
  }

  /// Each frame keeps its own timestamp, the rate is accurate to a thousandth, and the fitted times are more
  /// accurate than the timestamps.
  @Test(arguments: streams) func tellsRateAndJitter(_ simulated: SimulatedStream) throws {
    let frames = frames(simulated)
    var stream = TickStream()
    let placed = placed(frames, &stream)
    let report = stream.report
    #expect(placed.map(\.index) == Array(0..<simulated.ticks))
    #expect(report.ticks == simulated.ticks && report.wholeTicks == simulated.ticks)
    #expect(placed.map(\.tick.spO2Time) == stride(from: 0, to: frames.count, by: 3).map { frames[$0].time })
    #expect(placed.map(\.tick.ppgTime) == stride(from: 1, to: frames.count, by: 3).map { frames[$0].time })
    #expect(report.clock.missing == 0 && report.gaps.isEmpty)
    let truth = simulated.arrivals.map(\.sensor)
    let errors = zip(placed, truth).map {
      Double($0.fittedTime.nanoseconds - SimulatedStream.epoch) / 1e9 - $1
    }
    let fitted = deviation(errors)
    let late = zip(simulated.arrivals, truth).map { $0.kernelSeconds - $1 }
    let stamps = deviation(late)
    #expect(fitted < stamps / 3)
    for part in report.parts {
      #expect(part.samples == simulated.ticks && part.missing == 0 && part.everyTicks == 1)
      #expect(abs(try #require(part.rate) / simulated.rate - 1) < 0.001)
      #expect(abs(part.residual / 1e9 - stamps) < 0.2 * stamps)
      // If timestamps are spread evenly within an interval, 99 of 100 are within 98 hundredths of it; lost
      // events add to that.
      #expect(part.residualP99 / 1e9 > 0.9 * simulated.connectionInterval)
      #expect(part.residualP99 / 1e9 < 2.2 * simulated.connectionInterval)
    }
    Figures.note(
      "\(simulated.testDescription): rate \(report.rate ?? 0), stamps \(stamps * 1e3) ms RMS, reported "
        + "\(report.parts[0].residual / 1e6) ms, p99 \(report.parts[0].residualP99 / 1e6) ms, fitted \(fitted * 1e3) ms"
    )
  }

  /// Lost frames are counted for their own subtype, and gaps are reported with time and length.
  @Test func tellsWhatIsMissing() {
    var simulated = SimulatedStream(rate: 25, connectionInterval: 0.03, ticks: 2_000)
    simulated.lost = Set(Array(500..<503) + [1_200])
    var frames = frames(simulated)
    // Ticks 10, 11 and 50 without their PPG frame.
    for tick in [50, 11, 10] { frames.remove(at: 3 * tick + 1) }
    var stream = TickStream()
    let placed = placed(frames, &stream)
    let report = stream.report
    #expect(placed.count == 1_996 && report.wholeTicks == 1_993)
    #expect(report.parts.map(\.missing) == [4, 7, 4])
    #expect(report.gaps.map(\.ticks) == [3, 1])
    #expect(report.clock.missing == 4 && report.clock.gaps == 2)
    let second = 1e9
    for (gap, tick) in zip(report.gaps, [500, 1_200]) {
      let lostAt = Double(SimulatedStream.epoch) + (Double(tick) + 0.37) / 25 * second
      #expect(Double(gap.after.nanoseconds) < lostAt && Double(gap.before.nanoseconds) > lostAt)
      let length = Double(gap.before.nanoseconds - gap.after.nanoseconds)
      #expect(abs(length - Double(gap.ticks + 1) * 0.04e9) < 1e6)
    }
  }

  /// A firmware that sends one subtype only with every second tick loses nothing.
  @Test func knowsASlowerSubtype() throws {
    let all = frames(SimulatedStream(rate: 50, connectionInterval: 0.03, ticks: 4_000))
    var stream = TickStream()
    _ = placed(all.enumerated().filter { $0.offset % 6 != 3 }.map(\.element), &stream)
    let part = stream.report.parts[RingTick.Part.spO2.rawValue]
    #expect(part.everyTicks == 2 && part.missing == 0 && part.samples == 2_000)
    #expect(abs(try #require(part.rate) - 25) < 0.025)
  }

  /// If frames have equal timestamps, the order in which they are read does not matter: the ticks are those
  /// of the tables.
  @Test func doesNotDependOnTheOrderWithinAStamp() {
    let simulated = SimulatedStream(rate: 100, connectionInterval: 0.03, ticks: 3_000)
    var frames = frames(simulated)
    for index in frames.indices {
      let event = (frames[index].time.nanoseconds - SimulatedStream.epoch) / 30_000_000
      frames[index].time = ReceiveTime(nanoseconds: SimulatedStream.epoch + event * 30_000_000)
    }
    var noise = Noise()
    frames = frames.filter { _ in noise.next() > 0.05 }
    // As a reader of tables may deliver them: of frames with equal timestamps, first one subtype, then the
    // others.
    let byStamp = Dictionary(grouping: frames, by: \.time).sorted { $0.key.nanoseconds < $1.key.nanoseconds }
    let sorted = byStamp.flatMap { _, frames in
      RingTick.Part.allCases.reversed().flatMap { part in frames.filter { $0.sample.part == part } }
    }
    #expect(sorted.map(\.sample) != frames.map(\.sample))
    #expect(placed(sorted) == placed(frames))
  }

  /// A ring out of range for 6 s stores three ticks and drops the others. The timestamps do not show whether
  /// the missing ticks are before or after the stored ones, so numbers may be off by three, and times by less
  /// than a tick.
  @Test func placesWhatFollowsAStall() {
    var simulated = SimulatedStream(rate: 25, connectionInterval: 0.03, ticks: 2_500)
    simulated.lost = Set(1_003..<1_152)
    var frames = frames(simulated)
    let back = frames[3 * 1_000].time.nanoseconds + 6_000_000_000
    for index in frames.indices where (3 * 1_000..<3 * 1_003).contains(index) {
      frames[index].time = ReceiveTime(nanoseconds: back + Int64(index - 3 * 1_000) * 30_000)
    }
    let placed = placed(frames)
    let isCounted = zip(placed, simulated.arrivals).dropFirst(1_003).allSatisfy {
      abs($0.index - $1.number) <= 3
    }
    #expect(isCounted)
    let errors = zip(placed, simulated.arrivals).dropFirst(1_003).map {
      Double($0.fittedTime.nanoseconds - SimulatedStream.epoch) / 1e9 - $1.sensor
    }
    #expect(deviation(errors) < 0.005)
    #expect(abs(errors.mean) < 0.04)
  }

  /// Four links of two seconds each, 0.4 s apart: each has its own phase, and the rate is the ring's, 50 a
  /// second, not that of a line through all links.
  @Test func beginsALineOnEachLink() throws {
    let simulated = SimulatedStream(rate: 50, connectionInterval: 0.03, ticks: 100)
    var (stream, ticks) = (TickStream(), [PlacedTick]())
    for link in 1...4 {
      // Off by another 0.3 of a tick on each link.
      let shift = Int64(link) * 2_406_000_000
      for frame in frames(simulated) {
        let time = ReceiveTime(nanoseconds: frame.time.nanoseconds + shift)
        stream.take(frame.sample, at: time, link: link)
        while let tick = stream.next() { ticks.append(tick) }
      }
    }
    stream.finish()
    while let tick = stream.next() { ticks.append(tick) }
    #expect(ticks.count == 400)
    #expect(ticks.indices.filter { ticks[$0].isRestart } == [100, 200, 300])
    // 20.3 ticks without a link.
    for start in [100, 200, 300] { #expect((20...21).contains(ticks[start].missingBefore)) }
    let report = stream.report
    let uncertainty = try #require(report.clock.rateUncertainty)
    #expect(abs(try #require(report.rate) / 50 - 1) <= min(uncertainty, 0.01))
    let times = (1...4).flatMap { link in simulated.arrivals.map { $0.sensor + Double(link) * 2.406 } }
    let errors = zip(ticks, times).map {
      Double($0.fittedTime.nanoseconds - SimulatedStream.epoch) / 1e9 - $1
    }
    #expect(deviation(errors) < 0.003)
  }

  /// The link is lost for 4 s and the ring restarts its timer: the fit follows within the time by which ticks
  /// lag.
  @Test(arguments: [5.0, 25, 50]) func beginsAnewAfterALostLink(rate: Double) throws {
    let before = SimulatedStream(rate: rate, connectionInterval: 0.03, ticks: Int(30 * rate))
    // Off by 0.41 of a tick.
    let pause = Int64((34 + 0.41 / rate) * 1e9)
    var frames = frames(before)
    frames += self.frames(before).map {
      Frame(sample: $0.sample, time: ReceiveTime(nanoseconds: $0.time.nanoseconds + pause))
    }
    let placed = placed(frames)
    #expect(placed.count == 2 * before.ticks)
    #expect(placed.indices.filter { placed[$0].isRestart } == [before.ticks])
    #expect(abs(placed[before.ticks].missingBefore - Int(4 * rate)) <= 1)
    let truth = before.arrivals.map(\.sensor)
    let errors = zip(placed[before.ticks...], truth).map { sample, sensor in
      let fitted = sample.fittedTime.nanoseconds - SimulatedStream.epoch - pause
      return Double(fitted) / 1e9 - sensor
    }
    let fitted = deviation(errors)
    #expect(fitted < 0.003)
    Figures.note("\(rate) Hz after a lost link: fitted \(fitted * 1e3) ms")
  }
}
