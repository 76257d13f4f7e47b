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

// MARK: Taking away

extension OpenFolder {
  /// Folders within folders, at most: what a recorder makes has three.
  private static let depthLimit = 64

  /// Opens a folder in it that is no link.
  ///
  /// `openat(O_DIRECTORY | O_NOFOLLOW)`.
  ///
  /// - Returns: `nil` for all else, and if nothing has that name.
  package func existingFolder(_ name: String) -> OpenFolder? {
    // SAFETY: the name is a null-terminated string for the length of the call.
    let number = unsafe openat(
      descriptor.rawValue, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    return number < 0 ? nil : OpenFolder(owning: number)
  }

  /// Names in it but for `.` and `..`, unsorted; empty if it cannot be read.
  package var names: [String] {
    // SAFETY: the copy of the descriptor is the stream's, which is closed below; the entries' names are copied at once.
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

  /// `renameat`: what had the new name is gone.
  package func rename(_ name: String, to other: String) throws(SystemError) {
    let number = descriptor.rawValue
    // SAFETY: both are null-terminated strings for the length of the call.
    try checked("rename \(name)") { unsafe renameat(number, name, number, other) }
  }

  /// Takes a file away, or a folder with all that is in it, without following links. One that has gone before is fine.
  ///
  /// A file that has no other name is cut down before, so that no single call frees more than a step: freeing gigabytes keeps
  /// a file system's journal, and so whoever waits for a sync.
  ///
  /// `fstatat`, `ftruncate`, `unlinkat`.
  ///
  /// - Parameters:
  ///   - step: octets that one call may free.
  ///   - goesOn: asked after each step; `false` leaves the rest.
  /// - Returns: whether nothing is left.
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
    // What cannot be opened can still be removed.
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
