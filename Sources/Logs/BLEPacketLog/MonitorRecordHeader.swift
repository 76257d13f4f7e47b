public import BLEWire

/// Metadata of a record of the kernel's monitor.
public struct MonitorRecordHeader: Hashable, Sendable, BitwiseCopyable {
  /// Type of the record; some types are HCI packets.
  public var opcode: UInt16
  /// The `0` of `hci0`; 0xFFFF for records without an adapter.
  public var adapter: UInt16
  public var time: ReceiveTime

  public init(opcode: UInt16, adapter: UInt16, time: ReceiveTime) {
    self.opcode = opcode
    self.adapter = adapter
    self.time = time
  }

  /// Makes the monitor's header for a record; `nil` if it is not an HCI packet or note.
  public init?(_ record: PacketRecordHeader) {
    guard record.type != nil || record.note != nil else { return nil }
    self.init(
      opcode: UInt16(truncatingIfNeeded: record.flags), adapter: record.adapter, time: record.time)
  }
}

/// Opcodes of the records that announce adapters. `doc/btsnoop-protocol.rst` of BlueZ.
public enum MonitorAdapterNote {
  public static let newIndex: UInt16 = 0
  public static let deletedIndex: UInt16 = 1
  public static let openIndex: UInt16 = 8
  public static let closeIndex: UInt16 = 9
  public static let indexInformation: UInt16 = 10
}
