import BLEWire

/// The advertising report for a legacy advertising PDU. Core 5.4, Vol 6, Part B, 2.3.1 and 2.3.2.
struct LegacyReport {
  private let type: UInt8
  private let data: Range<Int>

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
