import BLECore
import BLEWire

/// Commands and events in words: a title for the header line, and the lines below it.
enum HCIText {
  static func title(_ packet: borrowing DecodedPacket) -> String {
    let octets = packet.packet
    switch packet.type {
    case .command where octets.count >= 3:
      let opcode = HCIOpcode(rawValue: octets.u16(at: 0))
      return "HCI Command: \(opcode.logName) \(opcode.logNumber) plen \(octets[2])"
    case .event where octets.count >= 2:
      let code = HCIEventCode(rawValue: octets[0])
      return "HCI Event: \(code.logName) (0x\(hexadecimal(code.rawValue))) plen \(octets[1])"
    case .command, .event: return packet.type == .command ? "HCI Command:" : "HCI Event:"
    default: return dataTitle(packet)
    }
  }

  private static func dataTitle(_ packet: borrowing DecodedPacket) -> String {
    var title = "\(packet.type.title) \(packet.direction == .hostToController ? "TX" : "RX"):"
    if let handle = packet.connectionHandle {
      title += " Handle \(handle.rawValue)"
      if packet.packet.count >= 2 {
        title += " flags 0x\(hexadecimal(UInt8(packet.packet.u16(at: 0) >> 12)))"
      }
    }
    return title + " dlen \(max(0, packet.packet.count - (packet.connectionHandle == nil ? 0 : 4)))"
  }

  static func print(_ packet: borrowing DecodedPacket, into text: inout PacketText) {
    do throws(WireError) {
      if packet.type == .command {
        let command = try HCICommandPacket(validating: packet.packet)
        let fields = HCICommandTable.layouts[command.opcode.rawValue]?.fields
        print(fields, command.parameters, into: &text)
      } else {
        try print(HCIEventPacket(validating: packet.packet), into: &text)
      }
    } catch {
      text.malformed(8, "\(error)", packet.packet)
    }
  }

  private static func print(_ event: borrowing HCIEventPacket, into text: inout PacketText) throws(WireError)
  {
    let parameters = event.parameters
    switch event.code {
    case .commandComplete:
      let complete = try CommandComplete(validating: parameters)
      text.line(6, "\(complete.opcode.logName) \(complete.opcode.logNumber) ncmd \(complete.credits)")
      let returned = complete.returnParameters
      let layout = HCICommandTable.layouts[complete.opcode.rawValue]
      // A command that failed may return no more than its status.
      let isShort =
        !returned.isEmpty && returned[0] != 0 && returned.count < layout?.minimumReturnedByteCount ?? 0
      print(isShort ? nil : layout?.returned, returned, into: &text, isStatus: true)
    case .commandStatus:
      let status = try CommandStatus(validating: parameters)
      text.line(6, "\(status.opcode.logName) \(status.opcode.logNumber) ncmd \(status.credits)")
      printStatus(status.status, into: &text)
    case .leMeta:
      try parameters.require(1, .hciEvent)
      let subevent = LESubevent(rawValue: parameters[0])
      text.line(6, "\(subevent.logName) (0x\(hexadecimal(subevent.rawValue)))")
      let layout = HCIEventTable.subevents[UInt16(subevent.rawValue)]
      print(layout?.fields, parameters.extracting(1...), into: &text)
    default: print(HCIEventTable.layouts[UInt16(event.code.rawValue)]?.fields, parameters, into: &text)
    }
  }

  private static func printStatus(_ status: HCIStatus, into text: inout PacketText) {
    text.line(8, "Status: \(HCIStatusNames.name(of: status)) (0x\(hexadecimal(status.rawValue)))")
  }

  /// - Parameter isStatus: whether parameters without fields start with a status.
  private static func print(
    _ fields: [PacketField]?, _ parameters: Span<UInt8>, into text: inout PacketText, isStatus: Bool = false
  ) {
    if let fields {
      FieldPrinter.print(fields, parameters, 8, into: &text)
    } else if isStatus, !parameters.isEmpty {
      printStatus(HCIStatus(rawValue: parameters[0]), into: &text)
      text.dump(8, parameters.extracting(1...))
    } else {
      text.dump(8, parameters)
    }
  }
}
