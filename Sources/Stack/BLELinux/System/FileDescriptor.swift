import CBluetoothLinux
import Glibc

/// An owned descriptor: closed when its owner goes.
public struct FileDescriptor: ~Copyable, Sendable {
  package let rawValue: CInt

  /// Takes over an open descriptor.
  package init(owning rawValue: CInt) { self.rawValue = rawValue }

  /// Opens a regular file, or a link to one, for reading. A pipe, device, socket or directory is refused at once: opening a
  /// pipe would wait for its writer. `/dev/stdin` and `/dev/fd/N`, which are open already, may be anything.
  ///
  /// `open(O_RDONLY | O_NONBLOCK)`, `fstat`.
  ///
  /// - Throws: EINVAL, or EISDIR for a directory, with a text that says that it is not a regular file.
  package static func regularFile(_ path: String) throws(SystemError) -> FileDescriptor {
    let isOpen = path == "/dev/stdin" || NamedOutput.ownDescriptor(path) != nil
    let flags = O_RDONLY | O_CLOEXEC | (isOpen ? 0 : O_NONBLOCK | O_NOCTTY)
    let number: CInt
    do throws(SystemError) {
      // SAFETY: the path is a null-terminated string for the length of the call.
      number = try checked("open \(path)") { unsafe open(path, flags) }
    } catch {
      // A socket.
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

  /// Gives it up open: whoever has the number closes it.
  package consuming func release() -> CInt {
    let number = rawValue
    discard self
    return number
  }

  /// Whether a file is shorter than that: somebody has cut it.
  ///
  /// `fstat`. Devices and pipes have no length.
  package func isShorter(than byteCount: Int) -> Bool {
    var status = stat()
    // SAFETY: `status` outlives the call.
    return unsafe fstat(rawValue, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
      && Int(status.st_size) < byteCount
  }

  /// Lets each write go to the end of the file, wherever that is then, or again to where the last one ended.
  ///
  /// `fcntl(F_SETFL)`.
  package func appendsAlways(_ isOn: Bool) throws(SystemError) {
    try checked("fcntl(F_SETFL)") { fcntl(rawValue, F_SETFL, isOn ? O_APPEND : 0) }
  }

  /// One that is never ready: for a source of an `EventLoop` that has deadlines only.
  package static func silent() throws(SystemError) -> FileDescriptor {
    FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
  }

  /// Reads at most `buffer.count` octets to its start. 0 is the end, or an empty datagram.
  package func read(into buffer: inout [UInt8]) throws(SystemError) -> Int {
    try transfer("read") {
      // SAFETY: the pointer covers `buffer.count` octets for the length of the call.
      unsafe buffer.withUnsafeMutableBytes { unsafe Glibc.read(rawValue, $0.baseAddress, $0.count) }
    }
  }

  /// Writes one packet, or as much of a stream as fits now.
  ///
  /// - Returns: octets taken.
  package func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
    try transfer("write") {
      // SAFETY: the pointer covers the span for the length of the call.
      unsafe bytes.withUnsafeBufferPointer { unsafe Glibc.write(rawValue, $0.baseAddress, $0.count) }
    }
  }

  /// Writes to a place in a file, wherever the last write ended.
  ///
  /// - Returns: octets taken.
  package func write(_ bytes: Span<UInt8>, at offset: Int) throws(SystemError) -> Int {
    try transfer("pwrite") {
      // SAFETY: the pointer covers the span for the length of the call.
      unsafe bytes.withUnsafeBufferPointer {
        unsafe pwrite(rawValue, $0.baseAddress, $0.count, off_t(offset))
      }
    }
  }

  /// Sends one packet on a socket. A peer that is gone is an EPIPE, never a SIGPIPE.
  ///
  /// - Returns: octets taken.
  package func send(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
    try transfer("send") {
      // SAFETY: the pointer covers the span for the length of the call.
      unsafe bytes.withUnsafeBufferPointer {
        unsafe Glibc.send(rawValue, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
      }
    }
  }

  /// Writes all of it to a file or a blocking stream.
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

  /// Drops at this socket's receive queue so far, by SO_MEMINFO; visible before any later packet comes. `nil` where the
  /// kernel has no SO_MEMINFO (before 4.12): then `ReceiveSlab.drops` has those before the last packet.
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

/// A new socket, close-on-exec and non-blocking.
package func openSocket(
  family: CInt, type: CInt, protocol number: CInt, name: String
) throws(SystemError) -> FileDescriptor {
  let flags = CInt(SOCK_CLOEXEC.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
  return FileDescriptor(
    owning: try checked("socket(\(name))") { socket(family, type | flags, number) })
}

// MARK: Before a wait for the disk

/// How far what was written goes on its way to the disk.
package enum WritingOut: Hashable, Sendable { case begun, done }

extension FileDescriptor {
  /// Has what was written from an offset on written to the disk, without what the file system notes of it, such as the length.
  ///
  /// `sync_file_range`. It promises nothing without an `fdatasync` afterwards. Before that of any file it keeps ext4 from noting
  /// lengths of octets that are not there yet. A file that is no disk's has nothing to wait for.
  package func writeOut(_ extent: WritingOut, from offset: Int = 0) throws(SystemError) {
    do throws(SystemError) {
      try checked("sync_file_range") { ringtap_write_out(rawValue, Int64(offset), extent == .begun ? 1 : 0) }
    } catch {
      switch error.number {
      case EIO, ENOSPC, EDQUOT: throw error
      // Pipes, devices, file systems that cannot.
      default: return
      }
    }
  }
}
