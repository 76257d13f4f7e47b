import BLEPacketLog
import BLEWire
import Foundation
import TestKit
import Testing

/// A session from `Fixtures/sessions.txt`. A script made the file with an independent implementation of the
/// cryptography.
struct AirSession {
  struct Packet {
    var microseconds: UInt32
    var channel: UInt8
    /// `nil` for advertising.
    var isFromCentral: Bool?
    var event: UInt8
    var accessAddress: UInt32
    var pdu: [UInt8]
    var crc: [UInt8]
    var words: String
  }

  var packets: [Packet] = []

  init(_ name: String) throws {
    let text = try String(
      contentsOfFile: Place.fixture("BLEPacketLogTests/Air/Fixtures/sessions.txt"), encoding: .utf8)
    var isOurs = false
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      if words.count == 1 {
        isOurs = line == name
        continue
      }
      guard isOurs else { continue }
      packets.append(
        Packet(
          microseconds: try #require(UInt32(words[0])), channel: try #require(UInt8(words[1])),
          isFromCentral: words[2] == "-" ? nil : words[2] == "c", event: try #require(UInt8(words[3])),
          accessAddress: try #require(UInt32(words[4], radix: 16)), pdu: try octets(words[5]),
          crc: try octets(words[6]), words: words[8...].joined(separator: " ")))
    }
    try #require(!packets.isEmpty)
  }

  /// The session as a pcap file.
  ///
  /// - Parameter tellsDirection: whether to store the direction, if the link type can.
  func file(_ linkType: AirLinkType, tellsDirection: Bool = true) -> [UInt8] {
    var file = Self.header(linkType.rawValue)
    for packet in packets {
      file += Self.record(Self.frame(packet, linkType, tellsDirection), packet.microseconds)
    }
    return file
  }

  /// The CRC of a PDU, computed bit by bit as in the figure of Core 5.4, Vol 6, Part B, 3.1.1.
  static func crc(_ pdu: [UInt8], start: UInt32 = 0x55_5555) -> [UInt8] {
    var register = (0..<24).map { UInt8(start >> UInt32($0) & 1) }
    for octet in pdu {
      for bit in 0..<8 {
        let feedback = register[23] ^ octet >> UInt8(bit) & 1
        register = [feedback] + register.dropLast()
        for tap in [1, 3, 4, 6, 9, 10] { register[tap] ^= feedback }
      }
    }
    // Position 23 is sent first.
    let bits = Array(register.reversed())
    return (0..<3).map { index in (0..<8).reduce(0) { $0 | bits[8 * index + $1] << UInt8($1) } }
  }

  static func header(_ linkType: UInt32) -> [UInt8] {
    little(0xA1B2_C3D4) + [2, 0, 4, 0] + little(0) + little(0) + little(0xFFFF) + little(linkType)
  }

  static func record(_ frame: [UInt8], _ microseconds: UInt32) -> [UInt8] {
    little(1_700_000_000 + microseconds / 1_000_000) + little(microseconds % 1_000_000)
      + little(UInt32(frame.count)) + little(UInt32(frame.count)) + frame
  }

  static func frame(_ packet: Packet, _ linkType: AirLinkType, _ tellsDirection: Bool = true) -> [UInt8] {
    let air = little(packet.accessAddress) + packet.pdu + packet.crc
    let channel = packet.channel
    let radio: UInt8 =
      switch channel {
      case 37: 0
      case 38: 12
      case 39: 39
      case ...10: channel + 1
      default: channel + 2
      }
    let isDamaged = packet.words.hasSuffix("damaged")
    switch linkType {
    case .bare: return air
    case .withHeader:
      var flags: UInt16 = 0x0003 | 0x0400 | (isDamaged ? 0 : 0x0800)
      if tellsDirection, let isFromCentral = packet.isFromCentral { flags |= isFromCentral ? 0x0100 : 0x0180 }
      return [radio, UInt8(bitPattern: -53), 0, 0] + little(packet.accessAddress)
        + [UInt8(truncatingIfNeeded: flags), UInt8(flags >> 8)] + air
    case .nordic:
      let flags: UInt8 = (isDamaged ? 0 : 1) | (packet.isFromCentral == true ? 2 : 0)
      let length = UInt8(10 + air.count)
      return [
        7, length, 0, 3, 1, 0, packet.isFromCentral == nil ? 2 : 6, 10, flags, channel, 53, packet.event, 0,
        0, 0, 0, 0,
      ] + air
    case .perPacketInformation:
      let frequency = UInt16(2402) + 2 * UInt16(radio)
      return [0, 0, 24, 0] + little(147) + [0x36, 0x75, 12, 0] + [0]
        + [UInt8(truncatingIfNeeded: frequency), UInt8(frequency >> 8), 0] + little(0)
        + [0, 0, UInt8(bitPattern: -53), 1] + air
    }
  }

  private func octets(_ text: Substring) throws -> [UInt8] { try #require([UInt8](hexadecimal: text)) }
}

func little(_ number: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }

extension [UInt8] {
  init?(hexadecimal text: some StringProtocol) {
    let digits = text.compactMap(\.hexDigitValue)
    guard digits.count == text.count, digits.count.isMultiple(of: 2) else { return nil }
    self = stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }
}

/// Result of translating a file.
struct Translation {
  private(set) var records: [StoredPacketRecord] = []
  private(set) var report: AirReport?
  private(set) var remark: String?
  private(set) var error: WireError?

  init(_ file: [UInt8], keys: [String] = [], chunk: Int = 65_536) {
    let reader = LogReader(keys: keys.compactMap { AirKey($0) })
    do throws(WireError) {
      var start = 0
      while start < file.count {
        let end = min(start + chunk, file.count)
        try reader.take(file.span.extracting(start..<end)) { records.append(StoredPacketRecord(copying: $0)) }
        start = end
      }
      try reader.finish { records.append(StoredPacketRecord(copying: $0)) }
    } catch { self.error = error }
    report = reader.airReport()
    remark = reader.remark ?? report?.remark
  }

  /// Payloads of complete L2CAP frames on a channel, by sender, in hexadecimal.
  func frames(_ channel: UInt8 = 4) -> [String] {
    records.compactMap { record in
      guard record.header.type == .acl, record.packet.count > 8, record.packet[6] == channel else {
        return nil
      }
      let mark = record.header.direction == .hostToController ? "<" : ">"
      return mark + record.packet[8...].map { hexadecimal($0) }.joined()
    }
  }

  /// Event codes, with the subevent for LE events.
  var events: [String] {
    records.filter { $0.header.type == .event }.map { record in
      record.packet[0] == 0x3E ? "3e/\(hexadecimal(record.packet[2]))" : hexadecimal(record.packet[0])
    }
  }

  var pdus: [String] { records.compactMap { $0.header.air?.pdu.name } }
}
