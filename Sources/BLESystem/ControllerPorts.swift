import CBluetoothLinux
import Glibc

/// Ways to a controller that is ours alone.
public enum ControllerPort {
  public enum FlowControl: Sendable {
    case none
    /// RTS and CTS.
    case hardware
  }

  /// The HCI user channel: one packet to a datagram, H4 type octet first. The kernel's host lets the adapter go
  /// until it is closed.
  ///
  /// `bind(HCI_CHANNEL_USER)`. Needs CAP_NET_ADMIN and an adapter that is down.
  ///
  /// - Throws: EBUSY while the adapter is up, EUSERS while another program has it, ENODEV where there is none.
  package static func userChannel(index: UInt16) throws(SystemError) -> FileDescriptor {
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI,
      name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    try checked("bind(HCI_CHANNEL_USER)") {
      ringtap_hci_bind(number, index, UInt16(HCI_CHANNEL_USER))
    }
    return descriptor
  }

  /// A serial port, raw, 8N1.
  ///
  /// - Throws: EINVAL for a rate that termios does not know.
  package static func serial(
    path: String, baud: UInt32, flow: FlowControl
  ) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe ringtap_serial_open(path, baud, flow == .hardware ? 1 : 0)
      })
  }

  /// - Throws: EHOSTUNREACH for a name that does not resolve.
  package static func tcp(host: String, port: UInt16) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("connect \(host):\(port)") {
        // SAFETY: both are null-terminated strings for the length of the call.
        unsafe ringtap_tcp_connect(host, String(port))
      })
  }

  package static func unix(path: String) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("connect \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe ringtap_unix_connect(path)
      })
  }

  /// Two ends of a packet socket inside this process.
  package static func pair() throws(SystemError) -> PacketPair {
    var numbers: [CInt] = [-1, -1]
    try checked("socketpair") {
      // SAFETY: two descriptors go into room for two.
      unsafe ringtap_packet_pair(&numbers)
    }
    return PacketPair(
      host: FileDescriptor(owning: numbers[0]), controller: FileDescriptor(owning: numbers[1]))
  }

  package struct PacketPair: ~Copyable {
    private var host: FileDescriptor?
    private var controller: FileDescriptor?

    init(host: consuming FileDescriptor, controller: consuming FileDescriptor) {
      self.host = consume host
      self.controller = consume controller
    }

    /// Each end can be taken once.
    package mutating func takeHost() -> FileDescriptor { host.take()! }
    package mutating func takeController() -> FileDescriptor { controller.take()! }
  }
}
