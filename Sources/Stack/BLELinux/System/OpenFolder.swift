import Glibc

/// A file name in the form that system calls require, so that a `String` is not converted for each call.
package struct FileName: Sendable {
  package let text: String
  fileprivate let characters: [CChar]

  package init(_ text: String) {
    self.text = text
    characters = Array(text.utf8CString)
  }
}

/// A directory that is kept open. Names are resolved in this directory even if it is moved or another
/// directory takes its path.
package final class OpenFolder: Sendable {
  private let descriptor: FileDescriptor

  private init(owning number: CInt) { descriptor = FileDescriptor(owning: number) }

  /// Opens a directory with `open(O_DIRECTORY)`.
  package convenience init(_ path: String) throws(SystemError) {
    self.init(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      })
  }

  /// Creates a new file with mode 0644.
  ///
  /// `openat(O_WRONLY | O_CREAT | O_EXCL)`, which does not follow links.
  package func create(_ name: String) throws(SystemError) -> FileDescriptor {
    let number = descriptor.rawValue
    return FileDescriptor(
      owning: try checked("open \(name)") {
        // SAFETY: the name is a null-terminated string for the length of the call.
        unsafe openat(number, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o644)
      })
  }

  /// Creates or replaces a file atomically: even after a power failure, the name refers to either the old
  /// file or the complete new file.
  ///
  /// `fsync` of a draft in the same folder, `renameat`, then `fsync` of the folder.
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
    // Best effort: some file systems cannot fsync a directory.
    _ = fsync(number)
    return file
  }

  /// Creates a folder in this folder, or opens it if it exists.
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

  /// Returns whether a name in this folder still refers to an open file: the file was not removed, moved or
  /// replaced.
  ///
  /// `fstat` and `fstatat`. Always `false` for devices and pipes. If the lookup fails for a reason other than
  /// a missing name, the result is `true` as long as the open file has at least one link.
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

  /// Returns whether a name in this folder refers to another open folder.
  package func holds(_ name: FileName, _ folder: OpenFolder) -> Bool { holds(name, folder.descriptor) }

  /// Returns the path of the folder: `path` if it still refers to the folder, otherwise the path that the
  /// folder was moved to, or `nil` if it was removed.
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

// MARK: Removing

extension OpenFolder {
  /// Maximum nesting depth of folders; a recording has three levels.
  private static let depthLimit = 64

  /// Opens a folder in this folder, unless the name is a link.
  ///
  /// `openat(O_DIRECTORY | O_NOFOLLOW)`.
  ///
  /// - Returns: `nil` if the name does not exist or is not a folder.
  package func existingFolder(_ name: String) -> OpenFolder? {
    // SAFETY: the name is a null-terminated string for the length of the call.
    let number = unsafe openat(
      descriptor.rawValue, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    return number < 0 ? nil : OpenFolder(owning: number)
  }

  /// Names in this folder except `.` and `..`, unsorted; empty if the folder cannot be read.
  package var names: [String] {
    // SAFETY: the stream owns the copy of the descriptor and is closed below; the entries' names are copied
    // at once.
    let copy = fcntl(descriptor.rawValue, F_DUPFD_CLOEXEC, 3)
    guard copy >= 0 else { return [] }
    guard let stream = unsafe fdopendir(copy) else {
      close(copy)
      return []
    }
    defer { unsafe _ = closedir(stream) }
    unsafe rewinddir(stream)
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  /// Renames a file with `renameat`. Replaces an existing file that has the new name.
  package func rename(_ name: String, to other: String) throws(SystemError) {
    let number = descriptor.rawValue
    // SAFETY: both are null-terminated strings for the length of the call.
    try checked("rename \(name)") { unsafe renameat(number, name, number, other) }
  }

  /// Removes a file, or a folder with its contents, without following links. Succeeds if the name does not
  /// exist.
  ///
  /// A file without other hard links is first truncated in steps, so that no call frees more than `step`
  /// bytes. Freeing gigabytes at once would block the file system's journal and delay every sync.
  ///
  /// `fstatat`, `ftruncate`, `unlinkat`.
  ///
  /// - Parameters:
  ///   - step: maximum number of bytes that one call frees.
  ///   - goesOn: called after each step. Returns `false` to stop without removing the rest.
  /// - Returns: Whether everything was removed.
  @discardableResult
  package func removeTree(
    _ name: String, step: Int = .max, while goesOn: () -> Bool = { true }
  ) throws(SystemError) -> Bool {
    try removeTree(name, step: step, depth: 0, goesOn)
  }

  private func removeTree(
    _ name: String, step: Int, depth: Int, _ goesOn: () -> Bool
  ) throws(SystemError) -> Bool {
    let number = descriptor.rawValue
    var status = stat()
    // SAFETY: `status` outlives the call, and the name is a null-terminated string, here and below.
    guard unsafe fstatat(number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
      guard lastError() == ENOENT else { throw SystemError(call: "stat \(name)", number: lastError()) }
      return true
    }
    let isFolder = status.st_mode & S_IFMT == S_IFDIR
    if isFolder {
      guard depth < Self.depthLimit else { throw SystemError(call: "remove \(name)", number: ELOOP) }
      guard let folder = existingFolder(name) else {
        throw SystemError(call: "open \(name)", number: lastError())
      }
      for child in folder.names {
        guard try folder.removeTree(child, step: step, depth: depth + 1, goesOn) else { return false }
      }
    } else if status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1, status.st_size > step {
      guard try shorten(name, from: Int(status.st_size), step: step, goesOn) else { return false }
    }
    do {
      try checked("remove \(name)") { unsafe unlinkat(number, name, isFolder ? AT_REMOVEDIR : 0) }
    } catch  where error.number == ENOENT {}
    return goesOn()
  }

  private func shorten(
    _ name: String, from byteCount: Int, step: Int, _ goesOn: () -> Bool
  ) throws(SystemError) -> Bool {
    // SAFETY: as above.
    let number = unsafe openat(
      descriptor.rawValue, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    // A file that cannot be opened can still be removed.
    guard number >= 0 else { return true }
    let file = FileDescriptor(owning: number)
    var left = byteCount - step
    while left > 0 {
      guard ftruncate(file.rawValue, off_t(left)) == 0 else { return true }
      guard goesOn() else { return false }
      left -= step
    }
    return true
  }
}
