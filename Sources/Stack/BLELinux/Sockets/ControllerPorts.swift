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
  /// `bind(HCI_CHANNEL_USER)`. Needs CAP_NET_ADMIN and an adapter that is down; nothing where it was handed over.
  ///
  /// - Throws: EBUSY while the adapter is up, EUSERS while another program has it, ENODEV where there is none.
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

  /// A socket that waits for peers; `host` `nil` for every address.
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

  /// - Parameter mode: of the socket's file, such as 0o600, and then only a file of this user's is replaced; `nil`: as the
  ///   umask has it.
  /// - Throws: EADDRINUSE where somebody answers there, or where there is a file that is no socket.
  package static func listen(path: String, mode: UInt32? = nil) throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try checked("listen \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe ringtap_unix_listen(path, mode ?? 0)
      })
  }

  /// The next peer of a listening socket. Blocks: not for a task or an event loop.
  package static func accept(_ listener: borrowing FileDescriptor) throws(SystemError) -> FileDescriptor {
    let number = listener.rawValue
    return FileDescriptor(owning: try checked("accept") { ringtap_accept(number) })
  }

  /// A pseudo-terminal, raw.
  ///
  /// - Parameter name: gets the path of its other end, `/dev/pts/3`.
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
