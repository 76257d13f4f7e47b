import BLECore
import BLESensors
import CMallocCounter
import Testing

/// Frames to ticks, clock, pulse, movement and rest, without a single allocation once everything is made.
@Suite(.serialized, .enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct SignalAllocationTests {
  /// All stages, as a recorder would hold them.
  private struct Stages {
    var grouper = RingTickGrouper()
    var clock = TickClock()
    var pulse: PulseMeter
    var motion: MotionMeter
    var rest = SleepRule()
    var windows = 0
    var minutes = 0

    init?(rate: Double) throws {
      guard let motion = MotionMeter(rate: rate) else { return nil }
      self.motion = motion
      pulse = try PulseMeter(rate: rate)
    }

    mutating func take(_ sample: RingRawSample, at time: ReceiveTime) {
      guard let tick = grouper.take(sample, at: time) else { return }
      clock.take(tick)
      while let placed = clock.next() {
        if pulse.take(placed) != nil { windows += 1 }
        if let minute = motion.take(placed) {
          minutes += 1
          _ = rest.take(counts: minute.counts)
        }
      }
    }
  }

  /// Eight minutes at 50 Hz or one at 1,000 Hz; the pulse is a triangle of 75 a minute, events are 30 ms apart, and
  /// each hundredth tick is lost.
  @Test(arguments: [(50.0, 24_000), (1_000, 66_000)])
  func allocatesNothingPerSample(rate: Double, ticks: Int) throws {
    let made = try Stages(rate: rate)
    var stages = try #require(made)
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
    #expect(stages.windows >= 6 && stages.minutes >= 1)
  }
}
