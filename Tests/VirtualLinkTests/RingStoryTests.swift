import BLEEmulation
import BLEPacketLog
import BLEWire
import ColmiRing
import Foundation
import Recording
import TestKit
import Testing

@testable import SensorSessions

/// A ring's history extracted from recorded packets.
@Suite(.timeLimit(.minutes(2))) struct RingStoryTests {
  private static let capture = Place.shared("captures/colmi-r12-qring-sync.btsnoop")

  /// A value with the protocol's channel and direction.
  private struct Value {
    let octets: [UInt8]
    let channel: RingTranscript.Channel
    let direction: RingTranscript.Direction
    let time: ReceiveTime

    init(
      _ hex: String, _ channel: RingTranscript.Channel = .uart,
      _ direction: RingTranscript.Direction = .ringToHost, at seconds: Double = 0
    ) {
      octets = octetsOf(hex)
      (self.channel, self.direction) = (channel, direction)
      time = ReceiveTime(nanoseconds: 1_765_493_657_000_000_000 + Int64(seconds * 1_000_000_000))
    }

    /// `nil` unless it is a write to, or a notification of, one of these handles.
    init?(_ record: borrowing PacketRecord, _ handles: [(UInt16, RingTranscript.Channel)]) {
      let packet = record.packet
      guard record.type == .acl, packet.count > 11, packet.u16(at: 6) == 4,
        [0x12, 0x52, 0x1B].contains(packet[8]),
        let channel = handles.first(where: { $0.0 == packet.u16(at: 9) })?.1
      else { return nil }
      octets = (11..<packet.count).map { packet[$0] }
      direction = packet[8] == 0x1B ? .ringToHost : .hostToRing
      (self.channel, time) = (channel, record.time)
    }
  }

  private static func values(_ path: String, _ handles: [(UInt16, RingTranscript.Channel)]) throws -> [Value]
  {
    let octets = [UInt8](try Data(contentsOf: URL(filePath: path)))
    var reader = PacketLogReader()
    var values: [Value] = []
    try reader.read(octets.span) { record in Value(record, handles).map { values.append($0) } }
    try reader.finish()
    return values
  }

  private static func story(
    _ values: [Value], _ calendar: RingCalendar? = .utc
  ) throws -> (story: RingStory, messages: [[String: Any]]) {
    let lines = Lines()
    var story = RingStory(calendar: calendar) { lines.append($0) }
    for value in values {
      story.take(value.octets.span, channel: value.channel, direction: value.direction, at: value.time)
    }
    story.finish()
    return (story, try lines.objects())
  }

  private final class Lines {
    private var octets: [UInt8] = []
    func append(_ line: Span<UInt8>) { octets += line.indices.map { line[$0] } }
    func objects() throws -> [[String: Any]] {
      try octets.split(separator: UInt8(ascii: "\n")).map {
        try #require(try JSONSerialization.jsonObject(with: Data($0)) as? [String: Any])
      }
    }
  }

  private static func table(_ folder: String, _ name: String) throws -> [String] {
    try String(contentsOfFile: "\(folder)/\(name).csv", encoding: .utf8).split(separator: "\n").map(
      String.init)
  }

  /// Handles from the reference, 1.2; the emulated ring has the same.
  private static let handles: [(UInt16, RingTranscript.Channel)] = [
    (0x0010, .uart), (0x0012, .uart), (0x0016, .bigData), (0x0018, .bigData),
  ]

  // MARK: The capture

  /// Every value in the QRing app's log of an R12. An independent program counted the first bytes, and the
  /// names are from the protocol's reference.
  @Test(.enabled(if: capture != nil, Place.noShared)) func readsAllOfTheCapture() throws {
    let values = try Self.values(#require(Self.capture), Self.handles)
    #expect(values.count == 243)
    let counts = try Self.story(values, nil).story.counts
    #expect(counts.values == 243)
    #expect(
      counts.frames == [
        // 0x01, 0x2F, 0x04, 0x3C, 0x61, 0x03, 0x16.
        "setTime": 1, "setTimeResponse": 1, "packetSize": 1, "phoneName": 1, "phoneNameAck": 1,
        "deviceSupportRequest": 1, "deviceSupport": 1, "messageFilterRead": 1, "messageFilter": 1,
        "batteryRequest": 1, "battery": 1, "hrLogSettingsRead": 1, "hrLogSettings": 1,
        // 0x38, 0x0A, 0x06, 0x86, 0x3B, 0x36, 0x2C.
        "hrvSettingsRead": 1, "hrvSettings": 1, "userPreferencesRead": 1, "userPreferences": 1,
        "userPreferencesWrite": 1, "userPreferencesWriteAck": 1, "doNotDisturbSettingsRead": 1, "error": 1,
        "touchSettingsRead": 2, "touchSettings": 2, "stressSettingsRead": 1, "stressSettings": 1,
        "spo2SettingsRead": 1, "spo2Settings": 1,
        // 0x0C, 0x05, 0x19, 0x3A, 0x21, 0x2B.
        "bloodPressureScheduleSettingsRead": 1, "bloodPressureScheduleSettings": 1, "displaySettingsRead": 1,
        "displaySettings": 1, "unitsSettingsRead": 1, "unitsSettings": 1, "temperatureSettingsRead": 1,
        "temperatureSettings": 1, "goalsRead": 1, "goals": 1, "menstruationSettingsWrite": 1,
        "menstruationSettings": 1,
        // 0x48, and the requests and responses for logs: 0x43, 0x37, 0x39, 0x7A, 0x15.
        "todayTotalsRequest": 10, "todayTotals": 10, "activityRequest": 3, "stressLogRequest": 3,
        "hrvLogRequest": 3, "unnamedLogRequest": 3, "heartRateLogRequest": 3,
      ])
    #expect(
      counts.logFrames
        == [.heartRate: 72, .stress: 15, .heartRateVariability: 15, .activity: 15, .unnamed: 15])
    #expect(
      counts.logs == [
        "heartRateLog": 3, "stressLog": 3, "hrvLog": 3, "activityLog": 3, "unnamedLog": 3,
      ])
    // 0x27, 0x28, 0x2A, 0x30, 0x41 three times each, 0x4A; the ring's 0x27, 0x28, 0x2A, 0x3E, and 0x30, 0x42,
    // 0x4A.
    #expect(
      counts.messages == [
        "bigDataRequest": 16, "sleep": 3, "manualHeartRate": 3, "spo2Log": 3, "nap": 3, "bigDataStatus": 7,
      ])
    #expect(counts.unknown.isEmpty && counts.invalid.isEmpty)
    #expect(counts.pieces == 0 && counts.incompleteLogs == 0 && counts.undatedLogs == 0)
  }

  /// The values were read from the bytes by hand and by an independent program. The host sets the ring's
  /// clock an hour ahead of the log's, to 10:16.
  @Test(.enabled(if: capture != nil, Place.noShared)) func findsTheHistoryOfTheCapture() throws {
    // 2025-12-15T00:00:00+01:00.
    func at(_ minute: Int, day: Int = 15) -> String {
      String((1_765_753_200 + (day - 15) * 86_400 + minute * 60) * 1_000_000_000)
    }
    func rows(_ cells: [(Int, String)]) -> [String] { cells.map { "\(at($0.0)),\($0.1)" } }
    let (story, messages) = try Self.story(
      Self.values(#require(Self.capture), Self.handles), nil)
    #expect(story.clockOffset == 3600)
    try withFolder { folder in
      let written = try story.write(in: folder)
      #expect(written.map(\.rows) == [37, 4, 18, 9, 29, 13, 0, 1, 0])
      let halfHours: [Int: Int] = [
        0: 73, 30: 80, 60: 76, 90: 79, 120: 53, 150: 52, 180: 53, 210: 55, 240: 69, 270: 56, 300: 59,
        330: 56, 360: 65, 390: 80,
      ]
      let worn = [
        74, 83, 101, 72, 65, 81, 82, 75, 95, 85, 73, 80, 62, 73, 83, 81, 82, 77, 77, 68, 77, 103, 82,
      ]
      let heartRates =
        halfHours.sorted { $0.key < $1.key }.map { ($0.key, "log,\($0.value)") }
        + worn.enumerated().map { (505 + 5 * $0.offset, "log,\($0.element)") }
      #expect(
        try Self.table(folder, "heart-rate") == ["time_ns,source,beats_per_minute"] + rows(heartRates))
      #expect(
        try Self.table(folder, "steps")
          == ["time_ns,steps,distance_m,calories_cal"]
          + rows([(360, "37,20,990"), (420, "115,90,4350"), (480, "146,100,4820"), (540, "836,639,30830")]))
      let stress = [
        (0, 40), (30, 42), (60, 48), (90, 35), (120, 43), (150, 45), (180, 31), (210, 33), (240, 34),
        (270, 36), (300, 30), (330, 34), (360, 37), (390, 31), (510, 44), (540, 36), (570, 33), (600, 36),
      ]
      #expect(try Self.table(folder, "stress") == ["time_ns,stress"] + rows(stress.map { ($0, "\($1)") }))
      let variability = [
        (0, 42), (60, 41), (120, 39), (180, 41), (240, 41), (300, 32), (360, 33), (540, 46), (600, 43),
      ]
      #expect(
        try Self.table(folder, "hrv") == ["time_ns,hrv_ms"] + rows(variability.map { ($0, "\($1)") }))
      let yesterday = [97, 98, 98, 96, 99, 96, 98, 98, 98, 97, 99, 96, 97, 97, 96, 96, 98, 99, 97, 97]
      let today = [(0, 98), (1, 99), (2, 98), (3, 96), (4, 99), (5, 96), (6, 97), (8, 99), (9, 99)]
      let oxygen =
        yesterday.enumerated().map { ((4 + $0.offset) * 60 - 1440, $0.element) } + today.map { ($0 * 60, $1) }
      #expect(
        try Self.table(folder, "spo2")
          == ["time_ns,minimum_percent,maximum_percent"] + rows(oxygen.map { ($0, "\($1),\($1)") }))
      // From 01:28 to 06:45.
      let stages = [
        (88, "night,26,light"), (114, "night,28,deep"), (142, "night,19,light"), (161, "night,24,deep"),
        (185, "night,24,light"), (209, "night,18,rem"), (227, "night,38,light"), (265, "night,37,deep"),
        (302, "night,7,rem"), (309, "night,12,awake"), (321, "night,45,light"), (366, "night,22,deep"),
        (388, "night,17,light"),
      ]
      #expect(try Self.table(folder, "sleep") == ["time_ns,kind,minutes,stage"] + rows(stages))
      #expect(try Self.table(folder, "temperature") == ["time_ns,celsius"])
      #expect(
        try Self.table(folder, "battery") == ["time_ns,level_percent,charging", "1765790192277319000,96,0"])
    }
    // 132 frames form 15 logs; the first message is the host's time.
    #expect(messages.count == 243 - 132 + 15)
    #expect(messages.first?["timeNs"] as? String == "1765790191601331000")
    #expect(messages.first?["direction"] as? String == "host->ring")
    #expect(messages.first?["hour"] as? Int == 10)
    let totals = messages.filter { $0["kind"] as? String == "todayTotals" }
    #expect(totals.allSatisfy { $0["steps"] as? Int == 1134 && $0["durationMinutes"] as? Int == 27 })
  }

  // MARK: The emulated ring

  /// The history from a packet log equals the tables that `ring sync` made of the same replies.
  @Test func makesTheTablesOfASync() async throws {
    try await withFolder { folder in
      let log = try await PacketLogFile.start(folder + "/hci.btsnoop")
      var ring = quietRing()
      ring.history = RingHistory()
      ring.features = .all
      ring.clock = try storedRingClock()
      try await withConversation(
        ring.address, peripherals: { [ring] in [EmulatedRing(ring)] }, wrap: { log.capturing($0) }
      ) { conversation in
        let now = try storedRingClock()
        let outcomes = try await RingSync(
          conversation, calendar: .utc, now: now, since: nil, directory: folder + "/sync"
        ).run { _ in }
        #expect(outcomes.allSatisfy { $0.rows > 0 && $0.note == nil })
      }
      #expect(await log.finish().lost == 0)
      let values = try Self.values(folder + "/hci.btsnoop", Self.handles)
      #expect(values.count > 300)
      let story = try Self.story(values).story
      try FileManager.default.createDirectory(
        atPath: folder + "/story", withIntermediateDirectories: false)
      _ = try story.write(in: folder + "/story")
      for kind in RingHistoryKind.allCases {
        let expected = try Data(contentsOf: URL(filePath: "\(folder)/sync/\(kind.fileName)"))
        let made = try Data(contentsOf: URL(filePath: "\(folder)/story/\(kind.fileName)"))
        #expect(made == expected, "\(kind.fileName)")
      }
      #expect(
        story.counts.incompleteLogs == 0 && story.counts.invalid.isEmpty && story.counts.unknown.isEmpty)
    }
  }

  // MARK: Measurements and pieces

  /// Frames from the reference's captures.
  @Test func keepsMeasurements() throws {
    let (story, _) = try Self.story([
      Value("69010000000000000000000000000000".resummed, at: 1),
      Value("690100560000c3020000000000000085", at: 2),
      Value("690300620100000000000000000000cf", at: 3),
      Value("690a002a000089030000000000000029", at: 4),
      Value("690800260000410300000000000000db", at: 5),
      Value("6901010000000000000000000000006b", at: 6),
      Value("6a0158000000000000000000000000c3", at: 7),
      Value("732c2f000000000000000000000000ce", at: 8),
      Value("730c64010000000000000000000000e4", at: 9),
      Value("034e0000000000000000000000000051", at: 10),
    ])
    let second = 1_765_493_657
    try withFolder { folder in
      _ = try story.write(in: folder)
      #expect(
        try Self.table(folder, "measurements") == [
          "time_ns,kind,value,unit,pulse_interval_ms,result",
          "\(second + 1)000000000,heart-rate,,bpm,,warming-up",
          "\(second + 2)000000000,heart-rate,86,bpm,707,value",
          "\(second + 3)000000000,spo2,98,percent,,value",
          "\(second + 4)000000000,hrv,42,ms,905,value",
          "\(second + 5)000000000,stress,38,,833,value",
          "\(second + 6)000000000,heart-rate,,bpm,,not-worn",
          "\(second + 7)000000000,heart-rate,88,bpm,,stopped",
          "\(second + 8)000000000,stress,47,,,stored",
        ])
      #expect(
        try Self.table(folder, "battery") == [
          "time_ns,level_percent,charging", "\(second + 9)000000000,100,1", "\(second + 10)000000000,78,0",
        ])
    }
  }

  private static let hrv = RingProtocolVector.named("hrv-rt11cr-20251211").packets.map { hexOf($0) }
  private static let stress = RingProtocolVector.named("stress-rt11cr-20251215").packets.map { hexOf($0) }
  private static let askHRV = "39000000000000000000000000000039"
  private static let activityNews = "73040000000000000000000000000077"

  /// Two interleaved logs, with unsolicited messages in between.
  @Test func readsLogsThroughEachOther() throws {
    var values: [Value] = []
    for (first, second) in zip(Self.hrv, Self.stress) {
      values += [Value(first), Value(Self.activityNews), Value(second)]
    }
    let counts = try Self.story(values).story.counts
    #expect(counts.logs == ["hrvLog": 1, "stressLog": 1])
    #expect(counts.frames == ["notification": 5])
    #expect(counts.incompleteLogs == 0 && counts.invalid.isEmpty)
  }

  /// A log lost one of its frames: this is reported, and the rows received are kept. In the vector, frame 1
  /// holds two values, frame 2 none, frame 3 five and frame 4 four.
  @Test(arguments: [(1, 9), (2, 11), (3, 6), (4, 7)]) func keepsWhatCame(_ lost: Int, _ rows: Int) throws {
    var frames = Self.hrv
    frames.remove(at: lost)
    let values =
      [Value(Self.askHRV, .uart, .hostToRing)] + frames.map { Value($0) } + Self.stress.map { Value($0) }
    let (story, messages) = try Self.story(values)
    #expect(story.counts.incompleteLogs == 1)
    #expect(story.counts.undatedLogs == 0)
    let log = try #require(messages.first { $0["kind"] as? String == "hrvLog" })
    #expect(log["complete"] as? Bool == false)
    try withFolder { folder in
      _ = try story.write(in: folder)
      #expect(try Self.table(folder, "hrv").count == 1 + rows)
      #expect(try Self.table(folder, "stress").count == 1 + 18)
    }
  }

  /// Without the header the meaning of a frame's slots is unknown.
  @Test func tellsOfALogWithoutItsHeader() throws {
    let (story, messages) = try Self.story(Self.hrv.dropFirst().map { Value($0) })
    #expect(story.counts.incompleteLogs == 1 && story.counts.logs.isEmpty)
    #expect(story.counts.logFrames == [.heartRateVariability: 4])
    let told = try #require(messages.last)
    #expect(told["kind"] as? String == "logFrames")
    #expect(told["frames"] as? Int == 4)
  }

  /// A log stops half-way and another of the same kind follows, with or without the header of either.
  @Test(arguments: [0, 1, 2]) func tellsLogsOfAKindApart(_ missing: Int) throws {
    let second = Self.hrv.dropFirst(missing)
    let values = Self.hrv.prefix(4).map { Value($0, at: 0) } + second.map { Value($0, at: 1) }
    let counts = try Self.story(values).story.counts
    #expect(counts.incompleteLogs == (missing == 0 ? 1 : 2))
    #expect(counts.logFrames == [.heartRateVariability: 9 - missing])
    #expect(counts.invalid.isEmpty)
  }

  /// After a silence a frame does not continue the earlier log, even if its number would fit.
  @Test func endsALogAfterASilence() throws {
    let values = Self.hrv.prefix(2).map { Value($0, at: 0) } + Self.hrv.suffix(3).map { Value($0, at: 60) }
    let (story, messages) = try Self.story(values)
    #expect(messages.map { $0["kind"] as? String } == ["hrvLog", "logFrames"])
    #expect(story.counts.incompleteLogs == 2)
  }

  /// Pieces of a message with frames of another channel between them; the rest of an incomplete message is
  /// not awaited.
  @Test func putsMessagesTogether() throws {
    let pieces = RingProtocolVector.named("reassembly-split-3").packets.map { hexOf($0) }
    var values: [Value] = []
    for piece in pieces { values += [Value(piece, .bigData), Value(Self.activityNews)] }
    values.append(Value(pieces[0], .bigData, at: 30))
    values += pieces.map { Value($0, .bigData, at: 60) }
    let (story, messages) = try Self.story(values)
    #expect(story.counts.messages == ["sleep": 2])
    #expect(story.counts.pieces == 5)
    #expect(messages.compactMap { $0["reason"] as? String } == ["length"])
    try withFolder { folder in
      _ = try story.write(in: folder)
      #expect(try Self.table(folder, "sleep").count == 1 + 13 + 10)
    }
  }

  /// The ring's clock decides which day is today: here the host set it to the evening before the log's own
  /// time.
  @Test func countsDaysByTheRingsClock() throws {
    let set = Value("01251211225415010000000000000000".resummed, .uart, .hostToRing, at: 3600 * 5)
    let values = [set] + Self.hrv.map { Value($0, at: 3600 * 5 + 1) }
    for (calendar, midnight) in [(RingCalendar.utc, 1_765_411_200), (nil, 1_765_429_200)] {
      let story = try Self.story(values, calendar).story
      try withFolder { folder in
        _ = try story.write(in: folder)
        #expect(try Self.table(folder, "hrv")[1] == "\(midnight)000000000,48")
      }
    }
  }

  @Test func countsWhatItDoesNotKnow() throws {
    let (story, messages) = try Self.story([
      Value("11220000000000000000000000000033"), Value("11220000000000000000000000000034"),
      Value("11000000000000000000000000000011", .uart, .hostToRing), Value("1122"),
      Value("bc990100bf4000", .bigData), Value("bc270100bf4100", .bigData), Value("0102", .bigData),
      Value("a103000c1f06fb0300000000000000d3"), Value("15000005000000000000000000000000".resummed),
    ])
    #expect(
      story.counts.unknown == [
        .init(channel: .uart, direction: .ringToHost, code: 0x11): 1,
        .init(channel: .uart, direction: .hostToRing, code: 0x11): 1,
        .init(channel: .bigData, direction: .ringToHost, code: 0x99): 1,
      ])
    #expect(story.counts.invalid == ["checksum": 2, "length": 1, "opcode": 1, "log": 1])
    #expect(story.counts.rawFrames == 1)
    #expect(story.counts.values == 9)
    #expect(messages.count == 7)
  }
}

extension String {
  /// A frame with its checksum as the last byte.
  fileprivate var resummed: String {
    var octets = octetsOf(self)
    octets[15] = octets[..<15].reduce(0, &+)
    return hexOf(octets)
  }
}
