public import BLECore
import BLEWire

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
}

/// Opcodes of the records that say which adapters are there. `doc/btsnoop-protocol.rst` of BlueZ.
public enum MonitorAdapterNote {
  public static let newIndex: UInt16 = 0
  public static let deletedIndex: UInt16 = 1
  public static let openIndex: UInt16 = 8
  public static let closeIndex: UInt16 = 9
  public static let indexInformation: UInt16 = 10
}

extension BTSnoopWriter {
  /// One record of the monitor as it is, HCI packet or note, in format 2001.
  ///
  /// It takes `recordByteCount(packet:)` octets of its payload.
  public func encode(
    _ payload: Span<UInt8>, of record: MonitorRecordHeader, into output: inout OutputSpan<UInt8>
  ) {
    precondition(format == .monitor, "only format 2001 has room for the monitor's opcodes")
    BTSnoopRecordHeader(
      originalByteCount: UInt32(payload.count), includedByteCount: UInt32(payload.count),
      flags: UInt32(record.adapter) << 16 | UInt32(record.opcode), cumulativeDrops: cumulativeDrops,
      microseconds: BTSnoopRecordHeader.microseconds(of: record.time)
    ).encode(into: &output)
    output.append(payload)
  }
}
