import BLECore
import BLEWire

/// What an L2CAP frame carries, in words.
enum ChannelText {
  static func print(_ packet: borrowing DecodedPacket, into text: inout PacketText) {
    guard let channelID = packet.channelID, let payload = packet.payload else { return }
    switch channelID {
    case ATT.channelID: if let att = packet.att { ATTText.print(att, into: &text) }
    case L2CAPFrame.FixedChannel.signalling: printSignal(payload, into: &text)
    case L2CAPFrame.FixedChannel.securityManager: printSMP(payload, into: &text)
    default:
      text.line(6, "Channel: \(channelID) len \(payload.count)")
      text.dump(8, payload)
    }
  }

  private static func printSignal(_ payload: Span<UInt8>, into text: inout PacketText) {
    do throws(WireError) {
      let signal = try L2CAPSignal(validating: payload)
      let layout = SignallingTable.layouts[UInt16(signal.code)]
      text.line(
        6,
        "LE L2CAP: \(layout?.name ?? "Unknown") (0x\(hexadecimal(signal.code))) ident \(signal.identifier) "
          + "len \(signal.data.count)")
      print(layout?.fields, signal.data, into: &text)
    } catch {
      text.line(6, "LE L2CAP: len \(payload.count)")
      text.malformed(8, "\(error)", payload)
    }
  }

  private static func printSMP(_ payload: Span<UInt8>, into text: inout PacketText) {
    guard !payload.isEmpty else {
      text.line(6, "SMP: len 0")
      return
    }
    let layout = SMPTable.layouts[UInt16(payload[0])]
    text.line(6, "SMP: \(layout?.name ?? "Unknown") (0x\(hexadecimal(payload[0]))) len \(payload.count - 1)")
    print(layout?.fields, payload.extracting(1...), into: &text)
  }

  private static func print(_ fields: [PacketField]?, _ data: Span<UInt8>, into text: inout PacketText) {
    if let fields {
      FieldPrinter.print(fields, data, 8, into: &text)
    } else {
      text.dump(8, data)
    }
  }
}
