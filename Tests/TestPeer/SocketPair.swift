package import BLELinux
import Glibc

/// Two ends of a datagram channel that keeps order and borders, as an L2CAP socket does.
package final class SocketPair {
  private var oursLeft: FileDescriptor?
  private var theirsLeft: FileDescriptor?

  /// - Parameter sendBufferByteCount: of both ends, for tests of back-pressure.
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

  /// The end that does not block; once.
  package func ours() -> FileDescriptor { oursLeft.take()! }

  /// The end that blocks; once.
  package func theirs() -> FileDescriptor { theirsLeft.take()! }
}

/// Whether nothing waits to be read.
package func isQuiet(_ descriptor: borrowing FileDescriptor) -> Bool {
  var wanted = pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0)
  return poll(&wanted, 1, 0) == 0
}

/// Descriptors that this process has open.
package func openDescriptorCount() -> Int { Files.names(in: "/proc/self/fd").count }
