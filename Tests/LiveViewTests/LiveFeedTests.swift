import BLEHost
import BLELinux
import BLESensors
import BLEWire
import ColmiRing
import TestKit
import Testing

@testable import LiveView
import Recording
import SensorSessions

/// Live values from rows that a writer's thread took, made of frames that devices sent.
struct LiveFeedTests {
  private static let second: Int64 = 1_000_000_000
  private static let start = 1_700_000_000 * second

  private static func device(_ feed: LiveFeed, now: Int64 = SystemClock.monotonic().nanoseconds) -> LiveDevice
  {
    feed.device(LiveStanding(), columns: 100, at: MonotonicTime(nanoseconds: now))
  }

  private static func feed(_ tables: [RecordedTable]) throws -> LiveFeed {
    let feed = LiveFeed(
      try #require(DeviceAddress("70:CB:0D:00:A1:B2", type: .public)), name: "R02", rssi: -58)
    feed.open(tables)
    return feed
  }

  /// x 372, y 291, z 189 counts, 512 to the g: √(372² + 291² + 189²) / 512 = 0.9936 g.
  @Test func showsARing() throws {
    let feed = try Self.feed(RingTables().tables)
    for (name, table) in [("raw-acc-ei-1", 0), ("raw-ppg-ei-1", 1), ("raw-spo2-ei-1", 2), ("raw-ppg-oc", 1)] {
      let sample = try RingRawSample(decoding: RingFrames.frame(name).span)
      feed.take(RingRawReading(time: ReceiveTime(nanoseconds: Self.start), sample: sample), table)
    }
    let device = Self.device(feed)
    #expect(device.name == "R02" && device.rssi == -58 && device.address == "70:CB:0D:00:A1:B2")
    #expect(device.streams.map(\.name) == ["accelerometer", "ppg", "spo2"])
    #expect(device.streams.map(\.count) == [1, 2, 1])
    #expect(device.streams.map(\.unit) == ["g", "counts", "counts"])
    #expect(device.streams[0].last.map { ($0 * 10_000).rounded() } == 9936)
    #expect(device.streams[1].last == 1635 && device.streams[2].last == 160)
    #expect(device.streams[1].wave.last == LiveExtremes(1635, 10_625, first: 10_625, last: 1635))
    #expect(device.streams[1].wave.dropLast().allSatisfy { $0 == nil })
  }

  /// Frames are 40 ms apart and arrive in bunches every 250 ms: from the start, the wave places them by the
  /// ring's clock.
  @Test func wavesAreOnTheRingsClock() throws {
    let feed = try Self.feed(RingTables().tables)
    var stream = TickStream()
    for index in 0..<500 {
      let due = Int64(index) * 40_000_000
      let event = (due + 249_999_999) / 250_000_000 * 250_000_000
      let place = max(0, Int64(index) - (event - 210_000_000) / 40_000_000)
      let arrival = Self.start + event + place * 1_000_000
      let sample = RingRawSample.accelerometer(AccelerometerSample(x: Int16(index), y: 0, z: 0))
      let time = ReceiveTime(nanoseconds: arrival)
      feed.take(RingRawReading(time: time, sample: sample), 0)
      stream.take(sample, at: time)
      while let placed = stream.next() { feed.take(placed) }
    }
    let wave = Self.device(feed).streams[0].wave
    // 100 columns of 50 ms: each has one or two samples, every fourth has two.
    let counts = wave.map { $0.map { Int(($0.last - $0.first) * 512 + 1.5) } ?? 0 }
    #expect(wave.count == 100 && counts.allSatisfy { (1...2).contains($0) }, "\(counts)")
    #expect(abs(counts.reduce(0, +) - 125) <= 2)
  }

  /// Without contact there is no rate. Flags 0x14: contact supported but not detected, with intervals. Heart
  /// Rate Service 1.0, 3.1.1.
  @Test func showsAStrap() async throws {
    let feed = try Self.feed(HeartRateTables.tables)
    var tables = HeartRateTables()
    try withFolder { folder in
      var files = try RecordingFiles(in: folder, HeartRateTables.tables, log: nil, live: feed)
      for (number, value) in [[0x16, 72, 0x00, 0x04], [0x14, 0, 0x00, 0x02]].enumerated() {
        let value = value.map { UInt8($0) }
        let time = ReceiveTime(nanoseconds: Self.start + Int64(number) * Self.second)
        tables.append(try HeartRateSample(decoding: value.span, at: time), to: &files)
        #expect(Self.device(feed).streams[0].last == (number == 0 ? 72 : nil))
      }
    }
    let streams = Self.device(feed).streams
    #expect(streams.map(\.count) == [2, 2])
    #expect(streams.map(\.unit) == ["1/min", "ms"])
    #expect(streams[1].last == 500 && streams[1].rate == 1)
    #expect(streams[0].wave.compactMap(\.self) == [LiveExtremes(72, 72)])
  }

  /// Nine seconds without data give nine empty columns, and no rate.
  @Test func aSilentStreamMovesOn() throws {
    let feed = try Self.feed(HeartRateTables.tables)
    for number in 0..<4 {
      let row = WordCells(
        columns: HeartRateTables.tables[0].columns,
        words: [
          UInt64(Self.start + Int64(number) * Self.second), Double(60 + number).bitPattern,
          TableCell.missingNumber, TableCell.missingNumber,
        ])
      feed.take(row, 0)
    }
    let now = SystemClock.monotonic().nanoseconds
    let live = Self.device(feed, now: now).streams[0]
    #expect(live.columnSeconds == 1 && live.rate == 1)
    #expect(live.wave.suffix(4).map { $0?.low } == [60, 61, 62, 63])
    let later = Self.device(feed, now: now + 9 * Self.second).streams[0]
    #expect(later.rate == nil && later.last == 63)
    #expect(later.wave.suffix(9).allSatisfy { $0 == nil })
    #expect(later.wave.compactMap(\.self).count == 4)
  }

  /// A ring reports its battery unsolicited, 0x73 0x0C: 41 %. Other notifications do not change it.
  @Test func hearsOfTheBattery() throws {
    let feed = try Self.feed(RingTables().tables)
    func notification(_ payload: [UInt8]) -> [UInt8] {
      var frame = payload + [UInt8](repeating: 0, count: 15 - payload.count)
      frame.append(frame.reduce(0, &+))
      return [0x1B, 0x10, 0x00] + frame
    }
    for pdu in [[], [0x1B], notification([0x73, 0x12, 41]), [0x0B] + notification([0x73, 0x0C, 41])] {
      feed.take(pdu.span)
      #expect(Self.device(feed).battery == nil)
    }
    let told = notification([0x73, 0x0C, 41])
    feed.take(told.span)
    #expect(Self.device(feed).battery == 41)
  }

  /// Nonsensical times and numbers.
  @Test func takesAnything() throws {
    let columns = PolarRows.columns(.ecg, 1)
    let feed = try Self.feed([RecordedTable(name: "ecg", columns: [])])
    feed.open(0, with: columns)
    for time in [Int64.max, .min, 0, -1, Self.start, .min] {
      for device in [Int64.max, .min, 0] {
        feed.take(
          WordCells(
            columns: columns, words: [time, time, device, Int64.max].map { UInt64(bitPattern: $0) }), 0)
        _ = Self.device(feed, now: .max)
      }
    }
    #expect(Self.device(feed).streams[0].count == 18)
  }
}
