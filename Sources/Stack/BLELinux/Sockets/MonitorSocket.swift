import CBluetoothLinux

/// The kernel's monitor: a copy of every packet between it and its controllers, of all adapters, and notes of what
/// happens to them.
public enum MonitorSocket {
  /// Octets before each record's payload: opcode, adapter and length, 16 bits each, little-endian.
  /// `K: include/net/bluetooth/hci_mon.h`.
  package static let headerByteCount = 6
  /// The longest record: a length of 16 bits.
  package static let recordByteCountLimit = headerByteCount + 65_535
  /// What stands instead of an adapter's index in records that belong to none.
  package static let noAdapter = UInt16(HCI_DEV_NONE)

  /// Opens the monitor channel with stamps and a large receive buffer. The adapters that are there are told first.
  ///
  /// `socket(AF_BLUETOOTH, SOCK_RAW, BTPROTO_HCI)`, `bind(HCI_DEV_NONE, HCI_CHANNEL_MONITOR)`. Needs CAP_NET_RAW; nothing
  /// where it was handed over.
  ///
  /// - Throws: EPERM without that capability.
  package static func open() throws(SystemError) -> FileDescriptor {
    if let handed = InheritedSockets.take(.monitor) { return handed }
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    // First, so that what the bind brings is stamped too.
    descriptor.prepareToReceive()
    try checked("bind(HCI_CHANNEL_MONITOR)") {
      ringtap_hci_bind(number, noAdapter, UInt16(HCI_CHANNEL_MONITOR))
    }
    return descriptor
  }
}
