public import BLEWire

/// What programs ask of a command or an event: which, of which link, with what outcome.
public struct HCISummary: Hashable, Sendable, BitwiseCopyable {
  /// Of a command, and of what a Command Complete or Command Status answers.
  public internal(set) var opcode: HCIOpcode?
  public internal(set) var event: HCIEventCode?
  public internal(set) var subevent: LESubevent?
  public internal(set) var status: HCIStatus?
  /// The first link that the parameters name.
  var handle: UInt16?
  /// Why parameters are missing that the command or event has.
  var problem: WireError?

  init() {}

  /// - Parameter packet: a command without its H4 type octet.
  init(command packet: Span<UInt8>) {
    do throws(WireError) {
      self = try HCIParameters(command: packet).summary
    } catch {
      problem = error
      if packet.count >= 2 { opcode = HCIOpcode(rawValue: packet.u16(at: 0)) }
    }
  }

  /// - Parameter packet: an event without its H4 type octet.
  init(event packet: Span<UInt8>) {
    do throws(WireError) {
      self = try HCIParameters(event: packet).summary
    } catch {
      problem = error
      if !packet.isEmpty { event = HCIEventCode(rawValue: packet[0]) }
    }
  }

  /// Takes what the fields say of the link and the outcome.
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
  /// The name that `btmon` prints.
  package var logName: String {
    HCICommandTable.layouts[rawValue]?.name ?? (rawValue >> 10 == 0x3F ? "Vendor" : "Unknown")
  }

  /// `(0x08|0x000d)`: group and command.
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
