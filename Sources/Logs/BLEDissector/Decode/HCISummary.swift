import BLEPacketLog
public import BLEWire

/// Summary of a command or an event: type, link and status.
public struct HCISummary: Hashable, Sendable, BitwiseCopyable {
  /// Opcode of a command, or of the command to which a Command Complete or Command Status refers.
  public internal(set) var opcode: HCIOpcode?
  public internal(set) var event: HCIEventCode?
  public internal(set) var subevent: LESubevent?
  public internal(set) var status: HCIStatus?
  /// The first connection handle among the parameters.
  var handle: UInt16?
  /// The reason for missing parameters.
  var problem: WireError?

  init() {}

  /// Summarises a command.
  ///
  /// - Parameter packet: a command without its H4 type byte.
  init(command packet: Span<UInt8>) {
    do throws(WireError) {
      self = try HCIParameters(command: packet).summary
    } catch {
      problem = error
      if packet.count >= 2 { opcode = HCIOpcode(rawValue: packet.u16(at: 0)) }
    }
  }

  /// Summarises an event.
  ///
  /// - Parameter packet: an event without its H4 type byte.
  init(event packet: Span<UInt8>) {
    do throws(WireError) {
      self = try HCIParameters(event: packet).summary
    } catch {
      problem = error
      if !packet.isEmpty { event = HCIEventCode(rawValue: packet[0]) }
    }
  }

  /// Reads the connection handle and the status from the fields.
  mutating func read(
    _ fields: [PacketField]?, _ minimum: Int?, _ parameters: Span<UInt8>, _ layer: WireError.Layer
  ) {
    guard let fields, let minimum else { return }
    if case .status = fields.first?.kind, !parameters.isEmpty { status = HCIStatus(rawValue: parameters[0]) }
    if let offset = PacketLayout.handleOffset(fields), parameters.count >= offset + 2 {
      handle = parameters.u16(at: offset)
    }
    if parameters.count < minimum {
      problem = .truncated(layer, needed: minimum, available: parameters.count)
    }
  }
}

extension HCIOpcode {
  /// The command's name as printed by `btmon`.
  package var logName: String {
    HCICommandTable.layouts[rawValue]?.name ?? (rawValue >> 10 == 0x3F ? "Vendor" : "Unknown")
  }

  /// Opcode group and command, such as `(0x08|0x000d)`.
  var logNumber: String {
    "(0x\(hexadecimal(UInt8(rawValue >> 10)))|\(PacketText.hex(UInt64(rawValue & 0x03FF), digits: 4)))"
  }
}

extension HCIEventCode {
  package var logName: String { HCIEventTable.layouts[UInt16(rawValue)]?.name ?? "Unknown" }
}

extension LESubevent {
  package var logName: String { HCIEventTable.subevents[UInt16(rawValue)]?.name ?? "Unknown" }
}
