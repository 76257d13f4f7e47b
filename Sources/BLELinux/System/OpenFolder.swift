import Glibc

/// The name of a file in its directory, as system calls take it: a `String` is copied for each.
package struct FileName: Sendable {
  package let text: String
  fileprivate let characters: [CChar]

  package init(_ text: String) {
    self.text = text
    characters = Array(text.utf8CString)
  }
}

/// A directory that is kept open: names are looked up in it wherever it is moved to, and whatever takes its place.
package final class OpenFolder: Sendable {
  private let descriptor: FileDescriptor

  private init(owning number: CInt) { descriptor = FileDescriptor(owning: number) }

  /// `open(O_DIRECTORY)`.
  package convenience init(_ path: String) throws(SystemError) {
    self.init(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      })
  }

  /// Creates a file with mode 0644 that is not there yet.
  ///
  /// `openat(O_WRONLY | O_CREAT | O_EXCL)`, which follows no link.
  package func create(_ name: String) throws(SystemError) -> FileDescriptor {
    let number = descriptor.rawValue
    return FileDescriptor(
      owning: try checked("open \(name)") {
        // SAFETY: the name is a null-terminated string for the length of the call.
        unsafe openat(number, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o644)
      })
  }

  /// Puts a file in the place of another, or of nothing: whatever happens, a power failure too, the one or the other is there,
  /// and whole.
  ///
  /// `fsync` of a draft beside it, `renameat`, and `fsync` of the folder.
  package func replace(_ name: String, with octets: Span<UInt8>) throws(SystemError) -> FileDescriptor {
    let (number, draft) = (descriptor.rawValue, name + ".new")
    // SAFETY: the names are null-terminated strings for the length of the calls.
    unsafe _ = unlinkat(number, draft, 0)
    let file = try create(draft)
    do throws(SystemError) {
      try file.writeAll(octets)
      try checked("fsync \(draft)") { fsync(file.rawValue) }
      try checked("rename \(draft)") { unsafe renameat(number, draft, number, name) }
    } catch {
      unsafe _ = unlinkat(number, draft, 0)
      throw error
    }
    // A file system that cannot is none the worse.
    _ = fsync(number)
    return file
  }

  /// Makes a folder in it, or opens the one that is there.
  ///
  /// `mkdirat`, `openat(O_DIRECTORY | O_NOFOLLOW)`.
  package func folder(_ name: String) throws(SystemError) -> OpenFolder {
    let number = descriptor.rawValue
    // SAFETY: the name is a null-terminated string for the length of the calls.
    do {
      try checked("mkdir \(name)") { unsafe mkdirat(number, name, 0o755) }
    } catch  where error.number == EEXIST {}
    return OpenFolder(
      owning: try checked("open \(name)") {
        unsafe openat(number, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      })
  }

  /// Whether a name in it leads to an open file: neither the one nor the other was removed, moved away or replaced.
  ///
  /// `fstat` and `fstatat`. Devices and pipes have no name that matters, so they are never held. Where the name cannot be
  /// looked up for another reason than that nothing is there, the file's count of links decides.
  package func holds(_ name: FileName, _ file: borrowing FileDescriptor) -> Bool {
    var (open, named) = (stat(), stat())
    // SAFETY: both outlive the calls, and the name is a null-terminated string.
    guard unsafe fstat(file.rawValue, &open) == 0, open.st_nlink > 0,
      open.st_mode & S_IFMT == S_IFREG || open.st_mode & S_IFMT == S_IFDIR
    else { return false }
    if unsafe fstatat(descriptor.rawValue, name.characters, &named, AT_SYMLINK_NOFOLLOW) != 0 {
      let error = lastError()
      return error != ENOENT && error != ENOTDIR
    }
    return (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
  }

  /// Whether a name in it leads to another directory that is open.
  package func holds(_ name: FileName, _ folder: OpenFolder) -> Bool { holds(name, folder.descriptor) }

  /// Where it is: `path` if that still leads to it, else where it was moved; `nil` where it was removed.
  ///
  /// `stat`, and the link in `/proc/self/fd`.
  package func place(openedAs path: String) -> String? {
    var (open, named) = (stat(), stat())
    // SAFETY: both outlive the calls, and the path is a null-terminated string.
    guard unsafe fstat(descriptor.rawValue, &open) == 0, open.st_nlink > 0 else { return nil }
    if unsafe stat(path, &named) == 0, (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino) {
      return path
    }
    return Files.target(ofLink: "/proc/self/fd/\(descriptor.rawValue)")
  }
}
