import CBluetoothLinux
import Glibc

/// An owned descriptor: closed when its owner goes.
public struct FileDescriptor: ~Copyable, Sendable {
  package let rawValue: CInt

  /// Takes over an open descriptor.
  package init(owning rawValue: CInt) { self.rawValue = rawValue }

  /// Opens a file.
  ///
  /// `open(O_RDONLY)`.
  package static func reading(_ path: String) throws(SystemError) -> FileDescriptor {
    // SAFETY: the path is a null-terminated string for the length of the call.
    FileDescriptor(owning: try checked("open \(path)") { unsafe open(path, O_RDONLY | O_CLOEXEC) })
  }

  deinit { close(rawValue) }

  /// Gives it up open: whoever has the number closes it.
  package consuming func release() -> CInt {
    let number = rawValue
    discard self
    return number
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
