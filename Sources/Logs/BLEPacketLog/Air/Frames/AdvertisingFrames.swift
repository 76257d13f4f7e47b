import BLEWire

/// Fields of an advertising PDU with an extended header: ADV_EXT_IND and the PDUs to which it points. Core
/// 5.4, Vol 6, Part B, 2.3.4.
struct ExtendedPDU {
  /// Pointer to the next packet. Core 5.4, Vol 6, Part B, 2.3.4.5.
  struct Pointer {
    let channel: UInt8
    /// Minimum time from the start of this packet to the start of the next.
    let offset: TimeSpan
    /// Maximum time by which the next packet may start later.
    let unit: TimeSpan
    /// PHY of the next packet; `nil` for a reserved value.
    let phy: LEPHY?

    /// Reads the field.
    ///
    /// - Parameter octets: the three bytes of the field.
    init(_ octets: Span<UInt8>) {
      let bits = octets.u24(at: 0)
      channel = UInt8(bits & 0x3F)
      unit = TimeSpan(nanoseconds: bits & 0x80 == 0 ? 30_000 : 300_000)
      offset = TimeSpan(nanoseconds: Int64(bits >> 8 & 0x1FFF) * unit.nanoseconds)
      phy = LEPHY(rawValue: UInt8(bits >> 21) + 1)
    }
  }

  let mode: UInt8
  private(set) var advertiser: DeviceAddress?
  private(set) var target: DeviceAddress?
  /// Advertising set (SID, 4 bits) and data (DID, 12 bits), as in the field.
  private(set) var identifier: UInt16?
  private(set) var pointer: Pointer?
  /// Access address and CRC initialization value of a periodic train.
  private(set) var train: (accessAddress: UInt32, crcStart: UInt32)?
  /// Transmit power in dBm.
  private(set) var power: UInt8?
  /// Range of the advertising data within the PDU.
  let data: Range<Int>

  /// Parses a PDU.
  ///
  /// - Parameter pdu: header and payload. The result is `nil` if the PDU has another type, or is shorter than
  ///   its fields.
  init?(_ pdu: Span<UInt8>) {
    guard pdu[0] & 0x0F == 0x07, pdu.count >= 3 else { return nil }
    mode = pdu[2] >> 6
    let end = 3 + Int(pdu[2] & 0x3F)
    guard end <= pdu.count else { return nil }
    data = end..<pdu.count
    guard end > 3 else { return }
    let flags = pdu[3]
    var offset = 4
    for (bit, byteCount) in [6, 6, 1, 2, 3, 18, 1].enumerated() where flags >> UInt8(bit) & 1 == 1 {
      guard offset + byteCount <= end else { return nil }
      switch bit {
      case 0: advertiser = pdu.address(at: offset, type: pdu[0] & 0x40 == 0 ? .public : .random)
      case 1: target = pdu.address(at: offset, type: pdu[0] & 0x80 == 0 ? .public : .random)
      case 3: identifier = pdu.u16(at: offset)
      case 4: pointer = Pointer(pdu.extracting(offset..<offset + byteCount))
      case 5: train = (pdu.u32(at: offset + 9), pdu.u24(at: offset + 13))
      case 6: power = pdu[offset]
      default: break
      }
      offset += byteCount
    }
  }
}

/// One LE Extended Advertising Report. Core 5.4, Vol 4, Part E, 7.7.65.13.
struct ExtendedReport {
  /// Data status, as in the bits of the event type.
  enum Status: UInt16 {
    case complete = 0x00
    case more = 0x20
    case truncated = 0x40
  }

  /// Maximum size of the data in one report, in bytes.
  static let maximumByteCount = 229

  var mode: UInt8
  var isScanResponse = false
  /// Address of the advertiser; `nil` for an anonymous advertiser.
  var advertiser: DeviceAddress?
  var target: DeviceAddress?
  var identifier: UInt16?
  var power: UInt8?
  var primaryPHY: UInt8

  /// Encodes the report as an event.
  ///
  /// - Parameter packet: the last packet of the report.
  func encode(
    _ data: Span<UInt8>, _ status: Status, _ packet: AirPacket, into output: inout OutputSpan<UInt8>
  ) {
    output.append(HCIEventCode.leMeta.rawValue)
    output.append(0)
    output.append(LESubevent.extendedAdvertisingReport.rawValue)
    output.append(1)
    let kind = UInt16(mode & 0b11) | (target == nil ? 0 : 0x04) | (isScanResponse ? 0x08 : 0)
    output.append(u16: kind | status.rawValue)
    Self.append(advertiser, otherwise: 0xFF, to: &output)
    output.append(primaryPHY)
    output.append(packet.pdu.kind == .auxiliary ? packet.phy.rawValue : 0)
    output.append(identifier.map { UInt8($0 >> 12) } ?? 0xFF)
    output.append(power ?? 127)
    output.append(UInt8(bitPattern: packet.rssi ?? 127))
    output.append(u16: 0)
    Self.append(target, otherwise: 0, to: &output)
    output.append(UInt8(data.count))
    output.append(data)
  }

  private static func append(
    _ address: DeviceAddress?, otherwise type: UInt8, to output: inout OutputSpan<UInt8>
  ) {
    output.append(address.map { $0.type == .public ? 0 : 1 } ?? type)
    output.append(address ?? .any)
  }
}

/// Start of a connection on the air: CONNECT_IND or AUX_CONNECT_REQ. Core 5.4, Vol 6, Part B, 2.3.3.1.
struct ConnectIndication: Hashable {
  static let byteCount = 34

  let central: DeviceAddress
  let peripheral: DeviceAddress
  let accessAddress: UInt32
  let crcStart: UInt32
  /// Window offset in units of 1.25 ms.
  let windowOffset: UInt16
  let parameters: LinkParameters
  /// Channel map: one bit for each of the channels 0 … 36.
  let channelMap: UInt64

  /// Parses a PDU; `nil` if the PDU is no such request.
  ///
  /// - Parameter pdu: header and payload.
  init?(_ pdu: Span<UInt8>) {
    guard pdu.count >= 2 + Self.byteCount else { return nil }
    let payload = pdu.extracting(2...)
    central = payload.address(at: 0, type: pdu[0] & 0x40 == 0 ? .public : .random)
    peripheral = payload.address(at: 6, type: pdu[0] & 0x80 == 0 ? .public : .random)
    accessAddress = payload.u32(at: 12)
    crcStart = payload.u24(at: 16)
    windowOffset = payload.u16(at: 20)
    parameters = LinkParameters(
      interval: payload.u16(at: 22), latency: payload.u16(at: 24), supervisionTimeout: payload.u16(at: 26))
    channelMap = payload.channelMap(at: 28)
  }
}

extension Span where Element == UInt8 {
  /// Reads a channel map, which uses 37 bits of five bytes.
  func channelMap(at offset: Int) -> UInt64 {
    (UInt64(u32(at: offset)) | UInt64(self[offset + 4]) << 32) & AirConnection.allChannels
  }
}

/// The advertising report for a legacy advertising PDU. Core 5.4, Vol 6, Part B, 2.3.1 and 2.3.2.
struct LegacyReport {
  private let type: UInt8
  private let data: Range<Int>

  /// Parses a PDU.
  ///
  /// - Parameter pdu: header and payload. The result is `nil` if the PDU has another type or an invalid
  ///   length.
  init?(_ pdu: Span<UInt8>) {
    let payload = pdu.count - 2
    switch pdu[0] & 0x0F {
    case 0x00: type = 0x00
    case 0x01: type = 0x01
    case 0x02: type = 0x03
    case 0x04: type = 0x04
    case 0x06: type = 0x02
    default: return nil
    }
    if type == 0x01 {
      guard payload == 12 else { return nil }
      data = 0..<0
    } else {
      guard (6...37).contains(payload) else { return nil }
      data = 8..<pdu.count
    }
  }

  func encode(_ pdu: Span<UInt8>, rssi: Int8?, into output: inout OutputSpan<UInt8>) {
    output.append(HCIEventCode.leMeta.rawValue)
    output.append(0)
    output.append(LESubevent.advertisingReport.rawValue)
    output.append(1)
    output.append(type)
    output.append(pdu[0] >> 6 & 1)
    output.append(pdu.address(at: 2, type: .public))
    output.append(UInt8(data.count))
    output.append(pdu.extracting(data))
    output.append(UInt8(bitPattern: rssi ?? 127))
  }
}
