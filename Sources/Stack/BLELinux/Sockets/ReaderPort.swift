import CBluetoothLinux
import Glibc
import Synchronization

/// A listening socket, UNIX or TCP, for programs that read this program's output.
package final class ReaderPort: Sendable {
  /// Address of the socket.
  package enum Place: Hashable, Sendable {
    case unix(path: String)
    case tcp(host: String, port: UInt16)
  }

  /// Maximum number of connections that wait to be accepted.
  private static let backlog: CInt = 64
  /// Pause after a failure for lack of descriptors or memory, in milliseconds.
  private static let shortagePause: CInt = 100

  package let place: Place
  private let descriptor: FileDescriptor
  private let file: FileIdentity?
  private let isOpen = Atomic<Bool>(true)

  /// Opens the socket. Replaces a stale UNIX socket; with `mode`, only if this user owns the stale socket.
  ///
  /// - Parameter mode: permissions of a UNIX socket's file, by default for this user only; `nil` leaves the
  ///   permissions to the umask.
  /// - Throws: EADDRINUSE if another program answers there or another file has the path, EADDRNOTAVAIL if the
  ///   address does not belong to this machine.
  package init(_ place: Place, mode: UInt32? = 0o600) throws(SystemError) {
    self.place = place
    switch place {
    case .unix(let path):
      descriptor = try ControllerPort.listen(path: path, mode: mode)
      file = FileIdentity(of: path)
    case .tcp(let host, let port):
      descriptor = try ControllerPort.listen(host: host, port: port)
      file = nil
    }
    let number = descriptor.rawValue
    try checked("listen") { listen(number, Self.backlog) }
  }

  /// Waits for the next reader to connect. Blocks: call this on a dedicated thread.
  ///
  /// - Returns: A non-blocking socket; `nil` after the port is closed.
  package func next() -> FileDescriptor? {
    while isOpen.load(ordering: .acquiring) {
      do throws(SystemError) {
        let reader = try ControllerPort.accept(descriptor)
        // Best effort: without TCP_NODELAY, lines arrive later.
        if case .tcp = place { try? reader.setSocketOption(TCP_NODELAY, level: CInt(IPPROTO_TCP), 1) }
        return reader
      } catch {
        // Ignores other errors, such as a reader that has already disconnected.
        if error.isOfOpenFiles || error.condition == .noMemory {
          _ = ringtap_wait_readable(-1, Self.shortagePause)
        }
      }
    }
    return nil
  }

  /// Stops accepting, ends a waiting `next`, and removes the socket's file. May be called on any thread, any
  /// number of times.
  package func close() {
    guard isOpen.exchange(false, ordering: .acquiringAndReleasing) else { return }
    if case .unix(let path) = place, let file, file == FileIdentity(of: path) {
      // SAFETY: the path is a null-terminated string for the length of the call.
      _ = unsafe unlink(path)
    }
    descriptor.shutDown()
  }
}

/// Device and inode of a file, to detect that another file has taken its name.
private struct FileIdentity: Equatable {
  private let device: dev_t
  private let number: ino_t

  /// Reads the identity of the file at a path.
  ///
  /// - Returns: `nil` if the file does not exist.
  init?(of path: String) {
    var status = stat()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    guard unsafe lstat(path, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }
}
