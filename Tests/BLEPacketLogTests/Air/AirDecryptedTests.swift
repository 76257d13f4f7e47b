import BLEPacketLog
import BLEWire
import TestKit
import Testing

/// Logs that the sniffer software decrypted, with or without a flag that says so.
///
/// The packets after LL_START_ENC_REQ are those of Core 5.4, Vol 6, Part B, 5.1.3.1 and ATT PDUs, written by
/// hand. Wireshark reads the same six frames in whad-client's `comm_dec.pcap`, which has neither the flag nor
/// the MIC.
@Suite struct AirDecryptedTests {
  enum Check: CaseIterable { case removed, kept }

  /// Packets of both sides in an event: the first header byte, and the payload without its MIC.
  private static let events: [(central: String, peripheral: String)] = [
    ("0f" + "06", "0b" + "06"),  // LL_START_ENC_RSP
    ("02" + "03000400" + "0a2500", "05"),
    ("0d", "0a" + "06000400" + "1b1200010101"),
    // The central did not receive it: both send the same again.
    ("0d", "0a" + "06000400" + "1b1200010101"),
    // A frame of 30 bytes in two fragments.
    ("01", "06" + "1a000400" + "1b1400" + String(repeating: "a5", count: 20)),
    ("0d", "09" + "5a5a5a"),
    ("03" + "0213", "05"),  // LL_TERMINATE_IND
  ]
  private static let read = "<0a2500"
  /// The second one is the first fragment of its frame.
  private static let notifications = [">1b1200010101", ">1b1400" + String(repeating: "a5", count: 20)]

  /// The pairing of `sample` up to LL_START_ENC_REQ, then `events`.
  ///
  /// - Parameters:
  ///   - skipped: number of events at the start that the sniffer did not receive, in addition to everything
  /// before them.
  ///   - crc: CRC of packets that were encrypted.
  private func session(_ check: Check, skipped: Int? = nil, crc: [UInt8] = [0, 0, 0]) throws -> AirSession {
    let sample = try AirSession("sample")
    var session = sample
    session.packets = skipped == nil ? Array(sample.packets.prefix(8)) : []
    for (number, event) in Self.events.enumerated() where number >= skipped ?? 0 {
      for (isFromCentral, text) in [(true, event.central), (false, event.peripheral)] {
        let octets = try #require([UInt8](hexadecimal: text))
        let payload = Array(octets.dropFirst())
        let rest: [UInt8] = check == .kept && !payload.isEmpty ? [0x31, 0xAD, 0xBE, 0xEF] : []
        session.packets.append(
          AirSession.Packet(
            microseconds: 1_098_800 + UInt32(number) * 30_000 + (isFromCentral ? 0 : 300),
            channel: UInt8((28 + 7 * number) % 37), isFromCentral: isFromCentral, event: UInt8(3 + number),
            accessAddress: 0x5065_5DAB, pdu: [octets[0], UInt8(payload.count + rest.count)] + payload + rest,
            crc: payload.isEmpty ? AirSession.crc([octets[0], 0], start: 0x123456) : crc, words: ""))
      }
    }
    return session
  }

  private func file(_ session: AirSession, _ linkType: AirLinkType, isFlagged: Bool = false) -> [UInt8] {
    var file = AirSession.header(linkType.rawValue)
    for packet in session.packets {
      var frame = AirSession.frame(packet, linkType)
      // Decrypted; for Nordic's sniffer encrypted, with a valid MIC.
      if isFlagged, packet.microseconds >= 1_098_800, packet.pdu.count > 2 {
        frame[8] |= linkType == .nordic ? 0x0C : 0x08
      }
      file += AirSession.record(frame, packet.microseconds)
    }
    return file
  }

  /// Whether the second fragment of the longer frame is there.
  private func hasRest(_ translation: Translation) -> Bool {
    translation.records.contains {
      $0.header.type == .acl && Array($0.packet.dropFirst(4)) == [0x5A, 0x5A, 0x5A]
    }
  }

  private func expectOpen(_ translation: Translation, _ count: Int = 8) throws {
    #expect(translation.frames() == [Self.read] + Self.notifications && hasRest(translation))
    let report = try #require(translation.report)
    #expect(report.encrypted == 0 && report.decrypted == count && report.retransmissions == 2)
    #expect(report.links.map(\.encryption) == [.bySniffer])
    #expect(translation.remark == nil)
  }

  @Test(arguments: [AirLinkType.withHeader, .bare, .perPacketInformation], Check.allCases)
  func readsWhatAProgramDecryptedWithoutSayingSo(_ linkType: AirLinkType, _ check: Check) throws {
    // Zeros, and the CRC of the original encrypted packet.
    for crc: [UInt8] in [[0, 0, 0], [0xA8, 0x62, 0x0A]] {
      let translation = Translation(file(try session(check, crc: crc), linkType))
      try expectOpen(translation)
      #expect(translation.events == ["3e/02", "3e/01", "08", "05"])
      #expect(translation.pdus.filter { $0 == "LL_START_ENC_RSP" }.count == 2)
    }
  }

  @Test(arguments: [AirLinkType.withHeader, .nordic], Check.allCases)
  func readsWhatTheFileSaysIsDecrypted(_ linkType: AirLinkType, _ check: Check) throws {
    try expectOpen(Translation(file(try session(check), linkType, isFlagged: true)))
  }

  /// A log that begins after LL_START_ENC_RSP: nothing but a MIC shows that the plain packets were encrypted.
  @Test(arguments: Check.allCases) func readsALogThatBeginsLater(_ check: Check) throws {
    let translation = Translation(file(try session(check, skipped: 1), .withHeader))
    #expect(translation.frames() == [Self.read] + Self.notifications && hasRest(translation))
    #expect(translation.report?.encrypted == 0 && translation.remark == nil)
    #expect(
      translation.report?.links.map(\.encryption) == [
        check == .kept ? .bySniffer : AirLinkReport.Encryption.none
      ])
  }

  /// The software stopped decrypting in between: the encrypted packets are counted, the decrypted ones are
  /// read.
  @Test(arguments: Check.allCases) func readsAroundWhatIsStillEncrypted(_ check: Check) throws {
    var session = try session(check)
    let sealed = try #require(
      try AirSession("sample").packets.first { $0.words.hasPrefix("notification 5") })
    for place in session.packets.indices where session.packets[place].pdu.starts(with: [0x0A]) {
      session.packets[place].pdu = sealed.pdu
    }
    let translation = Translation(file(session, .withHeader))
    #expect(translation.frames() == [Self.read, Self.notifications[1]] && hasRest(translation))
    let report = try #require(translation.report)
    #expect(report.encrypted == 2 && report.decrypted == 6)
    #expect(
      translation.remark
        == "2 of 22 packets could not be decrypted: the program that decrypted the others did not "
        + "decrypt them; give the link's key with --ltk")
  }

  /// With the key, too: packet counters continue over packets that were already decrypted.
  @Test func decryptsTheRestWithTheKey() throws {
    var session = try AirSession("sample")
    // Notification 1 and its retransmission, decrypted as by a sniffer; LL_START_ENC_RSP likewise.
    for place in session.packets.indices {
      let packet = session.packets[place]
      let plain =
        packet.words == "LL_START_ENC_RSP"
        ? "06" : packet.words.hasPrefix("notification 1") ? "080004001b12000101010101" : nil
      guard let plain, let payload = [UInt8](hexadecimal: plain) else { continue }
      session.packets[place].pdu = [packet.pdu[0], UInt8(payload.count)] + payload
    }
    let translation = Translation(
      session.file(.withHeader), keys: ["4C68384139F574D836BCF34E9DFB01BF"])
    #expect(translation.frames() == [">1b12000101010101", ">1b12000505050505", ">1b12000707070707"])
    let link = try #require(translation.report?.links.first)
    #expect(translation.report?.encrypted == 0 && link.encryption == .decrypted)
    // Notifications 2 to 4, and 6, which was damaged.
    #expect(link.fromPeripheral.missed == 4)
  }

  /// Encrypted packets stay encrypted, wherever the log begins: random bytes do not become attributes.
  @Test(arguments: 8..<14) func takesNothingEncryptedForPlain(_ first: Int) throws {
    var session = try AirSession("sample")
    session.packets.removeFirst(first)
    for linkType in AirTranslationTests.linkTypes {
      let translation = Translation(session.file(linkType))
      #expect(translation.frames().isEmpty && translation.records.allSatisfy { $0.header.type != .acl })
      let report = try #require(translation.report)
      #expect(report.links.map(\.encryption) == [.startNotSeen] && report.decrypted == 0)
      // If neither the file nor the start of the link gives the CRC's start value, damaged packets count,
      // too.
      let isChecked = linkType == .withHeader || linkType == .nordic
      let sealed = session.packets.filter {
        $0.pdu.count > 2 && !(isChecked && $0.words.hasSuffix("damaged"))
      }
      #expect(report.encrypted == sealed.count)
    }
  }

  /// A retransmission has the packet counter of the original: it is decrypted, and so are later packets.
  @Test(arguments: ["LL_START_ENC_RSP", "sample data 1", "notification 1", "notification 7"])
  func decryptsWhatIsSentAgain(_ name: String) throws {
    var session = try AirSession("sample")
    let place = try #require(session.packets.lastIndex { $0.words.hasPrefix(name) })
    for count in 1...3 {
      session.packets.insert(session.packets[place], at: place)
      let translation = Translation(
        session.file(.nordic), keys: ["4C68384139F574D836BCF34E9DFB01BF"])
      let report = try #require(translation.report)
      #expect(report.encrypted == 0 && report.retransmissions == 2 + count)
      #expect(translation.frames() == [">1b12000101010101", ">1b12000505050505", ">1b12000707070707"])
    }
  }
}
