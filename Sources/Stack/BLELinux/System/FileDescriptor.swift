import CBluetoothLinux
import Glibc

/// A file descriptor that is closed when this value is released.
public struct FileDescriptor: ~Copyable, Sendable {
  package let rawValue: CInt

  /// Takes ownership of an open descriptor.
  package init(owning rawValue: CInt) { self.rawValue = rawValue }

  /// Opens a regular file, or a link to a regular file, for reading. Refuses a pipe, device, socket or
  /// directory at once, because opening a pipe would wait for its writer. `/dev/stdin` and `/dev/fd/N` are
  /// already open and may be of any type.
  ///
  /// `open(O_RDONLY | O_NONBLOCK)`, `fstat`.
  ///
  /// - Throws: EINVAL, or EISDIR for a directory, with a message that the path is not a regular file.
  package static func regularFile(_ path: String) throws(SystemError) -> FileDescriptor {
    let isOpen = path == "/dev/stdin" || NamedOutput.ownDescriptor(path) != nil
    let flags = O_RDONLY | O_CLOEXEC | (isOpen ? 0 : O_NONBLOCK | O_NOCTTY)
    let number: CInt
    do throws(SystemError) {
      // SAFETY: the path is a null-terminated string for the length of the call.
      number = try checked("open \(path)") { unsafe open(path, flags) }
    } catch {
      // ENXIO: the path is a socket.
      throw error.number == ENXIO ? .notRegular(path, EINVAL) : error
    }
    let descriptor = FileDescriptor(owning: number)
    var status = stat()
    // SAFETY: `status` outlives the call.
    try checked("fstat \(path)") { unsafe fstat(descriptor.rawValue, &status) }
    let kind = status.st_mode & S_IFMT
    guard isOpen || kind == S_IFREG else { throw .notRegular(path, kind == S_IFDIR ? EISDIR : EINVAL) }
    return descriptor
  }

  deinit { close(rawValue) }

  /// Gives up ownership without closing the descriptor. The caller must close it.
  package consuming func release() -> CInt {
    let number = rawValue
    discard self
    return number
  }

  /// Returns whether a file is shorter than `byteCount`, because another program has truncated it.
  ///
  /// `fstat`. Always `false` for devices and pipes, which have no length.
  package func isShorter(than byteCount: Int) -> Bool {
    var status = stat()
    // SAFETY: `status` outlives the call.
    return unsafe fstat(rawValue, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
      && Int(status.st_size) < byteCount
  }

  /// Turns O_APPEND on or off. With O_APPEND each write goes to the current end of the file, otherwise to the
  /// file offset.
  ///
  /// `fcntl(F_SETFL)`.
  package func appendsAlways(_ isOn: Bool) throws(SystemError) {
    try checked("fcntl(F_SETFL)") { fcntl(rawValue, F_SETFL, isOn ? O_APPEND : 0) }
  }

  /// Returns a descriptor that is never ready, for an `EventLoop` source that only has deadlines.
  package static func silent() throws(SystemError) -> FileDescriptor {
    FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
  }

  /// Reads at most `buffer.count` bytes into `buffer`. Returns 0 at the end or for an empty datagram.
  package func read(into buffer: inout [UInt8]) throws(SystemError) -> Int {
    try transfer("read") {
      // SAFETY: the pointer covers `buffer.count` bytes for the length of the call.
      unsafe buffer.withUnsafeMutableBytes { unsafe Glibc.read(rawValue, $0.baseAddress, $0.count) }
    }
  }

  /// Writes one packet, or as many bytes of a stream as fit now.
  ///
  /// - Returns: Number of bytes written.
  package func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
    try transfer("write") {
      // SAFETY: the pointer covers the span for the length of the call.
      unsafe bytes.withUnsafeBufferPointer { unsafe Glibc.write(rawValue, $0.baseAddress, $0.count) }
    }
  }

  /// Writes at an offset in a file. The file offset does not change.
  ///
  /// - Returns: Number of bytes written.
  package func write(_ bytes: Span<UInt8>, at offset: Int) throws(SystemError) -> Int {
    try transfer("pwrite") {
      // SAFETY: the pointer covers the span for the length of the call.
      unsafe bytes.withUnsafeBufferPointer {
        unsafe pwrite(rawValue, $0.baseAddress, $0.count, off_t(offset))
      }
    }
  }

  /// Sends one packet on a socket. If the peer has closed, the call fails with EPIPE and raises no SIGPIPE.
  ///
  /// - Returns: Number of bytes sent.
  package func send(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
    try transfer("send") {
      // SAFETY: the pointer covers the span for the length of the call.
      unsafe bytes.withUnsafeBufferPointer {
        unsafe Glibc.send(rawValue, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
      }
    }
  }

  /// Writes all bytes to a file or a blocking stream.
  package func writeAll(_ bytes: Span<UInt8>) throws(SystemError) {
    var offset = 0
    while offset < bytes.count { offset += try write(bytes.extracting(offset...)) }
  }

  package func setSocketOption(
    _ name: CInt, level: CInt = SOL_SOCKET, _ value: CInt
  ) throws(SystemError) {
    var value = value
    try checked("setsockopt(\(name))") {
      // SAFETY: `value` outlives the call and its size is given.
      unsafe setsockopt(rawValue, level, name, &value, socklen_t(MemoryLayout<CInt>.size))
    }
  }

  package func socketOption(_ name: CInt, level: CInt = SOL_SOCKET) throws(SystemError) -> CInt {
    var value: CInt = 0
    var size = socklen_t(MemoryLayout<CInt>.size)
    try checked("getsockopt(\(name))") {
      // SAFETY: `value` and `size` outlive the call.
      unsafe getsockopt(rawValue, level, name, &value, &size)
    }
    return value
  }

  /// Number of packets dropped so far from this socket's receive queue, from SO_MEMINFO. Includes drops after
  /// the last received packet. `nil` if the kernel has no SO_MEMINFO (before 4.12); `ReceiveSlab.drops` then
  /// has the number before the last packet.
  public var receiveQueueDrops: Int? {
    let count = ringtap_socket_drops(rawValue)
    return count < 0 ? nil : Int(count)
  }

  private func transfer(
    _ call: String, _ body: () -> Int
  ) throws(SystemError) -> Int {
    while true {
      ringtap_note_system_call()
      let result = body()
      if result >= 0 { return result }
      let number = lastError()
      if number == EINTR { continue }
      precondition(number != EBADF && number != EFAULT, "\(call) on a bad descriptor or address")
      throw SystemError(call: call, number: number)
    }
  }
}

/// Opens a socket that is close-on-exec and non-blocking.
package func openSocket(
  family: CInt, type: CInt, protocol number: CInt, name: String
) throws(SystemError) -> FileDescriptor {
  let flags = CInt(SOCK_CLOEXEC.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
  return FileDescriptor(
    owning: try checked("socket(\(name))") { socket(family, type | flags, number) })
}

// MARK: Before a wait for the disk

/// The state to wait for: writing to the disk has begun, or has ended.
package enum WritingOut: Hashable, Sendable { case begun, done }

extension FileDescriptor {
  /// Writes the data from `offset` to the end of the file to the disk, without metadata such as the file's
  /// length.
  ///
  /// `sync_file_range`. Guarantees nothing without a later `fdatasync`. If all files are written out before
  /// the first is synced, ext4 does not record a length that includes bytes not yet on the disk. Does nothing
  /// for a file that is not on a disk.
  package func writeOut(_ extent: WritingOut, from offset: Int = 0) throws(SystemError) {
    do throws(SystemError) {
      try checked("sync_file_range") { ringtap_write_out(rawValue, Int64(offset), extent == .begun ? 1 : 0) }
    } catch {
      switch error.number {
      case EIO, ENOSPC, EDQUOT: throw error
      // Pipes, devices, and file systems without support.
      default: return
      }
    }
  }
}

extension FileDescriptor {
  /// Waits until the descriptor is writable or its reader has closed.
  ///
  /// `poll`.
  ///
  /// - Parameter milliseconds: time limit; −1: no limit.
  package func waitUntilWritable(milliseconds: Int = -1) {
    var wanted = pollfd(fd: rawValue, events: Int16(POLLOUT), revents: 0)
    // SAFETY: `wanted` outlives the call.
    _ = unsafe poll(&wanted, 1, CInt(clamping: milliseconds))
  }

  /// Waits until the descriptor has input, or its peer has closed.
  ///
  /// `poll`.
  ///
  /// - Parameter milliseconds: time limit; −1: no limit.
  /// - Returns: `false` after the time limit or a signal.
  package func waitUntilReadable(milliseconds: Int) -> Bool {
    ringtap_wait_readable(rawValue, CInt(clamping: milliseconds)) > 0
  }

  /// `shutdown(SHUT_WR)`: the peer receives what was sent, and then the end.
  package func shutDownWriting() { _ = shutdown(rawValue, CInt(SHUT_WR)) }

  /// Discards pending input. Closing a socket with unread input would reset the connection, which loses data
  /// that was sent.
  ///
  /// - Parameter limit: maximum number of reads, because a peer may keep sending.
  package func discardInput(limit: Int = 16) {
    var buffer = [UInt8](repeating: 0, count: 4096)
    for _ in 0..<limit { guard let count = try? read(into: &buffer), count > 0 else { return } }
  }
}
