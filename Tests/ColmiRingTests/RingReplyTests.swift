import BLEWire
import ColmiRing
import TestKit
import Testing

@Suite struct RingReplyTests {
  private func reply(_ digits: String) throws -> RingReply {
    let start = octetsOf(digits)
    let octets = (start + [UInt8](repeating: 0, count: 16 - start.count)).resummed
    let frame = try RingFrame(validating: octets.span)
    return try RingReply(decoding: frame)
  }

  /// Section 2: a refusal has bit 7 set; three opcodes have it set in normal replies.
  @Test func tellsRefusals() throws {
    #expect(try reply("86 ee") == .refused(opcode: 0x06, code: 0xEE))
    #expect(try reply("9e ee") == .refused(opcode: 0x1E, code: 0xEE))
    #expect(try reply("95 01") == .refused(opcode: 0x15, code: 1))
    #expect(try reply("a1 ee") == .refused(opcode: 0x21, code: 0xEE))
    #expect(try reply("a1 05") == .raw(.unknown(subtype: 5)))
    guard case .unknown(let reset) = try reply("ff 66 66") else {
      Issue.record("a reset is no refusal")
      return
    }
    #expect(reset.octet(0) == 0xFF)
  }

  @Test(arguments: RingLogKind.allCases)
  func tellsThatThereIsNoData(_ kind: RingLogKind) throws {
    let opcode = String(kind.rawValue, radix: 16)
    #expect(try reply(opcode + "ff") == .noData(kind))
    #expect(try reply(opcode + "00") == .log(kind))
  }

  /// An RT11CR's capture in section 3, 0x3C, and an R02's reply to 0x01.
  @Test func readsCapabilities() throws {
    #expect(try reply("3c 00 8c 27 00 28 80") == .deviceSupport(.bond))
    #expect(try reply("3c 00 00 00 00 00 00 00 00 80") == .deviceSupport(.intervalTemperature))
    guard case .time(let r02) = try reply("01 00 01 00 22 00 00 00 00 01 00 30 01 00 10") else {
      Issue.record("no reply to setting the time")
      return
    }
    #expect(
      r02.capabilities == [
        .plate, .bloodOxygen, .weather, .newSleepProtocol, .jieLiMusic, .manualHeartRate, .stress,
        RingCapabilities(rawValue: 1 << 13),
      ])
    #expect(r02.maximumContacts == 20)
  }

  /// Each bit of the layout table of section 3, 0x01.
  @Test(
    arguments: [
      ("01 01", .temperature), ("01 00 01", .plate), ("01 00 00 01", .menstruation),
      ("01 00 00 00 01", .customWallpaper), ("01 00 00 00 02", .bloodOxygen),
      ("01 00 00 00 04", .bloodPressure),
      ("01 00 00 00 10", .oneKeyCheck), ("01 00 00 00 80", .avatar),
      ("01 00 00 00 00 00 00 00 00 01", .newSleepProtocol),
      ("01 00 00 00 00 00 00 00 00 00 00 01", .contacts), ("01 00 00 00 00 00 00 00 00 00 00 08", .gps),
      ("01 00 00 00 00 00 00 00 00 00 00 00 01", .manualHeartRate),
      ("01 00 00 00 00 00 00 00 00 00 00 00 80", .bloodSugar),
      ("01 00 00 00 00 00 00 00 00 00 00 00 00 00 02", .bloodPressureSettings),
      ("01 00 00 00 00 00 00 00 00 00 00 00 00 00 20", .heartRateVariability),
    ] as [(String, RingCapabilities)])
  func readsEachCapability(_ digits: String, _ capability: RingCapabilities) throws {
    guard case .time(let reply) = try reply(digits) else {
      Issue.record("no reply to setting the time")
      return
    }
    #expect(reply.capabilities == capability)
  }

  /// Section 3, 0x78: 65 seconds of running at 150 beats/min, 300 steps, 70,000 m.
  @Test func readsAWorkout() throws {
    guard case .sport(let sample) = try reply("78 07 01 00 41 96 00 00 05 00 01 2c 01 11 70") else {
      Issue.record("no workout")
      return
    }
    #expect(sample.sport == .run)
    #expect([sample.seconds, UInt16(sample.heartRate)] == [65, 150])
    #expect([sample.calories, sample.steps, sample.distanceMeters] == [5, 300, 70_000])
  }

  @Test func refusesASwitchWithoutAnAction() {
    #expect(throws: WireError(.ring, offset: 1, .invalidValue(7))) { try reply("36 07") }
    #expect(throws: WireError(.ring, offset: 2, .invalidValue(0))) { try reply("3a 03") }
  }

  @Test(arguments: RingRequestVector.of("ring->host", "uart").filter { $0.expect.kind != "invalid" })
  func refusesEveryTruncation(_ vector: RingRequestVector) {
    let octets = vector.frames[0]
    for count in 0..<octets.count {
      #expect(throws: WireError(.ring, offset: 0, .lengthMismatch(claimed: 16, available: count))) {
        _ = try RingReply(decoding: RingFrame(validating: octets.span.extracting(first: count)))
      }
    }
  }

  /// Any reply with a correct checksum: only bit 7 marks a refusal, and only switches have invalid forms.
  @Test(arguments: RingRequestVector.of("ring->host", "uart").filter { $0.expect.kind != "invalid" })
  func readsEveryOctetAtEveryPlace(_ vector: RingRequestVector) {
    // Collected first, because an expectation is slower than the check itself.
    var wrong: [[UInt8]] = []
    for octets in everyOctetAtEveryPlace(of: vector.frames[0], count: 15).map(\.resummed) {
      do throws(WireError) {
        let reply = try RingReply(decoding: RingFrame(validating: octets.span))
        let isRefusal = if case .refused = reply { true } else { false }
        let isByNature = [0xA1, 0xBC, 0xFF].contains(octets[0])
        if isRefusal != (octets[0] >= 0x80 && (!isByNature || octets[1] == 0xEE)) { wrong.append(octets) }
      } catch {
        if ![0x2C, 0x36, 0x38, 0x3A].contains(octets[0]) { wrong.append(octets) }
      }
    }
    #expect(wrong.isEmpty)
  }
}
