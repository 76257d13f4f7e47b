import BLEWire
import ColmiRing
import TestKit
import Testing

@Suite struct RingBigDataTests {
  /// The check value of CRC-16/MODBUS, and the value for an empty message.
  @Test func sumsAsTheCatalogueSays() {
    let digits = Array("123456789".utf8)
    #expect(RingBigData.checksum(of: digits.span) == 0x4B37)
    let nothing: [UInt8] = []
    #expect(RingBigData.checksum(of: nothing.span) == 0xFFFF)
  }

  @Test(arguments: RingRequestVector.of("host->ring", "bigdata"))
  func encodesAndReadsWhatHostsSent(_ vector: RingRequestVector) throws {
    let expect = vector.expect
    let message: RingBigData
    switch expect.kind {
    case "dfuStart": message = RingFirmwareRequest.start.message
    case "dfuInit": message = RingFirmwareRequest.initialise(try image(expect)).message
    default:
      let payload = octetsOf(try #require(expect.payload))
      let id = try #require(expect.dataId)
      let request = try #require(RingBigDataRequest(RingBigData(id: id, payload: payload)))
      message = request.message
    }
    #expect([octets(of: message)] == vector.frames)
    let octets = vector.frames[0]
    let parsed = try RingBigData(parsing: octets.span)
    #expect(parsed == message)
    #expect((RingFirmwareRequest(parsed) != nil) == expect.kind.hasPrefix("dfu"))
  }

  /// From the image itself if the vector contains it.
  private func image(_ expect: RingRequestVector.Expectation) throws -> RingFirmwareImage {
    let type = try #require(expect.initType)
    let sums = try [#require(expect.fileCrc16), #require(expect.fileSum16)].map {
      try #require(UInt16($0.dropFirst(2), radix: 16))
    }
    let told = RingFirmwareImage(
      type: type, byteCount: try #require(expect.length), checksum: sums[0], sum: sums[1])
    if let digits = expect.image {
      let octets = octetsOf(digits)
      #expect(RingFirmwareImage(type: type, image: octets.span) == told)
    }
    return told
  }

  /// Sections 4.1 and 4.4 of the protocol.
  @Test(
    arguments: [
      (.sleepLog(.day(daysAgo: 0)), 0x27, "00 01"), (.sleepLog(.plain), 0x27, ""), (.spO2(.all), 0x2A, "ff"),
      (.temperature(days: 6), 0x25, "06"), (.manualHeartRate(daysAgo: 0), 0x28, "00"), (.beginSync, 0x30, ""),
      (.lastSync(timestamp: 0x0102_0304), 0x41, "04 03 02 01"),
      (.intervalTemperature(daysAgo: 3, packet: 2), 0x77, "03 02"),
    ] as [(RingBigDataRequest, UInt8, String)])
  func encodesWhatTheReferenceSays(_ request: RingBigDataRequest, id: UInt8, payload: String) {
    let message = request.message
    #expect(message.id == id)
    #expect(message.payload == octetsOf(payload))
    #expect(RingBigDataRequest(message) == request)
  }

  @Test func takesNoOtherForms() {
    for (id, payload) in [(0x27, [1]), (0x27, [1, 2]), (0x25, []), (0x41, [1]), (0x99, [])]
      as [(UInt8, [UInt8])]
    {
      #expect(RingBigDataRequest(RingBigData(id: id, payload: payload)) == nil)
    }
    #expect(RingFirmwareRequest(RingBigData(id: 2, payload: [1])) == nil)
  }

  @Test(arguments: RingRequestVector.of("ring->host", "bigdata").filter { $0.packets.count == 1 })
  func refusesEveryTruncation(_ vector: RingRequestVector) throws {
    let octets = vector.frames[0]
    #expect(throws: RingBigDataError.notBigData(octet: nil)) {
      try RingBigData(parsing: octets.span.extracting(first: 0))
    }
    for count in 1..<octets.count {
      #expect(throws: RingBigDataError.self) {
        try RingBigData(parsing: octets.span.extracting(first: count))
      }
    }
    let long = octets + [0]
    #expect(throws: RingBigDataError.length(claimed: octets.count, available: long.count)) {
      try RingBigData(parsing: long.span)
    }
  }

  /// Truncated payloads with a correct checksum.
  @Test(arguments: ["sleep-rt11cr-2-records", "nap-rt11cr", "spo2-rt11cr-3-days", "manual-hr-rt11cr"])
  func refusesEveryTruncatedPayload(_ name: String) throws {
    let octets = try RingRequestVector.named(name).frames[0]
    let whole = try RingBigData(parsing: octets.span)
    // Lengths at which the truncated payload is valid again: after blocks of blood oxygen, and after the only
    // day without a heart rate.
    let complete: Set<Int> =
      switch name {
      case "spo2-rt11cr-3-days": [0, 49, 98]
      case "manual-hr-rt11cr": [1]
      default: []
      }
    for count in 0..<whole.payload.count {
      let message = RingBigData(id: whole.id, payload: Array(whole.payload.prefix(count)))
      let error = Result { try RingBigDataReply(decoding: message) }
      switch error {
      case .success: #expect(complete.contains(count), "\(count) octets")
      case .failure(let error):
        #expect(!complete.contains(count), "\(count) octets")
        #expect((error as? WireError)?.offset == 6 + count)
      }
    }
  }

  @Test(arguments: [
    "sleep-rt11cr-2-records", "nap-rt11cr", "spo2-rt11cr-3-days", "manual-hr-rt11cr", "sleep-empty",
  ])
  func readsEveryOctetAtEveryPlace(_ name: String) throws {
    let octets = try RingRequestVector.named(name).frames[0]
    let whole = try RingBigData(parsing: octets.span)
    // Collected first, because an expectation is slower than the check itself.
    var wrong: [[UInt8]] = []
    for payload in everyOctetAtEveryPlace(of: whole.payload, count: whole.payload.count) {
      let message = RingBigData(id: whole.id, payload: payload)
      do {
        let reply = try RingBigDataReply(decoding: message)
        if case .sleepLog(let records) = reply, records.count != Int(payload[0]) { wrong.append(payload) }
      } catch {
        // Only records contain lengths.
        if whole.id != 0x27, whole.id != 0x3E { wrong.append(payload) }
      }
    }
    #expect(wrong.isEmpty)
  }

  @Test func refusesRecordsOfOddLength() {
    let message = RingBigData(id: 0x27, payload: [1, 0, 5, 0, 0, 0, 0, 0])
    #expect(throws: WireError(.ring, offset: 8, .invalidValue(5))) { try RingBigDataReply(decoding: message) }
  }

  @Test func beginsANightOnTheDayBefore() throws {
    let octets = try RingRequestVector.named("sleep-ringcli-sample").frames[0]
    let message = try RingBigData(parsing: octets.span)
    #expect(!message.isChecksumValid)
    guard case .sleepLog(let records) = try RingBigDataReply(decoding: message) else {
      Issue.record("no sleep")
      return
    }
    #expect(records[0].startMinuteOfEndDay == 1399 - 1440)
    // The minutes are those of the sample, 498.
    #expect(Int(records[0].endMinute) - records[0].startMinuteOfEndDay == records[0].stageMinutes)
  }

  /// Blocks as three published clients read them: 150 is 35.0 °C, unsigned.
  @Test func readsTemperatures() throws {
    var block: [UInt8] = [1, 30] + [UInt8](repeating: 0, count: 48)
    block[2] = 150
    block[2 + 47] = 255
    let message = RingBigData(id: 0x25, payload: block + [0, 30] + [UInt8](repeating: 0, count: 48))
    guard case .temperature(let days) = try RingBigDataReply(decoding: message) else {
      Issue.record("no temperatures")
      return
    }
    #expect(days.map(\.daysAgo) == [1, 0])
    #expect(
      days[0].readings == [
        RingTemperatureDay.Reading(minute: 0, celsius: 35),
        RingTemperatureDay.Reading(minute: 1410, celsius: 45.5),
      ])
    #expect(days[1].readings.isEmpty)
    let short = RingBigData(id: 0x25, payload: Array(block.dropLast()))
    #expect(throws: WireError(.ring, offset: 55, .truncated(needed: 50, available: 49))) {
      try RingBigDataReply(decoding: short)
    }
  }

  @Test func keepsUnknownMessages() throws {
    let message = RingBigData(id: 0x99, payload: [1, 2])
    #expect(try RingBigDataReply(decoding: message) == .unknown(message))
    #expect(try RingBigDataReply(decoding: RingBigData(id: 0x42, payload: [0])) == .status(id: 0x42, code: 0))
    #expect(throws: WireError.self) { try RingBigDataReply(decoding: RingBigData(id: 0x42)) }
  }
}

@Suite struct RingIntervalTemperatureTests {
  private func packet(_ digits: String) throws -> RingIntervalTemperaturePacket {
    let message = RingBigData(id: 0x77, payload: octetsOf(digits))
    guard case .intervalTemperature(let packet) = try RingBigDataReply(decoding: message) else {
      throw NoPacket()
    }
    return packet
  }

  private struct NoPacket: Error {}

  /// 3626 is 36.26 °C, as in a published fixture.
  @Test func putsADayTogether() throws {
    var assembler = RingIntervalTemperatureAssembler(daysAgo: 1)
    #expect(assembler.nextPacket == 0)
    let late = assembler.receive(try packet("01 3c 02 01 2a 0e"))
    #expect(late == .incomplete)
    #expect(assembler.nextPacket == 0)
    let again = assembler.receive(try packet("01 3c 02 01 2a 0e"))
    #expect(again == .repeated)
    guard case .complete(let log) = assembler.receive(try packet("01 3c 02 00 00 00 2a 0e")) else {
      Issue.record("both packets are there")
      return
    }
    #expect(assembler.nextPacket == nil)
    #expect(
      log.readings == [
        RingTemperatureDay.Reading(minute: 60, celsius: 36.26),
        RingTemperatureDay.Reading(minute: 120, celsius: 36.26),
      ])
  }

  @Test func leavesOutWhatHasNoTime() throws {
    var assembler = RingIntervalTemperatureAssembler(daysAgo: 0)
    _ = assembler.receive(try packet("00 1e 03 00 2a 0e"))
    _ = assembler.receive(try packet("00 1e 03 02 2a 0e"))
    let partial = assembler.finish()
    let log = try #require(partial)
    #expect(log.missingPackets == [1])
    #expect(log.readings == [RingTemperatureDay.Reading(minute: 0, celsius: 36.26)])
  }

  @Test func refusesContradictions() throws {
    var assembler = RingIntervalTemperatureAssembler(daysAgo: 2)
    let steps = try [
      "00 1e 02 00", "02 00 02 00", "02 1e 02 02", "02 1e 00 00", "02 1e 02 00 2a 0e", "02 1e 03 01",
      "02 3c 02 01",
    ].map { assembler.receive(try packet($0)) }
    #expect(
      steps == [
        .rejected(.otherDay(.daysAgo(0))), .rejected(.interval(0)), .rejected(.index(2, count: 2)),
        .rejected(.index(0, count: 0)), .incomplete, .rejected(.recordCount(3, announced: 2)),
        .rejected(.interval(60)),
      ])
    #expect(assembler.counters.rejected == 6)
  }

  @Test(arguments: ["", "01", "01 1e", "01 1e 01", "01 1e 01 00 2a"])
  func refusesTruncations(_ digits: String) {
    #expect(throws: WireError.self) { try packet(digits) }
  }
}

/// The bytes of a message to send.
func octets(of message: RingBigData) -> [UInt8] {
  [UInt8](encoding: message.byteCount) { message.encode(into: &$0) }
}
