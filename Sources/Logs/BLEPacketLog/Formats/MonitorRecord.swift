public import BLEWire

/// Metadata of a record of the kernel's monitor.
public struct MonitorRecordHeader: Hashable, Sendable, BitwiseCopyable {
  /// Type of the record; some types are HCI packets.
  public var opcode: UInt16
  /// Number of the adapter, such as 0 for `hci0`; 0xFFFF for records without an adapter.
  public var adapter: UInt16
  public var time: ReceiveTime

  public init(opcode: UInt16, adapter: UInt16, time: ReceiveTime) {
    self.opcode = opcode
    self.adapter = adapter
    self.time = time
  }

  /// Makes the monitor's header for a record; `nil` if the record is neither an HCI packet nor a note.
  public init?(_ record: PacketRecordHeader) {
    guard record.type != nil || record.note != nil else { return nil }
    self.init(
      opcode: UInt16(truncatingIfNeeded: record.flags), adapter: record.adapter, time: record.time)
  }
}

/// Opcode of a Linux monitor record that is not a packet. Unknown opcodes are kept. See BlueZ,
/// `doc/btsnoop-protocol.rst`.
public struct MonitorOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let newIndex = MonitorOpcode(rawValue: 0)
  public static let deleteIndex = MonitorOpcode(rawValue: 1)
  public static let openIndex = MonitorOpcode(rawValue: 8)
  public static let closeIndex = MonitorOpcode(rawValue: 9)
  public static let indexInformation = MonitorOpcode(rawValue: 10)
  public static let vendorDiagnostics = MonitorOpcode(rawValue: 11)
  public static let systemNote = MonitorOpcode(rawValue: 12)
  public static let userLogging = MonitorOpcode(rawValue: 13)
  public static let controlOpen = MonitorOpcode(rawValue: 14)
  public static let controlClose = MonitorOpcode(rawValue: 15)
  public static let controlCommand = MonitorOpcode(rawValue: 16)
  public static let controlEvent = MonitorOpcode(rawValue: 17)
}

/// Opcodes of format 2001 that are HCI packets. `doc/btsnoop-protocol.rst` of BlueZ.
enum BTSnoopMonitorOpcode {
  /// Returns type and direction of a packet, or `nil` for notes.
  static func packet(_ opcode: UInt16) -> (type: HCIPacketType, direction: HCIDirection)? {
    switch opcode {
    case 2: (.command, .hostToController)
    case 3: (.event, .controllerToHost)
    case 4: (.acl, .hostToController)
    case 5: (.acl, .controllerToHost)
    case 6: (.sco, .hostToController)
    case 7: (.sco, .controllerToHost)
    case 18: (.iso, .hostToController)
    case 19: (.iso, .controllerToHost)
    default: nil
    }
  }

  /// Returns the opcode of a packet. Packets without an opcode are stored as vendor diagnostics (11).
  static func opcode(type: HCIPacketType, direction: HCIDirection) -> UInt16 {
    let isFromController = direction == .controllerToHost
    return switch type {
    case .command: 2
    case .event: 3
    case .acl: isFromController ? 5 : 4
    case .sco: isFromController ? 7 : 6
    case .iso: isFromController ? 19 : 18
    default: 11
    }
  }
}
