import CBluetoothLinux

/// The kernel's monitor channel: a copy of every packet between the kernel and the controllers of all
/// adapters, and records of adapters that are added, removed, opened and closed.
public enum MonitorSocket {
  /// Size of the header of a record: opcode, adapter and length, 16 bits each, little-endian.
  /// `K: include/net/bluetooth/hci_mon.h`.
  package static let headerByteCount = 6
  /// Maximum size of a record in bytes: the length field has 16 bits.
  package static let recordByteCountLimit = headerByteCount + 65_535
  /// Adapter index of records that belong to no adapter.
  package static let noAdapter = UInt16(HCI_DEV_NONE)

  /// Opens the monitor channel with timestamps and a large receive buffer. The kernel first sends records of
  /// the existing adapters.
  ///
  /// `socket(AF_BLUETOOTH, SOCK_RAW, BTPROTO_HCI)`, `bind(HCI_DEV_NONE, HCI_CHANNEL_MONITOR)`. Requires
  /// CAP_NET_RAW, unless the socket was inherited.
  ///
  /// - Throws: EPERM without that capability.
  package static func open() throws(SystemError) -> FileDescriptor {
    if let handed = InheritedSockets.take(.monitor) { return handed }
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    // Before the bind, so that the records which the kernel sends first have timestamps too.
    descriptor.prepareToReceive()
    try checked("bind(HCI_CHANNEL_MONITOR)") {
      ringtap_hci_bind(number, noAdapter, UInt16(HCI_CHANNEL_MONITOR))
    }
    return descriptor
  }
}
