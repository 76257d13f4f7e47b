import CBluetoothLinux
import Glibc
import Synchronization

/// A port at which programs come to read what we write: a UNIX socket, or TCP.
package final class ReaderPort: Sendable {
  /// Where it is.
  package enum Place: Hashable, Sendable {
    case unix(path: String)
    case tcp(host: String, port: UInt16)
  }

  /// Readers that may wait to be taken.
  private static let backlog: CInt = 64
  /// In milliseconds: the wait for descriptors, where no more may be open, or for memory.
  private static let shortagePause: CInt = 100

  package let place: Place
  private let descriptor: FileDescriptor
  private let file: FileIdentity?
  private let isOpen = Atomic<Bool>(true)

  /// Opens it. A UNIX socket that nobody answers any more is replaced, with a mode only if it is this user's.
  ///
  /// - Parameter mode: of a UNIX socket's file, for this user alone unless given; `nil`: as the umask has it.
  /// - Throws: EADDRINUSE where somebody answers there, or where there is another file; EADDRNOTAVAIL for an address that is
  ///   not this machine's.
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

  /// Waits for the next reader. Blocks: for a thread of its own.
  ///
  /// - Returns: a non-blocking socket; `nil` once the port is closed.
  package func next() -> FileDescriptor? {
    while isOpen.load(ordering: .acquiring) {
      do throws(SystemError) {
        let reader = try ControllerPort.accept(descriptor)
        // Without it lines come later, no more.
        if case .tcp = place { try? reader.setSocketOption(TCP_NODELAY, level: CInt(IPPROTO_TCP), 1) }
        return reader
      } catch {
        // One that went meanwhile is nothing.
        if error.isOfOpenFiles || error.condition == .noMemory {
          _ = ringtap_wait_readable(-1, Self.shortagePause)
        }
      }
    }
    return nil
  }

  /// Takes no more readers, ends the wait for one, and removes the socket's file. Any thread, any number of times.
  package func close() {
    guard isOpen.exchange(false, ordering: .acquiringAndReleasing) else { return }
    if case .unix(let path) = place, let file, file == FileIdentity(of: path) {
      // SAFETY: the path is a null-terminated string for the length of the call.
      _ = unsafe unlink(path)
    }
    descriptor.shutDown()
  }
}

/// Which file a name stands for: another may have taken its place.
private struct FileIdentity: Equatable {
  private let device: dev_t
  private let number: ino_t

  /// - Returns: `nil` where nothing is there.
  init?(of path: String) {
    var status = stat()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    guard unsafe lstat(path, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }
}

extension FileDescriptor {
  /// Waits until something can be written, or until nobody is left to read it.
  ///
  /// `poll`.
  package func waitUntilWritable() {
    var wanted = pollfd(fd: rawValue, events: Int16(POLLOUT), revents: 0)
    // SAFETY: `wanted` outlives the call.
    _ = unsafe poll(&wanted, 1, -1)
  }

  /// Takes what a peer has sent, which nobody wants: a socket that is closed over it would take back what it has sent.
  ///
  /// - Parameter limit: how often: a peer may send without end.
  package func discardInput(limit: Int = 16) {
    var buffer = [UInt8](repeating: 0, count: 4096)
    for _ in 0..<limit { guard let count = try? read(into: &buffer), count > 0 else { return } }
  }
}
