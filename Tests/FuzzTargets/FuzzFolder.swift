import BLELinux
import Glibc
import Synchronization

/// Folders that are removed when the process ends.
private let folders = Mutex<[String]>([])

private func removeFolders() { for path in folders.withLock({ $0 }) { FuzzFolder.remove(path) } }

/// A folder in memory that is emptied before each input.
final class FuzzFolder: Sendable {
  let path: String

  init(_ name: String) {
    let root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
    path = "\(root)/ringtap-fuzz-\(getpid())-\(name)"
    folders.withLock { folders in
      if folders.isEmpty { atexit(removeFolders) }
      folders.append(path)
    }
    empty()
  }

  func empty() {
    Self.remove(path)
    guard mkdir(path, 0o700) == 0 else { fatalError("no folder \(path)") }
  }

  func write(_ octets: Span<UInt8>, _ name: String) {
    guard let file = fopen("\(path)/\(name)", "w") else { return }
    _ = array(octets).withUnsafeBytes { fwrite($0.baseAddress, 1, $0.count, file) }
    fclose(file)
  }

  /// Creates an empty file, open for reading and writing.
  func stream(_ name: String) -> CInt {
    let file = open("\(path)/\(name)", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { fatalError("no file \(path)/\(name)") }
    return file
  }

  static func remove(_ path: String) {
    for name in Files.names(in: path) where name != "." && name != ".." {
      if unlink("\(path)/\(name)") != 0 { remove("\(path)/\(name)") }
    }
    rmdir(path)
  }
}
