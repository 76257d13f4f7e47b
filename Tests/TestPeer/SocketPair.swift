package import BLELinux
import Glibc

/// Both ends of a datagram channel that preserves order and message boundaries, like an L2CAP socket.
package final class SocketPair {
  private var oursLeft: FileDescriptor?
  private var theirsLeft: FileDescriptor?

  /// - Parameter sendBufferByteCount: buffer size of both ends, for tests of back-pressure.
  package init(sendBufferByteCount: CInt? = nil) throws(SystemError) {
    var numbers: [CInt] = [-1, -1]
    try checked("socketpair") {
      socketpair(AF_UNIX, CInt(SOCK_SEQPACKET.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &numbers)
    }
    let ours = FileDescriptor(owning: numbers[0])
    let theirs = FileDescriptor(owning: numbers[1])
    try checked("fcntl") { fcntl(numbers[0], F_SETFL, O_NONBLOCK) }
    if let sendBufferByteCount {
      try ours.setSocketOption(SO_SNDBUF, sendBufferByteCount)
      try theirs.setSocketOption(SO_SNDBUF, sendBufferByteCount)
    }
    oursLeft = consume ours
    theirsLeft = consume theirs
  }

  private init(_ ours: consuming FileDescriptor, _ theirs: consuming FileDescriptor) {
    oursLeft = consume ours
    theirsLeft = consume theirs
  }

  /// Makes two ends that drop packets for which our queue has no room, like an L2CAP socket: UDP on this
  /// machine. Neither end detects that the other has closed.
  package static func lossy() throws(SystemError) -> SocketPair {
    let ours = try udpSocket(CInt(SOCK_NONBLOCK.rawValue))
    let theirs = try udpSocket(0)
    try connectUDP(ours, to: theirs)
    try connectUDP(theirs, to: ours)
    return SocketPair(ours, theirs)
  }

  private static func udpSocket(_ flags: CInt) throws(SystemError) -> FileDescriptor {
    let type = CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue) | flags
    let descriptor = FileDescriptor(owning: try checked("socket(UDP)") { socket(AF_INET, type, 0) })
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
    let number = descriptor.rawValue
    try checked("bind(UDP)") { withSocketAddress(&address) { bind(number, $0, $1) } }
    return descriptor
  }

  private static func connectUDP(
    _ one: borrowing FileDescriptor, to other: borrowing FileDescriptor
  ) throws(SystemError) {
    var address = sockaddr_in()
    let (from, to) = (one.rawValue, other.rawValue)
    try checked("getsockname(UDP)") {
      withSocketAddress(&address) { pointer, size in
        var size = size
        return getsockname(to, pointer, &size)
      }
    }
    try checked("connect(UDP)") { withSocketAddress(&address) { connect(from, $0, $1) } }
  }

  private static func withSocketAddress(
    _ address: inout sockaddr_in, _ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> CInt
  ) -> CInt {
    withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }

  /// The non-blocking end. Call it only once.
  package func ours() -> FileDescriptor { oursLeft.take()! }

  /// The blocking end. Call it only once.
  package func theirs() -> FileDescriptor { theirsLeft.take()! }
}

/// Whether there is nothing to read.
package func isQuiet(_ descriptor: borrowing FileDescriptor) -> Bool {
  var wanted = pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0)
  return poll(&wanted, 1, 0) == 0
}

/// Number of open descriptors of this process.
package func openDescriptorCount() -> Int { Files.names(in: "/proc/self/fd").count }
