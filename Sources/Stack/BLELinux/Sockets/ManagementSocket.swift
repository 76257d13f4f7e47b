import CBluetoothLinux

/// The kernel's management interface: commands to its Bluetooth host and events from it, for all adapters.
public enum ManagementSocket {
  /// Opens the control channel.
  ///
  /// `socket(AF_BLUETOOTH, SOCK_RAW, BTPROTO_HCI)`, `bind(HCI_DEV_NONE, HCI_CHANNEL_CONTROL)`. Without
  /// CAP_NET_ADMIN the open succeeds, but the kernel refuses nearly all commands and sends nearly no events.
  /// An inherited socket keeps the privileges of the process that opened it.
  package static func open() throws(SystemError) -> FileDescriptor {
    if let handed = InheritedSockets.take(.management) { return handed }
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    try checked("bind(HCI_CHANNEL_CONTROL)") {
      ringtap_hci_bind(number, UInt16(HCI_DEV_NONE), UInt16(HCI_CHANNEL_CONTROL))
    }
    return descriptor
  }
}
