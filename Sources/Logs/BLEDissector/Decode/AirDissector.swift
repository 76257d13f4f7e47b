import BLEPacketLog
import BLEWire
import JSONText

/// Dissects the metadata and the PDU of an air packet.
enum AirDissector {
  /// Returns the members of `air` in JSON. In text, the members form one line.
  static func dissect(_ packet: AirPacket, for reader: FieldList.Reader) -> [Field] {
    var list = FieldList(for: reader)
    list.member("pdu", packet.pdu.name)
    list.member("accessAddress", PacketText.hex(UInt64(packet.accessAddress), digits: 8))
    if let channel = packet.channel { list.member("channel", channel) }
    if let rssi = packet.rssi { list.member("rssi", rssi) }
    list.member("phy", name(packet.phy))
    if let event = packet.eventCounter { list.member("eventCounter", event) }
    switch packet.direction {
    case .unknown: break
    case .fromCentral: list.member("sender", "central")
    case .fromPeripheral: list.member("sender", "peripheral")
    }
    switch packet.crc {
    case .unknown: list.nullMember("crcGood")
    case .good: list.member("crcGood", true)
    case .bad: list.member("crcGood", false)
    }
    list.member("isEncrypted", packet.protection == .encrypted)
    list.member("isDecrypted", packet.protection == .decrypted)
    list.member("isRetransmission", packet.isRetransmission)
    return list.fields
  }

  /// Returns the metadata as text. Values that are usual are omitted.
  static func words(_ packet: AirPacket) -> String {
    var words = [PacketText.hex(UInt64(packet.accessAddress), digits: 8)]
    if let channel = packet.channel { words.append("channel \(channel)") }
    if let rssi = packet.rssi { words.append("\(rssi) dBm") }
    if packet.phy != .le1M { words.append("LE \(name(packet.phy))") }
    if let event = packet.eventCounter { words.append("event \(event)") }
    if packet.crc == .bad { words.append("bad CRC") }
    if packet.protection == .encrypted { words.append("encrypted") }
    if packet.protection == .decrypted { words.append("decrypted") }
    if packet.isRetransmission { words.append("sent again") }
    return words.joined(separator: ", ")
  }

  /// Returns the first line of text for a packet that has no HCI equivalent.
  static func title(_ packet: AirPacket, _ octets: Span<UInt8>) -> String {
    let mark =
      switch packet.direction {
      case .unknown: "~ "
      case .fromCentral: "< "
      case .fromPeripheral: "> "
      }
    return "\(mark)Air: \(packet.pdu.name) len \(max(0, octets.count - 2))"
  }

  /// Returns the fields of the PDU.
  ///
  /// - Parameter pdu: header and payload.
  static func parameters(_ packet: AirPacket, _ pdu: Span<UInt8>, for reader: FieldList.Reader) -> [Field] {
    var list = FieldList(for: reader)
    let payload = pdu.extracting(min(pdu.count, 2)...)
    let isReadable = packet.crc != .bad && packet.protection != .encrypted
    switch packet.pdu.kind {
    case .control where isReadable && !payload.isEmpty:
      LayoutDissector.dissect(
        ControlTable.layouts[UInt16(payload[0])]?.fields, payload.extracting(1...), into: &list)
    case .advertising where isReadable && payload.count == 34 && packet.pdu.code == 5,
      .auxiliary where isReadable && payload.count == 34 && packet.pdu.code == 5:
      connect(pdu[0], payload, &list)
    case .advertising where isReadable && payload.count == 12 && packet.pdu.code == 3,
      .auxiliary where isReadable && payload.count == 12 && packet.pdu.code == 3:
      list.address("scanner", payload, at: 0, isRandom: pdu[0] & 0x40 != 0)
      list.address("advertiser", payload, at: 6, isRandom: pdu[0] & 0x80 != 0)
    default: if !payload.isEmpty { list.octets(payload, 0..<payload.count) }
    }
    return list.fields
  }

  /// Dissects a CONNECT_IND. Core 5.4, Vol 6, Part B, 2.3.3.1.
  private static func connect(_ header: UInt8, _ payload: Span<UInt8>, _ list: inout FieldList) {
    list.address("initiator", payload, at: 0, isRandom: header & 0x40 != 0)
    list.address("advertiser", payload, at: 6, isRandom: header & 0x80 != 0)
    list.member("connectionAccessAddress", PacketText.hex(UInt64(payload.u32(at: 12)), digits: 8))
    list.member("crcInit", PacketText.hex(UInt64(payload.u24(at: 16)), digits: 6))
    LayoutDissector.dissect(connectFields, payload.extracting(19..<33), into: &list)
    list.member("hop", payload[33] & 0x1F)
    list.member("sleepClockAccuracy", payload[33] >> 5)
  }

  private static let connectFields = PacketLayout.fields(
    "u8 Window size, u16 Window offset, conn Connection interval, n16 Peripheral latency, tmo Supervision timeout, "
      + "hex5 Channel map")

  private static func name(_ phy: LEPHY) -> String {
    switch phy {
    case .le1M: "1M"
    case .le2M: "2M"
    case .leCoded: "coded"
    }
  }
}

extension FieldList {
  fileprivate mutating func address(_ name: String, _ octets: Span<UInt8>, at offset: Int, isRandom: Bool) {
    let address = octets.address(at: offset, type: isRandom ? .random : .public)
    member(name, "\(address)", words: "\(address) (\(address.type.name))")
    member(name + "AddressType", "\(address.type.name)", .hidden)
  }
}

/// Link Layer control PDUs. Core 5.4, Vol 6, Part B, 2.4.2.
private enum ControlTable {
  static let layouts = PacketLayout.table(
    """
    00 LL_CONNECTION_UPDATE_IND | u8 Window size, u16 Window offset, conn Connection interval, n16 Peripheral latency, \
      tmo Supervision timeout, u16 Instant
    01 LL_CHANNEL_MAP_IND | hex5 Channel map, u16 Instant
    02 LL_TERMINATE_IND | reason
    03 LL_ENC_REQ | x64 Rand, x16 EDIV, x64 SKD central, hex4 IV central
    04 LL_ENC_RSP | x64 SKD peripheral, hex4 IV peripheral
    05 LL_START_ENC_REQ | pad
    06 LL_START_ENC_RSP | pad
    07 LL_UNKNOWN_RSP | x8 Unknown type
    08 LL_FEATURE_REQ | features
    09 LL_FEATURE_RSP | features
    0a LL_PAUSE_ENC_REQ | pad
    0b LL_PAUSE_ENC_RSP | pad
    0c LL_VERSION_IND | =version LL version, company Manufacturer, x16 Subversion
    0d LL_REJECT_IND | reason
    0e LL_PERIPHERAL_FEATURE_REQ | features
    0f LL_CONNECTION_PARAM_REQ | conn Min connection interval, conn Max connection interval, n16 Peripheral latency, \
      tmo Supervision timeout, u8 Preferred periodicity, u16 Reference event count, hex12 Offsets
    10 LL_CONNECTION_PARAM_RSP | conn Min connection interval, conn Max connection interval, n16 Peripheral latency, \
      tmo Supervision timeout, u8 Preferred periodicity, u16 Reference event count, hex12 Offsets
    11 LL_REJECT_EXT_IND | x8 Rejected opcode, reason
    12 LL_PING_REQ | pad
    13 LL_PING_RSP | pad
    14 LL_LENGTH_REQ | u16 Max RX octets, us16 Max RX time, u16 Max TX octets, us16 Max TX time
    15 LL_LENGTH_RSP | u16 Max RX octets, us16 Max RX time, u16 Max TX octets, us16 Max TX time
    16 LL_PHY_REQ | x8 TX PHYs, x8 RX PHYs
    17 LL_PHY_RSP | x8 TX PHYs, x8 RX PHYs
    18 LL_PHY_UPDATE_IND | x8 PHY central to peripheral, x8 PHY peripheral to central, u16 Instant
    19 LL_MIN_USED_CHANNELS_IND | x8 PHYs, u8 Min used channels
    """)
}
