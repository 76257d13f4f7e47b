import BLEWire
import Testing

@testable import Outlets
import Recording

/// Converts wall-clock times to LSL's clock, also across steps of the wall clock.
@Suite struct LSLClockTests {
  private static let second: Int64 = 1_000_000_000
  /// Wall-clock time when LSL's clock is 0.
  private static let epoch: Int64 = 1_700_000_000_000_000_000

  /// A reading that took `took` nanoseconds at the time `lsl`, with the wall clock set ahead by `ahead`.
  private func reading(_ lsl: Int64, took: Int64 = 200, ahead: Int64 = 0) -> LSLClock.Reading {
    LSLClock.Reading(before: lsl - took / 2, wall: Self.epoch + lsl + ahead, after: lsl + took / 2)
  }

  @Test func convertsByTheDistance() {
    let clock = LSLClock(reading(5 * Self.second))
    #expect(clock.time(of: Self.epoch + 5 * Self.second) == 5)
    #expect(clock.time(of: Self.epoch - Self.second) == -1)
    #expect(clock.time(of: Self.epoch + 7_250_000_001) == 7.250000001)
  }

  /// A reading that was interrupted is less precise than an earlier one and does not replace it; a more
  /// precise one does.
  @Test func keepsTheBestMeasurement() {
    var clock = LSLClock(
      LSLClock.Reading(before: 0, wall: Self.epoch + 9_000_000, after: 10_000_000))
    #expect(clock.time(of: Self.epoch) == -0.004)
    clock.take(reading(Self.second))
    #expect(clock.time(of: Self.epoch) == 0)
    clock.take(
      LSLClock.Reading(before: 2 * Self.second, wall: Self.epoch + 2_009_000_000, after: 2_010_000_000))
    #expect(clock.time(of: Self.epoch) == 0)
  }

  /// Uses the shortest of a few readings.
  @Test func looksUntilNobodyInterrupts() {
    var (now, looks) = (Int64(0), 0)
    func lsl() -> Int64 {
      looks += 1
      now += looks.isMultiple(of: 2) && looks < 6 ? 8_000_000 : 100
      return now
    }
    let best = LSLClock.Reading.take(lsl) { now }
    #expect(best.after - best.before == 100 && best.wall == best.before && looks == 6)
  }

  /// Timestamps from before and after a step between two turns of the writer are within the measurement error
  /// of 1 µs.
  @Test(arguments: [3600, -3600, 0.5, -0.5, 0.04, -0.04])
  func followsSteps(_ seconds: Double) {
    let ahead = Int64(seconds * 1e9)
    var clock = LSLClock(reading(0))
    clock.take(reading(9_980_000_000))
    clock.take(reading(10 * Self.second, ahead: ahead))
    // The step was at 9.99 s.
    #expect(abs(clock.time(of: Self.epoch + 9_985_000_000) - 9.985) < 1e-6)
    #expect(abs(clock.time(of: Self.epoch + 9_995_000_000 + ahead) - 9.995) < 1e-6)
    // A ring's ticks may arrive seconds late: timestamps from before the step are still converted, unless the
    // clock has passed them twice, and so are those from after it.
    clock.take(reading(13 * Self.second, ahead: ahead))
    if seconds > 0 || seconds < -3 {
      #expect(abs(clock.time(of: Self.epoch + 9_985_000_000) - 9.985) < 1e-6)
    }
    #expect(abs(clock.time(of: Self.epoch + 9_995_000_000 + ahead) - 9.995) < 1e-6)
    #expect(abs(clock.time(of: Self.epoch + 13 * Self.second + ahead) - 13) < 1e-6)
  }

  /// Several small steps add up like one large step.
  @Test func followsACreepingClock() {
    var clock = LSLClock(reading(0))
    for step in 1...1000 as ClosedRange<Int64> {
      clock.take(reading(step * Self.second, ahead: step * 1_000))
    }
    #expect(abs(clock.time(of: Self.epoch + 1000 * Self.second + 1_000_000) - 1000) < 2e-6)
  }

  /// Times in logs may be any number.
  @Test func trapsForNoTime() {
    var clock = LSLClock(reading(0))
    clock.take(reading(Self.second, ahead: 5 * Self.second))
    for time in [Int64.min, -1, 0, Int64.max] { #expect(clock.time(of: time).isFinite) }
  }
}

/// The description of a stream that receivers get.
@Suite struct LSLStreamTests {
  private let ppg = SampleTable(
    number: 0, name: "ppg", columns: [.time("time_ns"), .counts("ppg_counts", .float32(decimals: 0))])

  private func stream(_ columns: [RecordedColumn], rateHz: Double? = nil) throws -> LSLStream {
    let device = SampleDevice(try #require(DeviceAddress("70:CB:0D:00:A1:B2")), kind: "ring")
    return LSLStream(SampleTable(number: 0, name: "ecg", columns: columns, rateHz: rateHz), of: device)
  }

  /// A receiver finds the stream of the next recording by its name, type and source.
  @Test func isTheSameAtEachRecording() throws {
    let address = try #require(DeviceAddress("70:CB:0D:00:A1:B2"))
    let (named, unnamed) = (
      LSLStream(ppg, of: SampleDevice(address, kind: "ring", name: "R02_A1B2")),
      LSLStream(ppg, of: SampleDevice(address, kind: "ring"))
    )
    #expect(named.name == "ring 70:CB:0D:00:A1:B2 ppg" && named.sourceID == "ringtap:70:CB:0D:00:A1:B2:ppg")
    #expect((named.name, named.type, named.sourceID) == (unnamed.name, unnamed.type, unnamed.sourceID))
    #expect(named.channels == unnamed.channels && named.format == unnamed.format)
    #expect(named.acquisition.last?.value == "R02_A1B2")
  }

  /// The 24 significant bits of a float32 hold any 16-bit number, but not any 32-bit number.
  @Test func takesWhatIsExact() throws {
    let time = RecordedColumn.time("time_ns")
    #expect(
      try stream([time, .counts("a", .uint16), .counts("b", .float32(decimals: 0))]).format == .float32)
    #expect(try stream([time, .counts("a", .uint16), .counts("b", .int32)]).format == .float64)
    let ecg = try stream([time, .time("frame_time_ns"), .counts("a", .int32)], rateHz: 130)
    #expect(ecg.channels == [[.init("label", "a"), .init("unit", "counts")]] && ecg.rateHz == 130)
  }

  @Test func cellsAreNumbersOrNone() {
    #expect(RecordedColumn.Kind.int64.channelValue(TableCell.missing).isNaN)
    #expect(RecordedColumn.Kind.int16.channelValue(UInt64(bitPattern: -5)) == -5)
    #expect(RecordedColumn.Kind.float32(decimals: 0).channelValue(TableCell.missingNumber).isNaN)
    #expect(RecordedColumn.Kind.word(["a", "b"]).channelValue(1) == 1)
    #expect(RecordedColumn.Kind.word(["a", "b"]).channelValue(TableCell.missing).isNaN)
  }
}
