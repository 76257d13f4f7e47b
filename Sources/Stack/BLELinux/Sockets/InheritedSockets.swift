import CBluetoothLinux
import Glibc
import Synchronization

/// An HCI socket that a privileged program opens for one without privileges.
///
/// There is none for the raw channel: the kernel asks whoever sends on it for CAP_NET_RAW (`hci_sock_sendmsg` in
/// `net/bluetooth/hci_sock.c`). Nor for an ATT channel: a connect needs no privilege.
public enum InheritedSocket: Hashable, Sendable {
  /// The user channel of `hci0`, by index: all that exclusive mode needs.
  case userChannel(UInt16)
  /// The management interface, trusted: what coexist mode scans by.
  case management
  /// The monitor: what `ringtap log record` reads.
  case monitor

  /// As LISTEN_FDNAMES has it.
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

  /// Opens it with the rights of this process: CAP_NET_ADMIN for the first two, CAP_NET_RAW for the monitor.
  package func open() throws(SystemError) -> FileDescriptor {
    switch self {
    case .userChannel(let index): try ControllerPort.userChannel(index: index)
    case .management: try ManagementSocket.open()
    case .monitor: try MonitorSocket.open()
    }
  }
}

/// The HCI sockets that this process was started with, by the convention of `sd_listen_fds(3)`: LISTEN_PID is this
/// process, LISTEN_FDS how many there are from descriptor 3 on, LISTEN_FDNAMES what they are.
public enum InheritedSockets {
  private static let first: CInt = 3
  /// More than any program hands over.
  private static let limit = 64

  private static let handed = adopted()
  private static let waiting = Mutex(handed)

  /// Whether it was handed over, and is not in use yet.
  public static func has(_ socket: InheritedSocket) -> Bool { waiting.withLock { $0[socket] != nil } }

  /// All that were handed over and are not in use yet.
  public static var all: [InheritedSocket] { waiting.withLock { Array($0.keys) } }

  /// The adapter whose user channel was handed over, in use or not; the first if there are several.
  public static let userChannel = handed.keys.compactMap { socket -> UInt16? in
    if case .userChannel(let index) = socket { index } else { nil }
  }.min()

  /// Hands it on, once.
  static func take(_ socket: InheritedSocket) -> FileDescriptor? {
    waiting.withLock { $0.removeValue(forKey: socket) }.map { FileDescriptor(owning: $0) }
  }

  /// Descriptors that are no HCI sockets are left alone. None goes to a program that this one starts.
  private static func adopted() -> [InheritedSocket: CInt] {
    let named = named(
      count: ProcessFacts.environment("LISTEN_FDS"), names: ProcessFacts.environment("LISTEN_FDNAMES"),
      process: ProcessFacts.environment("LISTEN_PID"), own: ProcessFacts.ownID)
    return named.filter { _, number in
      guard ringtap_is_hci_socket(number) == 1, ringtap_set_nonblocking(number) == 0 else { return false }
      return fcntl(number, F_SETFD, FD_CLOEXEC) == 0
    }
  }

  /// What the variables say: which descriptor is which socket.
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
