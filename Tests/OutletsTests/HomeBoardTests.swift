import BLELinux
import BLESensors
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import TestKit
import Testing

import BLEDissector
@testable import Outlets
import Recording
import SensorSessions

/// Messages to a broker and their timing, without a broker and with the test's own clock.
struct HomeBoardTests {
  private static let second: Int64 = 1_000_000_000
  private static let node = "ringtap_70cb0d00a1b2"
  private static let available = "homeassistant/sensor/\(node)/availability"

  private static func at(_ seconds: Double) -> MonotonicTime {
    MonotonicTime(nanoseconds: Int64(seconds * Double(second)))
  }

  private static func device(_ name: String? = "R02") throws -> HomeDevice {
    HomeDevice(
      try #require(DeviceAddress("70:CB:0D:00:A1:B2", type: .public)), kind: "ring", name: name,
      below: "homeassistant", version: "1")
  }

  private static func topic(_ entity: String, _ end: String) -> String {
    "homeassistant/sensor/\(node)/\(entity)/\(end)"
  }

  /// Sends everything that is due, to a broker that acknowledges at once.
  private static func sent(_ board: inout HomeBoard, _ seconds: Double) -> [String] {
    var sent: [String] = []
    while let outgoing = board.next(at(seconds)) {
      board.left(sent.count, outgoing, at(seconds))
      board.acknowledged(sent.count, reason: 0)
      let text = String(decoding: outgoing.octets, as: UTF8.self)
      sent.append(outgoing.topic + (outgoing.topic.hasSuffix("/config") ? "" : " \(text)"))
    }
    return sent
  }

  /// Messages are sent in the order in which Home Assistant needs them. For a device without values nothing
  /// is sent.
  @Test func ordersMessages() throws {
    var board = HomeBoard(try Self.device())
    #expect(Self.sent(&board, 0).isEmpty && board.isSettled)
    board.set(.heartRate, nil, Self.at(0))
    #expect(Self.sent(&board, 0).isEmpty)
    board.setLink(isUp: true, Self.at(0))
    board.set(.heartRate, "72", Self.at(0))
    #expect(!board.isSettled)
    #expect(
      Self.sent(&board, 0) == [
        Self.topic("heart_rate", "config"), "\(Self.available) online", Self.topic("heart_rate", "state 72"),
      ])
    #expect(board.isSettled && Self.sent(&board, 9).isEmpty)
  }

  /// 25 values a second for 10 seconds: one message a second, and the last one has the last value.
  @Test func sparesTheBroker() throws {
    var board = HomeBoard(try Self.device())
    var count = 0
    for number in 0..<250 {
      board.set(.heartRate, "\(number)", Self.at(Double(number) / 25))
      count +=
        Self.sent(&board, Double(number) / 25).filter { $0.hasPrefix(Self.topic("heart_rate", "state")) }
        .count
    }
    #expect(count == 10)
    #expect(Self.sent(&board, 10) == [Self.topic("heart_rate", "state 249")])
  }

  /// While the broker does not acknowledge, it has at most one message per topic. When it does, it gets the
  /// current values.
  @Test func waitsForTheBroker() throws {
    var board = HomeBoard(try Self.device())
    board.setLink(isUp: true, Self.at(0))
    var waiting: [String: Int] = [:]
    for number in 0..<1000 {
      board.set(.heartRate, "\(number)", Self.at(Double(number)))
      while let outgoing = board.next(Self.at(Double(number))) {
        #expect(waiting[outgoing.topic] == nil)
        waiting[outgoing.topic] = waiting.count
        board.left(waiting.count - 1, outgoing, Self.at(Double(number)))
      }
    }
    #expect(waiting.count == 3 && board.waitingSince == Self.at(0))
    for message in waiting.values { board.acknowledged(message, reason: 0) }
    #expect(Self.sent(&board, 1000) == [Self.topic("heart_rate", "state 999")])
  }

  /// A lost link: unavailable is sent first, then stale values are cleared; daily values stay. Nothing else
  /// is sent within a second.
  @Test func forgetsWithTheLink() throws {
    var board = HomeBoard(try Self.device())
    board.setLink(isUp: true, Self.at(0))
    for (entity, text) in [(HomeEntity.heartRate, "72"), (.steps, "3055"), (.temperatureQuality, "good")] {
      board.set(entity, text, Self.at(0))
    }
    _ = Self.sent(&board, 0)
    board.setLink(isUp: false, Self.at(2))
    let lost = Self.sent(&board, 2)
    #expect(lost.first == "\(Self.available) offline")
    #expect(
      Set(lost.dropFirst()) == [
        Self.topic("heart_rate", "state None"), Self.topic("temperature_quality", "state unknown"),
      ])
    board.setLink(isUp: true, Self.at(2.1))
    #expect(Self.sent(&board, 2.1).isEmpty)
    #expect(Self.sent(&board, 3) == ["\(Self.available) online"])
    // At the end nothing is delayed.
    board.setLink(isUp: false, Self.at(3.1))
    board.end()
    #expect(Self.sent(&board, 3.1) == ["\(Self.available) offline"])
  }

  /// A strap whose link is up but which sends nothing more.
  @Test func forgetsWithTime() throws {
    var board = HomeBoard(try Self.device())
    board.set(.heartRate, "72", Self.at(0))
    board.set(.temperature, "36.5", Self.at(0))
    _ = Self.sent(&board, 0)
    #expect(Self.sent(&board, 29).isEmpty)
    #expect(Self.sent(&board, 30) == [Self.topic("heart_rate", "state None")])
    #expect(Self.sent(&board, 4000).isEmpty)
  }

  /// The broker loses its state, and Home Assistant restarts: both get everything again.
  @Test func repeatsAll() throws {
    var board = HomeBoard(try Self.device())
    board.setLink(isUp: true, Self.at(0))
    board.set(.heartRate, "72", Self.at(0))
    let all = Self.sent(&board, 0)
    // One message was in flight when the connection was lost.
    board.set(.heartRate, "73", Self.at(1))
    let lost = board.next(Self.at(1))
    board.left(99, try #require(lost), Self.at(1))
    board.connected()
    #expect(Self.sent(&board, 2).count == all.count)
    board.repeatAll()
    #expect(Self.sent(&board, 2.5).isEmpty, "repeated requests are answered once a second")
    #expect(Self.sent(&board, 3).count == all.count)
  }

  @Test func tellsARefusalOnce() throws {
    var board = HomeBoard(try Self.device())
    board.set(.heartRate, "72", Self.at(0))
    let next = board.next(Self.at(0))
    let outgoing = try #require(next)
    board.left(1, outgoing, Self.at(0))
    board.acknowledged(1, reason: 135)
    #expect(board.refusal == .init(topic: Self.topic("heart_rate", "config"), reason: 135))
    board.acknowledged(7, reason: 0)
    #expect(!Self.sent(&board, 5).contains(outgoing.topic), "not again before it changes")
  }

  // MARK: Device descriptions

  private static func block(_ board: HomeBoard) throws -> [String: Any] {
    let object = try JSONSerialization.jsonObject(with: Data(board.device.discovery(of: .battery)))
    return try #require((object as? [String: Any])?["device"] as? [String: Any])
  }

  /// A name that is known only after the first link, and blank names.
  @Test(
    arguments: [
      (nil, nil, "ring 70:CB:0D:00:A1:B2"), (" \u{A0}", "", "ring 70:CB:0D:00:A1:B2"),
      (nil, "H10\u{1B}[2J\u{202E}\"", "H10\u{FFFD}[2J\u{FFFD}\""), ("R02", "H10", "R02"),
    ] as [(String?, String?, String)]) func names(_ name: String?, _ model: String?, _ shown: String) throws
  {
    var board = HomeBoard(try Self.device(name))
    var facts = SensorFacts()
    facts.texts[.modelNumber] = model
    board.note(facts, Self.at(0))
    #expect(try Self.block(board)["name"] as? String == shown)
  }

  // MARK: Values from rows and frames

  private static func feed<Tables: SampleTables>(
    _ tables: Tables, _ samples: [Tables.Sample]
  ) throws -> HomeFeed {
    let feed = HomeFeed(try device())
    var tables = tables
    try withFolder { folder in
      var files = try RecordingFiles(in: folder, tables.tables, log: nil, live: feed)
      feed.begin()
      for sample in samples { tables.append(sample, to: &files) }
    }
    return feed
  }

  /// The last state of each entity.
  private static func states(_ feed: HomeFeed) -> [String: String] {
    let sent = feed.withBoard { board in
      var board = board
      return Self.sent(&board, Double(SystemClock.monotonic().nanoseconds) / Double(Self.second))
    }
    return sent.reduce(into: [:]) { states, line in
      let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
      if parts.count == 2 { states[String(parts[0].split(separator: "/")[3])] = parts[1] }
    }
  }

  /// Flags 0x16: contact supported and detected, with intervals; 0x14: not detected; 0x0E: an energy of
  /// 0x0102 kJ. Heart Rate Service 1.0, 3.1.1.
  @Test func readsAStrap() throws {
    func samples(_ values: [UInt8]...) throws -> [HeartRateSample] {
      try values.map { try HeartRateSample(decoding: $0.span, at: ReceiveTime(nanoseconds: Self.second)) }
    }
    var feed = try Self.feed(HeartRateTables(), samples([0x0E, 72, 0x02, 0x01], [0x16, 73, 0x00, 0x04]))
    #expect(
      Self.states(feed) == ["availability": "online", "heart_rate": "73", "worn": "ON", "energy": "258"])
    feed = try Self.feed(HeartRateTables(), samples([0x16, 72, 0x00, 0x04], [0x14, 72, 0x00, 0x04]))
    #expect(Self.states(feed) == ["availability": "online", "heart_rate": "None", "worn": "OFF"])
    // A sensor that does not report contact and has no rate yet.
    feed = try Self.feed(HeartRateTables(), samples([0x00, 0]))
    #expect(Self.states(feed).isEmpty || Self.states(feed) == ["availability": "online"])
  }

  /// Fields and quality levels: CoreTemp BLE Service Specification 2.2, 3.1.
  @Test func readsATemperature() throws {
    func sample(_ core: CoreBodyTemperature.Reading, quality: UInt8) -> TemperatureSample {
      let value = CoreBodyTemperature(
        core: core, skinHundredths: 3312, quality: .init(rawValue: quality), heartRate: 0)
      return TemperatureSample(.core(value), at: ReceiveTime(nanoseconds: Self.second))
    }
    let good = sample(.temperature(hundredths: 3712), quality: 3)
    var states = Self.states(try Self.feed(TemperatureTables(), [good]))
    #expect(
      states == [
        "availability": "online", "body_temperature": "37.12", "skin_temperature": "33.12",
        "temperature_quality": "good", "worn": "ON",
      ])
    // Marked invalid by the sensor.
    let invalid = sample(.temperature(hundredths: 3712), quality: 0)
    states = Self.states(try Self.feed(TemperatureTables(), [good, invalid]))
    #expect(states["body_temperature"] == "None" && states["skin_temperature"] == "None")
    #expect(states["temperature_quality"] == "invalid")
    states = Self.states(try Self.feed(TemperatureTables(), [good, sample(.none, quality: 1)]))
    #expect(states["body_temperature"] == "None" && states["worn"] == "OFF")
  }

  /// The link is lost while rows wait. Those rows are from before the loss and set no values afterwards.
  @Test func aLinkThatGoesBeforeItsRows() throws {
    let feed = HomeFeed(try Self.device())
    let gap = SessionGap(end: .linkLost(.silence), lostAt: ReceiveTime(nanoseconds: 5))
    func take(_ rate: Double) {
      let columns = HeartRateTables.tables[0].columns
      let words = [1, rate.bitPattern, TableCell.missingNumber, TableCell.missingNumber]
      feed.take(WordCells(columns: columns, words: words), 0)
    }
    feed.open(HeartRateTables.tables)
    feed.begin()
    feed.beginTurn()
    take(72)
    feed.take(gap, .lost)
    feed.endTurn()
    #expect(Self.states(feed) == ["availability": "online", "heart_rate": "72"])
    feed.beginTurn()
    take(73)
    feed.endTurn()
    #expect(Self.states(feed) == ["availability": "offline", "heart_rate": "None"])
    feed.take(gap, .back)
    feed.beginTurn()
    take(74)
    feed.endTurn()
    #expect(Self.states(feed) == ["availability": "online", "heart_rate": "74"])
    feed.end("interrupted", lost: 0)
    #expect(Self.states(feed) == ["availability": "offline", "heart_rate": "None"])
  }

  /// Unsolicited frames from real rings.
  @Test func readsARing() throws {
    let feed = HomeFeed(try Self.device())
    feed.begin()
    for name in ["evt-battery-21", "evt-live-activity-3055", "evt-battery-100-charging"] {
      for packet in RingProtocolVector.named(name).packets {
        let pdu = [0x1B, 0x10, 0x00] + packet
        feed.take(pdu.span)
      }
    }
    #expect(
      Self.states(feed) == [
        "availability": "online", "battery": "100", "charging": "ON", "steps": "3055", "calories": "139.8",
        "distance": "1999",
      ])
  }
}
