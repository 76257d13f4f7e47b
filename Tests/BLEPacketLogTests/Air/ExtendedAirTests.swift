import BLEPacketLog
import BLEStack
import BLEWire
import TestKit
import Testing

/// Extended advertising on the air, whose data is spread over several packets: Core 5.4, Vol 6, Part B, 2.3.4
/// has the fields.
@Suite struct ExtendedAirTests {
  /// C4:12:34:56:78:9A, in wire order.
  private static let advertiser: [UInt8] = [0x9A, 0x78, 0x56, 0x34, 0x12, 0xC4]
  private static let other: [UInt8] = [0x01, 0x02, 0x03, 0x04, 0x05, 0xC6]
  private static let name: [UInt8] = [0x0C, 0x09] + Array("HW9 0012345".utf8)
  private static let company: [UInt8] = [0xFB, 0xFF, 0x59, 0x00] + (0..<248).map { UInt8($0) }
  private static let data: [UInt8] = [2, 1, 6] + name + [3, 3, 0x0D, 0x18] + company

  /// Fields of the extended header, in wire order.
  private struct Header {
    var mode: UInt8 = 0
    var advertiser: [UInt8]?
    var set: UInt8? = 1
    var number: UInt16 = 0xDF2
    /// Channel of the next packet, and microseconds until it.
    var next: (channel: UInt8, offset: UInt32)?
    var power: UInt8?

    func pdu(_ data: [UInt8] = []) -> [UInt8] {
      var flags: UInt8 = 0
      var fields: [UInt8] = []
      if let advertiser {
        flags |= 0x01
        fields += advertiser
      }
      if let set {
        flags |= 0x08
        let identifier = UInt16(set) << 12 | number
        fields += [UInt8(truncatingIfNeeded: identifier), UInt8(identifier >> 8)]
      }
      if let next {
        flags |= 0x10
        // Units of 30 µs on LE 2M up to 245.7 ms, and of 300 µs beyond.
        let isLong = next.offset > 245_700
        let bits =
          UInt32(next.channel) | (isLong ? 0x80 : 0) | (next.offset / (isLong ? 300 : 30)) << 8 | 1 << 21
        fields += little(bits).prefix(3)
      }
      if let power {
        flags |= 0x40
        fields.append(power)
      }
      let body = fields.isEmpty ? [] : [flags] + fields
      return [0x47, UInt8(1 + body.count + data.count), mode << 6 | UInt8(body.count)] + body + data
    }
  }

  private typealias Sent = (microseconds: UInt32, channel: UInt8, pdu: [UInt8])

  private func file(_ sent: [Sent], _ linkType: AirLinkType = .withHeader) -> [UInt8] {
    var file = AirSession.header(linkType.rawValue)
    for (microseconds, channel, pdu) in sent.sorted(by: { $0.microseconds < $1.microseconds }) {
      let packet = AirSession.Packet(
        microseconds: microseconds, channel: channel, isFromCentral: nil, event: 0,
        accessAddress: 0x8E89_BED6,
        pdu: pdu, crc: AirSession.crc(pdu), words: "")
      var frame = AirSession.frame(packet, linkType)
      // LE 2M.
      if linkType == .withHeader, channel < 37 { frame[9] |= 0x40 }
      file += AirSession.record(frame, microseconds)
    }
    return file
  }

  /// An event as Sniffle receives it from a Polar H10 or a Garmin watch: only the address is on the primary
  /// channels, and the data is in two packets after that.
  private func event(
    at start: UInt32, set: UInt8 = 1, advertiser: [UInt8]? = Self.advertiser, data: [UInt8] = Self.data,
    channels: (UInt8, UInt8) = (5, 6)
  ) -> [Sent] {
    var sent: [Sent] = []
    for (number, channel) in [37, 38, 39].enumerated() as EnumeratedSequence<[UInt8]> {
      let time = start + UInt32(number) * 400
      sent.append(
        (
          time, channel,
          Header(advertiser: advertiser, set: set, next: (channels.0, start + 2_000 - time)).pdu()
        ))
    }
    sent.append(
      (
        start + 2_000, channels.0,
        Header(set: set, next: (channels.1, 2_490), power: 8).pdu(Array(data.prefix(120)))
      ))
    sent.append((start + 4_490, channels.1, Header(set: set).pdu(Array(data.dropFirst(120)))))
    return sent
  }

  private struct Report: Hashable {
    var address: String
    var set: UInt8
    var data: [UInt8]
    var isTruncated: Bool
    var isScanResponse: Bool
    var power: Int8?
  }

  /// Reports that a host assembles from the translated events.
  private func reports(_ translation: Translation) -> [Report] {
    var assembler = AdvertisingReportAssembler()
    var reports: [Report] = []
    for record in translation.records where record.header.type == .event && record.packet[0] == 0x3E {
      guard let list = try? AdvertisingReports(validating: record.packet.span.extracting(2...)) else {
        continue
      }
      try? list.forEach { report in
        assembler.take(report) { whole in
          reports.append(
            Report(
              address: "\(whole.address)", set: whole.advertisingSet,
              data: whole.data.indices.map { whole.data[$0] },
              isTruncated: whole.properties.isTruncated, isScanResponse: whole.properties.isScanResponse,
              power: whole.txPower))
        }
      }
    }
    return reports
  }

  private static func whole(
    _ set: UInt8 = 1, _ data: [UInt8] = Self.data, _ address: String = "C4:12:34:56:78:9A"
  ) -> Report {
    Report(address: address, set: set, data: data, isTruncated: false, isScanResponse: false, power: 8)
  }

  /// Three events; as logged by an nRF sniffer, by Sniffle, and without channels.
  @Test(arguments: AirTranslationTests.linkTypes) func joinsAChain(_ linkType: AirLinkType) throws {
    let sent = [0, 100_000, 200_000].flatMap { event(at: $0) }
    let translation = Translation(file(sent, linkType))
    #expect(reports(translation) == [Self.whole(), Self.whole(), Self.whole()])
    let report = try #require(translation.report)
    #expect(report.joinedAdvertisements == 3 && report.incompleteAdvertisements == 0)
    if linkType != .bare {
      #expect(translation.pdus.count { $0 == "ADV_EXT_IND" } == 9)
    }
    #expect(translation.pdus.count { $0 == "AUX_CHAIN_IND" } == 3)
    #expect(report.links.isEmpty)
  }

  /// Simultaneous events of two sets of one device, and of two devices with the same set and number.
  @Test func keepsSetsAndDevicesApart() throws {
    let second = Self.data.map { $0 ^ 0x01 }
    let sets = event(at: 0) + event(at: 300, set: 2, data: second, channels: (5, 6))
    #expect(Set(reports(Translation(file(sets)))) == [Self.whole(), Self.whole(2, second)])
    let devices = event(at: 0) + event(at: 700, advertiser: Self.other, data: second, channels: (5, 6))
    #expect(
      Set(reports(Translation(file(devices)))) == [Self.whole(), Self.whole(1, second, "C6:05:04:03:02:01")])
  }

  /// A packet was missed: the rest is reported as truncated, and no packet of another event replaces it.
  @Test func tellsAnIncompleteChain() throws {
    let chainMissed = event(at: 0).dropLast() + event(at: 100_000)
    let translation = Translation(file(Array(chainMissed)))
    var cut = Self.whole()
    cut.data = Array(Self.data.prefix(120))
    cut.isTruncated = true
    #expect(reports(translation) == [cut, Self.whole()])
    #expect(
      translation.report?.joinedAdvertisements == 1 && translation.report?.incompleteAdvertisements == 1)
    // The end of the log also ends an event.
    let atEnd = Translation(file(Array(event(at: 0).dropLast())))
    #expect(reports(atEnd) == [cut] && atEnd.report?.incompleteAdvertisements == 1)
    // Without the middle packet nothing links the last one to its event.
    var middleMissed = event(at: 0)
    middleMissed.remove(at: 3)
    let stray = Translation(file(middleMissed))
    #expect(reports(stray).isEmpty && stray.report?.incompleteAdvertisements == 1)
    // Without the first packet the advertiser is unknown.
    let orphan = Translation(file(Array(event(at: 0).suffix(2))))
    #expect(reports(orphan).isEmpty && orphan.report?.incompleteAdvertisements == 1)
  }

  /// Channel, data identifier and time must be the announced ones.
  @Test(arguments: [0, 1, 2]) func joinsNothingElse(_ kind: Int) throws {
    var sent = event(at: 0)
    switch kind {
    case 0: sent[4].channel = 7
    case 1: sent[4].pdu = Header(number: 0xDF3).pdu(Array(Self.data.dropFirst(120)))
    default: sent[4].microseconds += 60_000
    }
    let translation = Translation(file(sent))
    #expect(reports(translation).map(\.isTruncated) == [true])
    #expect(translation.report?.joinedAdvertisements == 0)
  }

  /// The address is in the second packet, in neither, or there is no second packet.
  @Test func takesTheAddressFromWhereItIs() throws {
    let short: [UInt8] = Self.name
    let inSecond: [Sent] = [
      (0, 37, Header(mode: 1, next: (9, 1_500)).pdu()),
      (1_500, 9, Header(mode: 1, advertiser: Self.advertiser).pdu(short)),
    ]
    let found = reports(Translation(file(inSecond)))
    #expect(found.map(\.address) == ["C4:12:34:56:78:9A"] && found.map(\.data) == [short])
    // Anonymous: address type 0xFF.
    let inNone: [Sent] = [(0, 37, Header(next: (9, 1_500)).pdu()), (1_500, 9, Header().pdu(short))]
    let anonymous = Translation(file(inNone)).records.first { $0.header.type == .event }
    #expect(anonymous.map { Array($0.packet[6..<13]) } == [0xFF, 0, 0, 0, 0, 0, 0])
    // 300 µs units, and a sniffer that reports the end of a packet as its time.
    let late: [Sent] = [
      (190, 39, Header(advertiser: Self.advertiser, next: (9, 600_000)).pdu()),
      (600_000 + 2_000, 9, Header().pdu(Array(Self.data.prefix(200)))),
    ]
    #expect(reports(Translation(file(late))).count == 1)
  }

  /// AUX_SCAN_RSP follows AUX_SCAN_REQ on its channel immediately, and may also have a chain.
  @Test func joinsAScanResponse() throws {
    let request: [UInt8] = [0xC3, 12] + Self.other + Self.advertiser
    let sent: [Sent] = [
      (0, 37, Header(mode: 2, next: (9, 1_500)).pdu()),
      (1_500, 9, Header(mode: 2, advertiser: Self.advertiser).pdu()),
      (1_800, 9, request),
      (2_050, 9, Header(advertiser: Self.advertiser, next: (12, 2_490)).pdu(Array(Self.data.prefix(120)))),
      (4_540, 12, Header().pdu(Array(Self.data.dropFirst(120)))),
    ]
    let translation = Translation(file(sent))
    let found = reports(translation)
    #expect(found.map(\.isScanResponse) == [false, true])
    #expect(found.map(\.data) == [[], Self.data] && found.map(\.isTruncated) == [false, false])
    #expect(translation.pdus.filter { $0.hasPrefix("AUX") }.contains("AUX_SCAN_RSP"))
  }

  /// More data than a report can hold, in one packet.
  @Test func splitsALongPacket() throws {
    let long = Array(Self.data.prefix(240))
    let sent: [Sent] = [
      (0, 37, Header(advertiser: Self.advertiser, next: (9, 1_500)).pdu()), (1_500, 9, Header().pdu(long)),
    ]
    #expect(reports(Translation(file(sent))).map(\.data) == [long])
  }

  /// A periodic train has its own access address, and is not a connection.
  @Test func takesAPeriodicTrainForNoConnection() throws {
    var sync: [UInt8] = [0x47, 0, 0x1B, 0x28, 0xF2, 0x1D]
    sync += [0, 0, 80, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F] + little(0x1234_5678) + [9, 8, 7, 0, 0]
    sync[2] = UInt8(sync.count - 3)
    sync[1] = UInt8(sync.count - 2)
    var file = file([(0, 37, Header(advertiser: Self.advertiser, next: (9, 1_500)).pdu()), (1_500, 9, sync)])
    for number in 1...5 as ClosedRange<UInt32> {
      let packet = AirSession.Packet(
        microseconds: number * 100_000, channel: 20, isFromCentral: nil, event: 0, accessAddress: 0x1234_5678,
        pdu: [0x07, 4, 0, 2, 1, 6], crc: AirSession.crc([0x07, 4, 0, 2, 1, 6], start: 0x070809), words: "")
      file += AirSession.record(AirSession.frame(packet, .withHeader), packet.microseconds)
    }
    let translation = Translation(file)
    #expect(translation.report?.links.isEmpty == true)
    #expect(translation.pdus.count { $0 == "AUX_SYNC_IND" } == 5)
  }
}
