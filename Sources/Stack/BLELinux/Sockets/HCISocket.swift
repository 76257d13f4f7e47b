public import BLEWire
import CBluetoothLinux

/// A Bluetooth adapter as the kernel describes it.
public struct AdapterInfo: Hashable, Sendable {
  /// Index of the adapter: 0 for `hci0`.
  public let index: UInt16
  public let address: DeviceAddress
  /// `HCI_UP`: the adapter is up, and the kernel's host uses it.
  public let isUp: Bool
  /// Bus number in the kernel: 0 virtual, 1 USB, 3 UART, 5 SDIO, …
  public let bus: UInt8

  public var name: String { "hci\(index)" }

  public init(index: UInt16, address: DeviceAddress, isUp: Bool, bus: UInt8) {
    (self.index, self.address, self.isUp, self.bus) = (index, address, isUp, bus)
  }

  /// Returns all adapters, by index. Requires no capability.
  ///
  /// `ioctl(HCIGETDEVLIST)`, `ioctl(HCIGETDEVINFO)`.
  ///
  /// - Throws: EAFNOSUPPORT if the kernel does not support Bluetooth, or outside the initial network
  ///   namespace.
  public static func all() throws(SystemError) -> [AdapterInfo] {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    var ids = [UInt16](repeating: 0, count: Int(HCI_MAX_DEV))
    let capacity = CInt(ids.count)
    let count = try checked("ioctl(HCIGETDEVLIST)") {
      // SAFETY: `ids` has room for `capacity` numbers.
      unsafe ringtap_hci_device_list(number, &ids, capacity)
    }
    var adapters: [AdapterInfo] = []
    for id in ids.prefix(Int(count)).sorted() {
      var info = ringtap_hci_device()
      // SAFETY: `info` outlives the call. An adapter unplugged since the listing is skipped.
      guard unsafe ringtap_hci_device_info(number, id, &info) == 0 else { continue }
      adapters.append(
        AdapterInfo(
          index: id, address: DeviceAddress(bits: info.address, type: .public),
          isUp: info.flags & 1 << UInt32(HCI_UP) != 0, bus: info.bus))
    }
    return adapters
  }
}

/// The HCI raw channel, which receives the events of one adapter, and sends commands to the adapter in
/// addition to the kernel's commands.
public enum HCISocket {
  /// Opens the raw channel for events and for the commands of other hosts, with kernel timestamps if
  /// supported.
  ///
  /// `socket(AF_BLUETOOTH, SOCK_RAW, BTPROTO_HCI)`, `bind(HCI_CHANNEL_RAW)`. LE commands and LE Meta events
  /// require CAP_NET_RAW. Without this capability the kernel silently drops them, so check for it first.
  package static func openRaw(index: UInt16) throws(SystemError) -> FileDescriptor {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI, name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    try checked("setsockopt(HCI_FILTER)") {
      ringtap_hci_set_filter(number, 1 << UInt32(HCI_COMMAND_PKT) | 1 << UInt32(HCI_EVENT_PKT), .max, .max)
    }
    // Best effort: without kernel timestamps the time of arrival is used.
    _ = ringtap_hci_enable_time_stamps(number)
    try checked("bind(HCI_CHANNEL_RAW)") {
      ringtap_hci_bind(number, index, UInt16(HCI_CHANNEL_RAW))
    }
    return descriptor
  }
}

extension FileDescriptor {
  /// Sends a command on the raw channel.
  ///
  /// `send`, on the thread that holds CAP_NET_RAW if there is such a thread.
  package func sendCommand(_ packet: Span<UInt8>) throws(SystemError) {
    let number = rawValue
    try checked("send") {
      ringtap_note_system_call()
      // SAFETY: the pointer covers the span for the length of the call.
      return unsafe packet.withUnsafeBufferPointer {
        unsafe ringtap_hci_send(number, $0.baseAddress, $0.count)
      }
    }
  }
}

/// The kernel's monitor channel: a copy of every packet between the kernel and the controllers of all
/// adapters, and records of adapters that are added, removed, opened and closed.
public enum MonitorSocket {
  /// Size of the header of a record: opcode, adapter and length, 16 bits each, little-endian. Linux,
  /// `include/net/bluetooth/hci_mon.h`.
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
    // Before the bind, so that the kernel's first records also have timestamps.
    descriptor.prepareToReceive()
    try checked("bind(HCI_CHANNEL_MONITOR)") {
      ringtap_hci_bind(number, noAdapter, UInt16(HCI_CHANNEL_MONITOR))
    }
    return descriptor
  }
}
