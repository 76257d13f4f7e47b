import BLEWire

/// One air packet, without the headers that its file adds.
struct AirFrame: ~Escapable {
  /// Metadata from the file, and the access address.
  private(set) var packet: AirPacket
  /// Whether the packet is an advertising packet, on any channel.
  private(set) var isAdvertising: Bool
  /// Result of the sniffer's own decryption.
  var sniffed = AirPacket.Protection.clear
  /// Header and payload of the PDU, without access address and CRC.
  let pdu: Span<UInt8>
  /// Size of the header: two bytes, or three bytes if the header describes a constant tone extension.
  let headerByteCount: Int
  /// The received CRC; `nil` if the file does not include the CRC.
  let sentCRC: UInt32?

  static let advertisingAccessAddress: UInt32 = 0x8E89_BED6

  var payload: Span<UInt8> { @_lifetime(copy self) get { pdu.extracting(headerByteCount...) } }

  /// Parses a frame of a sniffer log.
  ///
  /// - Throws: `truncated` or `invalidValue`, with an offset in the frame, if the frame is not an air packet
  ///   or is shorter than its header claims.
  @_lifetime(copy octets)
  init(_ linkType: AirLinkType, _ octets: Span<UInt8>) throws(WireError) {
    var pseudo = PseudoHeader(linkType)
    try pseudo.read(octets)
    packet = pseudo.packet
    let rest = octets.extracting(pseudo.byteCount...)
    let coding = packet.phy == .leCoded && pseudo.tellsPHY ? 1 : 0
    let start = 4 + coding
    try rest.require(start + 2, .airLog)
    packet.accessAddress = rest.u32(at: 0)
    isAdvertising = pseudo.isAuxiliary || packet.accessAddress == Self.advertisingAccessAddress
    if !isAdvertising { sniffed = pseudo.sniffed }
    if isAdvertising { packet.direction = .unknown }
    // Constant Tone Extension Information follows the length. Core 5.4, Vol 6, Part B, 2.4.
    let hasTone = !isAdvertising && rest[start] & 0x20 != 0
    headerByteCount = hasTone ? 3 : 2
    let end = start + headerByteCount + Int(rest[start + 1])
    guard rest.count >= end else {
      throw WireError(
        .airLog, offset: pseudo.byteCount + start + 1,
        .lengthMismatch(claimed: Int(rest[start + 1]), available: rest.count - start - headerByteCount))
    }
    pdu = rest.extracting(start..<end)
    sentCRC = rest.count >= end + 3 ? rest.u24(at: end) : nil
  }
}

/// The header before the access address.
struct PseudoHeader {
  private(set) var packet: AirPacket
  private(set) var byteCount = 0
  private(set) var isAuxiliary = false
  private(set) var sniffed = AirPacket.Protection.clear
  /// Whether `packet.phy` is known. A packet of the coded PHY has one more byte than other packets.
  private(set) var tellsPHY = false

  init(_ linkType: AirLinkType) { packet = AirPacket(linkType) }

  mutating func read(_ octets: Span<UInt8>) throws(WireError) {
    switch packet.linkType {
    case .bare: break
    case .withHeader: try readHeader(octets, at: 0)
    case .nordic: try readNordic(octets)
    case .perPacketInformation: try readPerPacketInformation(octets)
    }
  }

  /// Reads RF channel, power, noise, offenses, reference access address and flags.
  ///
  /// https://www.tcpdump.org/linktypes/LINKTYPE_BLUETOOTH_LE_LL_WITH_PHDR.html
  private mutating func readHeader(_ octets: Span<UInt8>, at start: Int) throws(WireError) {
    byteCount = start + 10
    try octets.require(byteCount, .airLog)
    let flags = octets.u16(at: start + 8)
    packet.channel = Self.channel(radio: octets[start])
    if flags & 0x0002 != 0 { packet.rssi = Int8(bitPattern: octets[start + 1]) }
    switch flags >> 7 & 0b111 {
    case 1: isAuxiliary = true
    case 2: packet.direction = .fromCentral
    case 3: packet.direction = .fromPeripheral
    default: break
    }
    if flags & 0x0400 != 0 { packet.crc = flags & 0x0800 != 0 ? .good : .bad }
    if flags & 0x0008 != 0 { sniffed = .decrypted }
    readPHY(UInt8(flags >> 14))
  }

  /// Converts an RF channel, numbered by frequency, to a channel index. Core 5.4, Vol 6, Part B, 1.4.1.
  static func channel(radio: UInt8) -> UInt8? {
    switch radio {
    case 0: 37
    case 12: 38
    case 1...11: radio - 1
    case 13...38: radio - 2
    case 39: 39
    default: nil
    }
  }

  private mutating func readPHY(_ number: UInt8) {
    guard let phy = LEPHY(rawValue: number + 1) else { return }
    packet.phy = phy
    tellsPHY = true
  }

  /// Reads board, lengths, protocol version, counter and packet type; then length, flags, channel, RSSI,
  /// event counter and time. Version 0 has another marker and no board.
  ///
  /// `packet-nordic_ble.c` of Wireshark.
  private mutating func readNordic(_ octets: Span<UInt8>) throws(WireError) {
    byteCount = 17
    try octets.require(byteCount + 6, .airLog)
    let isOldest = octets.u16BE(at: 0) == 0xBEEF
    let version = isOldest ? 0 : octets[3]
    guard version <= 3 else { throw WireError(.airLog, offset: 3, .invalidValue(UInt32(version))) }
    let flags = octets[8]
    packet.crc = flags & 0x01 != 0 ? .good : .bad
    let isData =
      version == 3 ? octets[6] == 6 : octets.u32(at: byteCount) != AirFrame.advertisingAccessAddress
    if isData {
      packet.direction = flags & 0x02 != 0 ? .fromCentral : .fromPeripheral
      packet.eventCounter = octets.u16(at: 11)
      // The sniffer reports encryption even without a key. Without a key, the integrity check fails.
      if flags & 0x0C == 0x0C { sniffed = .decrypted }
    } else {
      isAuxiliary = true
    }
    packet.channel = octets[9] <= 39 ? octets[9] : nil
    packet.rssi = octets[10] <= 128 ? Int8(truncatingIfNeeded: -Int(octets[10])) : nil
    if version > 0 { readPHY(flags >> 4 & 0b111) }
  }

  /// Reads a list of fields with type and length, and the following packet, whose link type is in the header.
  /// Ubertooth's fields contain frequency and power.
  ///
  /// CACE PPI 1.0.10, 3; field type 30006 of `ppi.h` of libbtbb.
  private mutating func readPerPacketInformation(_ octets: Span<UInt8>) throws(WireError) {
    try octets.require(8, .airLog)
    let end = Int(octets.u16(at: 2))
    let inner = octets.u32(at: 4)
    guard end >= 8, end <= octets.count else {
      throw WireError(.airLog, offset: 2, .lengthMismatch(claimed: end, available: octets.count))
    }
    var hasRadio = false
    var start = 8
    while start + 4 <= end {
      let (type, count) = (octets.u16(at: start), Int(octets.u16(at: start + 2)))
      guard count <= end - start - 4 else { break }
      if type == Self.radioField, count >= 12 {
        hasRadio = true
        let frequency = octets.u16(at: start + 5)
        if frequency >= 2402, frequency <= 2480, frequency.isMultiple(of: 2) {
          packet.channel = Self.channel(radio: UInt8((frequency - 2402) / 2))
        }
        packet.rssi = Int8(bitPattern: octets[start + 4 + 10])
      }
      start += 4 + count
    }
    byteCount = end
    switch AirLinkType(rawValue: inner) {
    case .bare: break
    case .withHeader: try readHeader(octets, at: end)
    // Ubertooth uses link type 147, which is reserved for private use.
    case nil where inner == 147 && hasRadio: break
    default: throw WireError(.airLog, offset: 4, .invalidValue(inner))
    }
  }

  private static let radioField: UInt16 = 30_006
}

/// The CRC at the end of each packet. Core 5.4, Vol 6, Part B, 3.1.1.
enum AirCRC {
  /// CRC initialization value of advertising.
  static let advertising: UInt32 = 0x55_5555

  /// Returns the CRC of a PDU.
  ///
  /// - Parameters:
  ///   - pdu: header and payload.
  ///   - start: 24-bit initialization value, as in a connection's first packet.
  /// - Returns: the three bytes after the PDU, as a little-endian number.
  static func of(_ pdu: Span<UInt8>, start: UInt32) -> UInt32 {
    let table = table
    var state = reversed(start)
    for index in pdu.indices {
      state = state >> 8 ^ table[Int(UInt8(truncatingIfNeeded: state) ^ pdu[index])]
    }
    return state
  }

  private static func reversed(_ number: UInt32) -> UInt32 {
    (0..<24).reduce(0) { $0 | (number >> UInt32($1) & 1) << UInt32(23 - $1) }
  }

  /// CRC-24 table for x²⁴ + x¹⁰ + x⁹ + x⁶ + x⁴ + x³ + x + 1, least significant bit first.
  private static let table: [UInt32] = (0..<256).map { octet in
    (0..<8).reduce(UInt32(octet)) { state, _ in state >> 1 ^ (state & 1 == 0 ? 0 : 0xDA_6000) }
  }
}
