import BLEPacketLog
import BLEWire
import TestKit
import Testing

/// Sessions made by a script, in each link type.
@Suite struct AirTranslationTests {
  static let linkTypes: [AirLinkType] = [.bare, .withHeader, .nordic, .perPacketInformation]
  /// Key from Core 5.4, Vol 6, Part C, 1.
  private static let sampleKey = "4C68384139F574D836BCF34E9DFB01BF"

  // The plain text of the specification's packets, which are not ATT; then notifications 1, 5 and 7: the
  // sniffer missed 2 to 4, and 6 was damaged.
  @Test(arguments: linkTypes) func decryptsTheSpecificationsPackets(_ linkType: AirLinkType) throws {
    let translation = Translation(try AirSession("sample").file(linkType), keys: [Self.sampleKey])
    let whole = translation.records.filter { $0.header.type == .acl }.map {
      $0.packet.map { hexadecimal($0) }.joined()
    }
    #expect(whole[0] == "01001b00" + "170063646566676869" + "6a6b6c6d6e6f707131323334353637383930")
    #expect(whole[1] == "01201b00" + "17003736353433323130" + "4142434445464748494a4b4c4d4e4f5051")
    #expect(translation.frames() == [">1b12000101010101", ">1b12000505050505", ">1b12000707070707"])
    #expect(translation.events == ["3e/02", "3e/01", "08", "05"])
    let report = try #require(translation.report)
    let link = try #require(report.links.first)
    #expect(report.links.count == 1 && link.encryption == .decrypted)
    #expect(link.fromCentral.retransmissions == 1 && link.fromPeripheral.retransmissions == 1)
    #expect(report.retransmissions == 2 && report.badCRC == 1 && report.encrypted == 0)
    #expect(link.packetErrorRate.map { ($0 * 20).rounded() } == 2)
    #expect(link.fromPeripheral.missed >= 3)
  }

  /// Keys are accepted in either byte order, and with other keys.
  @Test func takesKeysAsProgramsPrintThem() throws {
    let file = try AirSession("sample").file(.withHeader)
    let reversed = "BF01FB9D4EF3BC36D874F5394138684C"
    for key in [
      Self.sampleKey.lowercased(), "0x" + Self.sampleKey, reversed,
      "4C:68:38:41:39:F5:74:D8:36:BC:F3:4E:9D:FB:01:BF",
    ] {
      #expect(Translation(file, keys: ["00112233445566778899aabbccddeeff", key]).report?.encrypted == 0)
    }
    for text in ["", "4C68", Self.sampleKey + "00", "4C68384139F574D836BCF34E9DFB01BG"] {
      #expect(AirKey(text) == nil)
    }
  }

  @Test func saysWhatStaysEncrypted() throws {
    let file = try AirSession("sample").file(.withHeader)
    let without = Translation(file)
    #expect(without.frames().isEmpty && without.report?.links.first?.encryption == .noKey)
    #expect(without.remark == "9 of 24 packets could not be decrypted: give the link's key with --ltk")
    let other = Translation(file, keys: ["00112233445566778899aabbccddeeff"])
    #expect(other.frames().isEmpty && other.report?.links.first?.encryption == .wrongKey)
    let secure = Translation(try AirSession("secure").file(.withHeader))
    #expect(secure.report?.links.first?.encryption == .noKeyOfSecureConnections)
    #expect(secure.remark?.contains("Secure Connections") == true)
  }

  /// Pairing gives the link's key, and that link distributes the key of the next one.
  @Test(arguments: ["justworks", "passkey"]) func findsTheKeyOfAPairing(_ name: String) throws {
    let translation = Translation(try AirSession(name).file(.nordic))
    #expect(translation.frames() == [">1b2a00c0ffee"])
    let smp = translation.frames(6)
    #expect(smp.contains(">06f0e1d2c3b4a5968778695a4b3c2d1e0f"))
    let report = try #require(translation.report)
    #expect(report.keysLearnt == 1 && report.encrypted == 0)
    #expect(report.links.map(\.encryption) == [.decrypted, .decrypted])
    #expect(translation.events == ["3e/01", "08", "05", "3e/01", "08"])
  }

  /// If the file does not give a packet's sender, sequence numbers do.
  @Test(arguments: ["sample", "justworks", "changes"]) func guessesWhoSentIt(_ name: String) throws {
    let session = try AirSession(name)
    let told = Translation(session.file(.withHeader), keys: [Self.sampleKey])
    let guessed = Translation(session.file(.withHeader, tellsDirection: false), keys: [Self.sampleKey])
    func senders(_ translation: Translation) -> [AirPacket.Direction] {
      translation.records.compactMap { $0.header.air }.filter { $0.crc == .good }.map(\.direction)
    }
    #expect(senders(guessed) == senders(told))
    #expect(guessed.frames() == told.frames())
  }

  /// Timing, channels and PHYs change at the agreed event, counted either by time or by the sniffer's
  /// counter.
  @Test func followsChangesToTheirInstant() throws {
    let translation = Translation(try AirSession("changes").file(.withHeader))
    #expect(translation.events == ["3e/01", "3e/07", "3e/03", "3e/0c"])
    let update = try #require(translation.records.first { $0.packet.starts(with: [0x3E, 10, 0x03]) })
    #expect(update.header.air == nil && Array(update.packet[6...]) == [80, 0, 2, 0, 0x2C, 0x01])
    // Events 6 and 7, each two packets after the one at the start of the session.
    let numbers = translation.records.filter { $0.header.type == .event }.map(\.header.index)
    #expect(numbers == [1, 11, 14, 16])
    let lengths = try #require(translation.records.first { $0.packet.starts(with: [0x3E, 11, 0x07]) })
    #expect(Array(lengths.packet[5...]) == [27, 0, 0x48, 1, 251, 0, 0x48, 8])
    let link = try #require(translation.report?.links.first)
    #expect(link.channels == 12 && link.packetsOffMap == 0 && link.missedEvents == 1)
    let counters = translation.records.compactMap { $0.header.air?.eventCounter }
    #expect(counters.last == 10 && counters.first == 0)
  }

  /// A link without packets ends when its supervision timeout expires.
  @Test func losesASilentLink() throws {
    var session = try AirSession("changes")
    var advertisement = try #require(try AirSession("sample").packets.first)
    // The link's 16 packets end in event 10, when the timeout is 3 s.
    let last = try #require(session.packets.last)
    advertisement.microseconds = last.microseconds + 3_100_000
    session.packets.append(advertisement)
    let translation = Translation(session.file(.withHeader))
    #expect(translation.events.suffix(2) == ["05", "3e/02"])
    let end = try #require(translation.records.first { $0.packet.first == 0x05 && $0.header.type == .event })
    #expect(end.packet == [0x05, 4, 0, 1, 0, 0x08])
    #expect(
      end.header.time.nanoseconds == 1_700_000_000_000_000_000 + Int64(last.microseconds + 3_000_000) * 1_000)
  }

  /// The size of the reader's pieces makes no difference.
  @Test func readsInPieces() throws {
    let file = try AirSession("sample").file(.nordic)
    let whole = Translation(file, keys: [Self.sampleKey])
    for chunk in [1, 7, 64] {
      #expect(Translation(file, keys: [Self.sampleKey], chunk: chunk).records == whole.records)
    }
  }

  /// A translated log is written as an HCI log.
  @Test func convertsToHCI() throws {
    let translation = Translation(
      try AirSession("sample").file(.perPacketInformation), keys: [Self.sampleKey])
    var writer = PacketLogWriter(.btsnoop(.h4))
    var octets: [UInt8] = []
    writer.start(into: &octets)
    for record in translation.records { record.withRecord { writer.append($0, to: &octets) } }
    writer.finish(into: &octets)
    let packets = translation.records.filter { $0.header.type != nil }
    #expect(
      writer.recordCount == packets.count && writer.leftOut == translation.records.count - packets.count)
    let again = Translation(octets)
    #expect(again.report == nil && again.records.map(\.packet) == packets.map(\.packet))
  }
}

/// Damaged, foreign and endless files.
@Suite struct AirDamageTests {
  /// Each frame, cut at each byte, gives a record, and nothing traps.
  @Test(arguments: AirTranslationTests.linkTypes) func readsCutFrames(_ linkType: AirLinkType) throws {
    for packet in try AirSession("passkey").packets.prefix(12) {
      let frame = AirSession.frame(packet, linkType)
      for count in 0..<frame.count {
        let file = AirSession.header(linkType.rawValue) + AirSession.record(Array(frame.prefix(count)), 0)
        let translation = Translation(file)
        #expect(translation.records.count >= 1)
        let report = try #require(translation.report)
        #expect(report.packets + report.unreadable == 1)
      }
    }
  }

  /// A changed byte in any place: each frame still gives at least a record.
  @Test(arguments: AirTranslationTests.linkTypes) func survivesChangedOctets(_ linkType: AirLinkType) throws {
    let file = try AirSession("sample").file(linkType)
    for place in stride(from: 24, to: file.count, by: 5) {
      var changed = file
      changed[place] ^= [0x01, 0x80, 0xFF][place % 3]
      let translation = Translation(changed, keys: ["4C68384139F574D836BCF34E9DFB01BF"])
      let report = translation.report
      #expect((report?.packets ?? 0) + (report?.unreadable ?? 0) <= translation.records.count)
    }
  }

  @Test func saysWhatIsNotRead() {
    let wifi = Translation(AirSession.header(105))
    #expect(wifi.error.flatMap { PcapHeader.foreignLinkType($0) } == 105)
    #expect(LinkType.unsupported(105).hasPrefix("link type 105 (Wi-Fi), which is not supported"))
    #expect(Translation(AirSession.header(256)).remark == "it contains no packets")
    // A section, an Ethernet interface, one of its packets.
    let section: [UInt8] =
      little(0x0A0D_0D0A) + little(28) + little(0x1A2B_3C4D) + [1, 0, 0, 0] + little(.max) + little(.max)
      + little(28)
    let interface: [UInt8] = little(1) + little(20) + [1, 0, 0, 0] + little(0) + little(20)
    let packet: [UInt8] =
      little(6) + little(36) + little(0) + little(0) + little(0) + little(4) + little(4) + [1, 2, 3, 4]
      + little(36)
    let ethernet = Translation(section + interface + packet)
    #expect(ethernet.error == nil && ethernet.records.count == 1)
    #expect(
      ethernet.remark?.hasPrefix("its only packet is of link type 1 (Ethernet), which is not supported")
        == true)
  }

  /// The number of connections is limited: the one that was silent longest is dropped and reported. Reports
  /// are limited as well.
  @Test func boundsConnections() throws {
    let packet = try #require(try AirSession("justworks").packets.first)
    var file = AirSession.header(256)
    for number in 0..<700 as Range<UInt32> {
      var another = packet
      another.microseconds = number * 100
      // Another initiator, and another access address.
      another.pdu[2] = UInt8(truncatingIfNeeded: number)
      another.pdu[3] = UInt8(truncatingIfNeeded: number >> 8)
      another.pdu[14] = another.pdu[2]
      another.pdu[15] = another.pdu[3]
      file += AirSession.record(AirSession.frame(another, .withHeader), another.microseconds)
    }
    let translation = Translation(file)
    let report = try #require(translation.report)
    #expect(report.links.count == 512 && report.omittedLinks == 700 - 512)
    #expect(translation.events.count { $0 == "05" } == 700 - 64)
    let handles = translation.records.filter { $0.packet.starts(with: [0x3E, 19, 1]) }.map { $0.packet[4] }
    #expect(handles.count == 700)
  }

  /// Noise received by a sniffer has random access addresses, which are not connections.
  @Test func takesNoiseForNoConnection() throws {
    var packet = try #require(try AirSession("sample").packets.last)
    packet.words = "damaged"
    var file = AirSession.header(256)
    for number in 0..<100 as Range<UInt32> {
      packet.accessAddress = 0x1234_5678 &+ number &* 0x0101_0101
      file += AirSession.record(AirSession.frame(packet, .withHeader), number * 100)
    }
    let report = try #require(Translation(file).report)
    #expect(report.links.isEmpty && report.badCRC == 100)
  }
}
