public import BLEWire

/// What the kernel's monitor says of a record beside its octets.
public struct MonitorRecordHeader: Hashable, Sendable, BitwiseCopyable {
  /// What the record is; HCI packets are some of them.
  public var opcode: UInt16
  /// The `0` of `hci0`; 0xFFFF for records that belong to no adapter.
  public var adapter: UInt16
  public var time: ReceiveTime

  public init(opcode: UInt16, adapter: UInt16, time: ReceiveTime) {
    self.opcode = opcode
    self.adapter = adapter
    self.time = time
  }

  /// What the monitor would have said of a record, if it is one of HCI.
  public init?(_ record: PacketRecordHeader) {
    guard record.type != nil || record.note != nil else { return nil }
    self.init(
      opcode: UInt16(truncatingIfNeeded: record.flags), adapter: record.adapter, time: record.time)
  }
}

/// Opcodes of the records that say which adapters are there. `doc/btsnoop-protocol.rst` of BlueZ.
public enum MonitorAdapterNote {
  public static let newIndex: UInt16 = 0
  public static let deletedIndex: UInt16 = 1
  public static let openIndex: UInt16 = 8
  public static let closeIndex: UInt16 = 9
  public static let indexInformation: UInt16 = 10
}
