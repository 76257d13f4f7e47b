import CBluetoothLinux
import Glibc

/// Transports to a controller that only this process uses.
public enum ControllerPort {
  public enum FlowControl: Sendable {
    case none
    /// Hardware flow control with RTS and CTS.
    case hardware
  }

  /// Opens the HCI user channel: one packet per datagram, preceded by its H4 type byte. The kernel's host
  /// does not use the adapter until the channel is closed.
  ///
  /// `bind(HCI_CHANNEL_USER)`. Requires CAP_NET_ADMIN and an adapter that is down, unless the socket was
  /// inherited.
  ///
  /// - Throws: EBUSY while the adapter is up, EUSERS if another program uses the adapter, ENODEV if there is
  ///   no such adapter.
  package static func userChannel(index: UInt16) throws(SystemError) -> FileDescriptor {
    if let handed = InheritedSockets.take(.userChannel(index)) { return handed }
    let descriptor = try openSocket(
      family: RINGTAP_AF_BLUETOOTH, type: RINGTAP_SOCK_RAW, protocol: BTPROTO_HCI,
      name: "AF_BLUETOOTH, HCI")
    let number = descriptor.rawValue
    try checked("bind(HCI_CHANNEL_USER)") {
      ringtap_hci_bind(number, index, UInt16(HCI_CHANNEL_USER))
    }
    return descriptor
  }

  /// Opens a serial port in raw mode, 8N1.
  ///
  /// - Throws: EINVAL for a baud rate that termios does not support.
  package static func serial(
    path: String, baud: UInt32, flow: FlowControl
  ) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe ringtap_serial_open(path, baud, flow == .hardware ? 1 : 0)
      })
  }

  /// Connects to a TCP server.
  ///
  /// - Throws: EHOSTUNREACH for a name that does not resolve.
  package static func tcp(host: String, port: UInt16) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("connect \(host):\(port)") {
        // SAFETY: both are null-terminated strings for the length of the call.
        unsafe ringtap_tcp_connect(host, String(port))
      })
  }

  /// Opens a non-blocking socket for datagrams to one receiver.
  ///
  /// - Throws: EHOSTUNREACH for a name that does not resolve.
  package static func udp(host: String, port: UInt16) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("connect \(host):\(port)") {
        // SAFETY: both are null-terminated strings for the length of the call.
        unsafe ringtap_udp_connect(host, String(port))
      })
  }

  package static func unix(path: String) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("connect \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe ringtap_unix_connect(path)
      })
  }

  /// Opens a listening TCP socket. `nil` for `host` means all addresses.
  package static func listen(host: String?, port: UInt16) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("listen \(host ?? "*"):\(port)") {
        // SAFETY: both are null-terminated strings, or null, for the length of the call.
        if let host {
          unsafe ringtap_tcp_listen(host, String(port))
        } else {
          unsafe ringtap_tcp_listen(nil, String(port))
        }
      })
  }

  /// Opens a listening UNIX socket.
  ///
  /// - Parameter mode: permissions of the socket's file, such as 0o600; an existing socket is then replaced
  ///   only if this user owns it. `nil` leaves the permissions to the umask.
  /// - Throws: EADDRINUSE if another program answers there, or if the path is a file other than a socket.
  package static func listen(path: String, mode: UInt32? = nil) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("listen \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe ringtap_unix_listen(path, mode ?? 0)
      })
  }

  /// Accepts the next connection of a listening socket. Blocks: do not call it in a task or on an event loop.
  package static func accept(_ listener: borrowing FileDescriptor) throws(SystemError) -> FileDescriptor {
    let number = listener.rawValue
    return FileDescriptor(owning: try checked("accept") { ringtap_accept(number) })
  }

  /// Opens a pseudo-terminal in raw mode.
  ///
  /// - Parameter name: set to the path of the other end, such as `/dev/pts/3`.
  package static func pseudoTerminal(name: inout String) throws(SystemError) -> FileDescriptor {
    var octets = [CChar](repeating: 0, count: 64)
    let capacity = CInt(octets.count)
    let number = try checked("posix_openpt") {
      // SAFETY: the array has room for `capacity` characters.
      unsafe ringtap_pty_open(&octets, capacity)
    }
    name = String(decoding: octets.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return FileDescriptor(owning: number)
  }

  /// Returns both ends of a packet socket inside this process.
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

    /// Takes the host's end. Each end can be taken once.
    package mutating func takeHost() -> FileDescriptor { host.take()! }
    package mutating func takeController() -> FileDescriptor { controller.take()! }
  }
}
