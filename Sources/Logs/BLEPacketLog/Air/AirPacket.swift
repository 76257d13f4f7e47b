public import BLEWire

/// Link type of a sniffer log: the format of the header before the access address.
///
/// Registry of link types of tcpdump.org.
public enum AirLinkType: UInt32, Hashable, Sendable, BitwiseCopyable {
  /// CACE's per-packet information, which contains a packet of another link type.
  case perPacketInformation = 192
  /// Packets without a header.
  case bare = 251
  /// A header of ten bytes with channel, power, direction and checks.
  case withHeader = 256
  /// The header of Nordic's sniffer.
  case nordic = 272
}

/// Metadata of an air packet.
public struct AirPacket: Hashable, Sendable, BitwiseCopyable {
  public enum Check: UInt8, Hashable, Sendable, BitwiseCopyable {
    case unknown, good, bad
  }

  public enum Direction: UInt8, Hashable, Sendable, BitwiseCopyable {
    case unknown, fromCentral, fromPeripheral
  }

  public enum Protection: UInt8, Hashable, Sendable, BitwiseCopyable {
    case clear
    /// The packet was encrypted, and this or another program has decrypted it.
    case decrypted
    case encrypted
  }

  public var linkType: AirLinkType
  public var pdu = AirPDU.unknown
  public var accessAddress: UInt32 = 0
  /// Channel index: 0 … 36 for data, 37 … 39 for advertising; `nil` if the file does not contain the channel.
  public var channel: UInt8?
  /// RSSI in dBm.
  public var rssi: Int8?
  public var phy: LEPHY = .le1M
  /// Event counter of the connection, from the sniffer or computed from the time.
  public var eventCounter: UInt16?
  public var crc = Check.unknown
  public var direction = Direction.unknown
  public var protection = Protection.clear
  /// Whether the sender had already sent the same packet.
  public var isRetransmission = false

  public init(_ linkType: AirLinkType) { self.linkType = linkType }
}

/// Type of an air packet, from the fields of its header.
public struct AirPDU: Hashable, Sendable, BitwiseCopyable {
  public enum Kind: UInt8, Hashable, Sendable, BitwiseCopyable {
    /// Advertising on the primary or the secondary channels. `code` is the PDU type.
    case advertising, auxiliary
    /// A data PDU. `code` is the LLID; 0 for an empty PDU.
    case data
    /// A control PDU. `code` is the opcode.
    case control
    /// The type is unknown because the packet is damaged, cut or encrypted.
    case unknown
  }

  public let kind: Kind
  public let code: UInt8

  @inlinable public init(_ kind: Kind, _ code: UInt8) {
    self.kind = kind
    self.code = code
  }

  public static let unknown = AirPDU(.unknown, 0)
  /// A control PDU with an encrypted opcode.
  public static let encryptedControl = AirPDU(.unknown, 3)
  public static let empty = AirPDU(.data, 0)
  /// PDUs of extended advertising, which share one PDU type and differ by their position in an advertisement.
  public static let chain = AirPDU(.auxiliary, 16)
  public static let scanResponse = AirPDU(.auxiliary, 17)
  public static let periodic = AirPDU(.auxiliary, 18)

  /// Name in the specification. Core 5.4, Vol 6, Part B, 2.3 and 2.4.
  public var name: String {
    switch kind {
    case .advertising: Self.name(Self.advertisingNames, code) ?? "advertising PDU \(code)"
    case .auxiliary where code >= 16: Self.name(Self.chainNames, code - 16) ?? "auxiliary PDU \(code)"
    case .auxiliary: Self.name(Self.auxiliaryNames, code) ?? "auxiliary PDU \(code)"
    case .data: Self.name(Self.dataNames, code) ?? "data PDU \(code)"
    case .control: Self.name(Self.controlNames, code) ?? "LL control \(code)"
    case .unknown: code == 3 ? "LL control" : "unknown PDU"
    }
  }

  private static func name(_ names: [String], _ code: UInt8) -> String? {
    Int(code) < names.count ? names[Int(code)] : nil
  }

  private static let advertisingNames = [
    "ADV_IND", "ADV_DIRECT_IND", "ADV_NONCONN_IND", "SCAN_REQ", "SCAN_RSP", "CONNECT_IND", "ADV_SCAN_IND",
    "ADV_EXT_IND",
  ]
  private static let auxiliaryNames = [
    "auxiliary PDU 0", "auxiliary PDU 1", "auxiliary PDU 2", "AUX_SCAN_REQ", "auxiliary PDU 4",
    "AUX_CONNECT_REQ",
    "auxiliary PDU 6", "AUX_ADV_IND", "AUX_CONNECT_RSP",
  ]
  private static let chainNames = ["AUX_CHAIN_IND", "AUX_SCAN_RSP", "AUX_SYNC_IND"]
  private static let dataNames = ["Empty PDU", "L2CAP continuation", "L2CAP start"]
  private static let controlNames = [
    "LL_CONNECTION_UPDATE_IND", "LL_CHANNEL_MAP_IND", "LL_TERMINATE_IND", "LL_ENC_REQ", "LL_ENC_RSP",
    "LL_START_ENC_REQ", "LL_START_ENC_RSP", "LL_UNKNOWN_RSP", "LL_FEATURE_REQ", "LL_FEATURE_RSP",
    "LL_PAUSE_ENC_REQ", "LL_PAUSE_ENC_RSP", "LL_VERSION_IND", "LL_REJECT_IND", "LL_PERIPHERAL_FEATURE_REQ",
    "LL_CONNECTION_PARAM_REQ", "LL_CONNECTION_PARAM_RSP", "LL_REJECT_EXT_IND", "LL_PING_REQ", "LL_PING_RSP",
    "LL_LENGTH_REQ", "LL_LENGTH_RSP", "LL_PHY_REQ", "LL_PHY_RSP", "LL_PHY_UPDATE_IND",
    "LL_MIN_USED_CHANNELS_IND", "LL_CTE_REQ", "LL_CTE_RSP", "LL_PERIODIC_SYNC_IND", "LL_CLOCK_ACCURACY_REQ",
    "LL_CLOCK_ACCURACY_RSP", "LL_CIS_REQ", "LL_CIS_RSP", "LL_CIS_IND", "LL_CIS_TERMINATE_IND",
    "LL_POWER_CONTROL_REQ", "LL_POWER_CONTROL_RSP", "LL_POWER_CHANGE_IND", "LL_SUBRATE_REQ", "LL_SUBRATE_IND",
    "LL_CHANNEL_REPORTING_IND", "LL_CHANNEL_STATUS_IND", "LL_PERIODIC_SYNC_WR_IND",
  ]
}
