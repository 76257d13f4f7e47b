import BLECore
import BLEPacketLog
import BLEWire

/// What a controller reports of a legacy advertising PDU. Core 5.4, Vol 6, Part B, 2.3.1 and 2.3.2.
struct LegacyReport {
  private let type: UInt8
  private let data: Range<Int>

  /// - Parameter pdu: header and payload; `nil` for another kind, or one that is too short or too long.
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

/// What a controller reports of a PDU of extended advertising. Core 5.4, Vol 6, Part B, 2.3.4.
struct ExtendedReport {
  private let mode: UInt8
  private var address: Int?
  private var target: Int?
  private var set: UInt8 = 0xFF
  private var power: UInt8 = 127
  private var hasMore = false
  private var data: Range<Int>

  /// - Returns: `nil` for another kind of PDU, for one that says neither who sent it nor data, and for one whose fields do not
  ///   fit.
  init?(_ pdu: Span<UInt8>) {
    guard pdu[0] & 0x0F == 0x07, pdu.count >= 3 else { return nil }
    mode = pdu[2] >> 6
    let end = 3 + Int(pdu[2] & 0x3F)
    guard end <= pdu.count else { return nil }
    data = end..<pdu.count
    if end > 3 {
      let flags = pdu[3]
      var offset = 4
      for (bit, byteCount) in [6, 6, 1, 2, 3, 18, 1].enumerated() where flags >> UInt8(bit) & 1 == 1 {
        guard offset + byteCount <= end else { return nil }
        switch bit {
        case 0: address = offset
        case 1: target = offset
        case 3: set = pdu[offset + 1] >> 4
        case 4: hasMore = true
        case 6: power = pdu[offset]
        default: break
        }
        offset += byteCount
      }
    }
    guard address != nil, !data.isEmpty || !hasMore, data.count <= 229 else { return nil }
  }

  func encode(_ pdu: Span<UInt8>, _ packet: AirPacket, into output: inout OutputSpan<UInt8>) {
    output.append(HCIEventCode.leMeta.rawValue)
    output.append(0)
    output.append(LESubevent.extendedAdvertisingReport.rawValue)
    output.append(1)
    output.append(u16: UInt16(mode & 0b11) | (target == nil ? 0 : 0x04) | (hasMore ? 0x20 : 0))
    output.append(pdu[0] >> 6 & 1)
    if let address { output.append(pdu.address(at: address, type: .public)) }
    output.append(packet.phy == .leCoded ? 3 : 1)
    output.append(packet.pdu.kind == .auxiliary ? packet.phy.rawValue : 0)
    output.append(set)
    output.append(power)
    output.append(UInt8(bitPattern: packet.rssi ?? 127))
    output.append(u16: 0)
    output.append(target == nil ? 0 : pdu[0] >> 7)
    if let target { output.append(pdu.address(at: target, type: .public)) } else { output.append(zeros: 6) }
    output.append(UInt8(data.count))
    output.append(pdu.extracting(data))
  }
}
