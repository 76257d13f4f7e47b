import CBluetoothLinux
import Glibc
import Synchronization

/// An HCI socket that a privileged program opens for an unprivileged program.
///
/// The raw channel cannot be inherited, because the kernel checks the sender for CAP_NET_RAW
/// (`hci_sock_sendmsg` in `net/bluetooth/hci_sock.c`). An ATT channel need not be inherited, because
/// connecting requires no privilege.
public enum InheritedSocket: Hashable, Sendable {
  /// The user channel of an adapter, by index. Exclusive mode needs no other privilege.
  case userChannel(UInt16)
  /// The management interface, with the opener's privileges. Coexist mode scans through it.
  case management
  /// The monitor channel, which `ringtap log record` reads.
  case monitor

  /// The name in LISTEN_FDNAMES.
  public var name: String {
    switch self {
    case .userChannel(let index): "hci\(index)-user"
    case .management: "hci-management"
    case .monitor: "hci-monitor"
    }
  }

  public init?(name: some StringProtocol) {
    switch name {
    case "hci-management": self = .management
    case "hci-monitor": self = .monitor
    default:
      guard name.hasPrefix("hci"), name.hasSuffix("-user"),
        let index = UInt16(name.dropFirst(3).dropLast(5))
      else { return nil }
      self = .userChannel(index)
    }
  }

  /// Opens the socket with the privileges of this process: CAP_NET_ADMIN for the user channel and the
  /// management interface, CAP_NET_RAW for the monitor.
  package func open() throws(SystemError) -> FileDescriptor {
    switch self {
    case .userChannel(let index): try ControllerPort.userChannel(index: index)
    case .management: try ManagementSocket.open()
    case .monitor: try MonitorSocket.open()
    }
  }
}

/// The HCI sockets that this process inherited, by the convention of `sd_listen_fds(3)`: LISTEN_PID is this
/// process, LISTEN_FDS the number of descriptors from 3 on, and LISTEN_FDNAMES contains their names.
public enum InheritedSockets {
  private static let first: CInt = 3
  /// Maximum number of inherited descriptors; more than any program passes on.
  private static let limit = 64

  private static let handed = adopted()
  private static let waiting = Mutex(handed)

  /// Returns whether the socket was inherited and is still available.
  public static func has(_ socket: InheritedSocket) -> Bool { waiting.withLock { $0[socket] != nil } }

  /// All inherited sockets that are still available.
  public static var all: [InheritedSocket] { waiting.withLock { Array($0.keys) } }

  /// Index of the adapter whose user channel was inherited, in use or not. If there are several, the lowest
  /// index.
  public static let userChannel = handed.keys.compactMap { socket -> UInt16? in
    if case .userChannel(let index) = socket { index } else { nil }
  }.min()

  /// Takes an inherited socket. Each socket can be taken once.
  static func take(_ socket: InheritedSocket) -> FileDescriptor? {
    waiting.withLock { $0.removeValue(forKey: socket) }.map { FileDescriptor(owning: $0) }
  }

  /// Finds the HCI sockets among the inherited descriptors and sets close-on-exec on them. Skips other
  /// descriptors.
  private static func adopted() -> [InheritedSocket: CInt] {
    let named = named(
      count: ProcessFacts.environment("LISTEN_FDS"), names: ProcessFacts.environment("LISTEN_FDNAMES"),
      process: ProcessFacts.environment("LISTEN_PID"), own: ProcessFacts.ownID)
    return named.filter { _, number in
      guard ringtap_is_hci_socket(number) == 1, ringtap_set_nonblocking(number) == 0 else { return false }
      return fcntl(number, F_SETFD, FD_CLOEXEC) == 0
    }
  }

  /// Parses the environment variables into a map from sockets to descriptors.
  package static func named(
    count: String?, names: String?, process: String?, own: Int
  ) -> [InheritedSocket: CInt] {
    guard let count = count.flatMap({ Int($0) }), (1...limit).contains(count),
      process.flatMap({ Int($0) }) == own, let names
    else { return [:] }
    let parts = names.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == count else { return [:] }
    var sockets: [InheritedSocket: CInt] = [:]
    for (offset, part) in parts.enumerated() {
      guard let socket = InheritedSocket(name: part), sockets[socket] == nil else { continue }
      sockets[socket] = first + CInt(offset)
    }
    return sockets
  }
}
