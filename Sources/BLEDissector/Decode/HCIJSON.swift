import BLECore
import BLEWire
import JSONText

/// `parameters` of `log show --json`: what commands, events, signals and the security manager's PDUs say, by name.
enum HCIJSON {
  /// Prints nothing for a packet without parameters. A status stands beside `parameters`, not in them.
  static func print(_ packet: borrowing DecodedPacket, into line: inout JSONLine) {
    let isCommand = packet.type == .command
    let octets = packet.packet
    let start = isCommand ? HCICommandPacket.headerByteCount : HCIEventPacket.headerByteCount
    guard octets.count > start else { return }
    line.key("parameters")
    line.object { line in
      do throws(WireError) {
        if isCommand {
          let command = try HCICommandPacket(validating: octets)
          let fields = HCICommandTable.layouts[command.opcode.rawValue]?.fields
          FieldJSON.print(fields, command.parameters, into: &line)
        } else {
          try print(HCIEventPacket(validating: octets), into: &line)
        }
      } catch {
        line.member("octets", hex: octets.extracting(start...))
      }
    }
  }

  private static func print(
    _ event: borrowing HCIEventPacket, into line: inout JSONLine
  ) throws(WireError) {
    let parameters = event.parameters
    switch event.code {
    case .commandComplete:
      let complete = try CommandComplete(validating: parameters)
      line.member("numHciCommandPackets", complete.credits)
      let returned = complete.returnParameters
      let layout = HCICommandTable.layouts[complete.opcode.rawValue]
      guard !returned.isEmpty else { return }
      // A command that failed may return no more than its status.
      let isShort = returned[0] != 0 && returned.count < layout?.minimumReturnedByteCount ?? 0
      FieldJSON.print(isShort ? nil : layout?.returned, returned, after: 1, into: &line)
    case .commandStatus:
      line.member("numHciCommandPackets", try CommandStatus(validating: parameters).credits)
    case .leMeta:
      try parameters.require(1, .hciEvent)
      let fields = HCIEventTable.subevents[UInt16(parameters[0])]?.fields
      print(fields, parameters.extracting(1...), into: &line)
    default: print(HCIEventTable.layouts[UInt16(event.code.rawValue)]?.fields, parameters, into: &line)
    }
  }

  private static func print(
    _ fields: [PacketField]?, _ parameters: Span<UInt8>, into line: inout JSONLine
  ) {
    var start = 0
    if case .status = fields?.first?.kind { start = 1 }
    FieldJSON.print(fields, parameters, after: start, into: &line)
  }
}

/// The members of `l2cap` and `smp` in `log show --json`.
enum ChannelJSON {
  /// Core 5.4, Vol 3, Part A, 4.
  static func printSignal(_ payload: Span<UInt8>, into line: inout JSONLine) {
    guard payload.count >= 2 else { return }
    let layout = SignallingTable.layouts[UInt16(payload[0])]
    line.member("code", payload[0])
    if let name = layout?.name { line.member("name", name) }
    line.member("identifier", payload[1])
    do throws(WireError) {
      let signal = try L2CAPSignal(validating: payload)
      line.key("parameters")
      line.object { line in FieldJSON.print(layout?.fields, signal.data, into: &line) }
    } catch {
      line.member("problem", "\(error)")
    }
  }

  /// Core 5.4, Vol 3, Part H, 3.3.
  static func printSMP(_ payload: Span<UInt8>, into line: inout JSONLine) {
    let layout = SMPTable.layouts[UInt16(payload[0])]
    line.member("code", payload[0])
    if let name = layout?.name { line.member("name", name) }
    line.key("parameters")
    line.object { line in FieldJSON.print(layout?.fields, payload.extracting(1...), into: &line) }
  }
}
