import Glibc

extension Files {
  /// Files that `sync` has open at the same time.
  private static let syncedAtOnce = 128

  private final class OpenFile: Sendable {
    let path: String
    let descriptor: FileDescriptor

    /// - Returns: `nil` if nothing is there.
    init?(_ path: String, _ flags: CInt) throws(SystemError) {
      self.path = path
      do {
        descriptor = FileDescriptor(
          owning: try checked("open \(path)") {
            // SAFETY: the path is a null-terminated string for the length of the call.
            unsafe open(path, flags | O_CLOEXEC)
          })
      } catch {
        guard error.number == ENOENT else { throw error }
        return nil
      }
    }

    /// - Parameter call: `fsync` or `fdatasync`. A file system that has neither has nothing to wait for.
    func wait(_ call: (CInt) -> CInt) throws(SystemError) {
      let number = descriptor.rawValue
      do { try checked("sync \(path)") { call(number) } } catch {
        guard error.number == EINVAL || error.number == EROFS else { throw error }
      }
    }
  }

  /// Waits until the disk has the content of files, and the names that folders have for them.
  ///
  /// All files are written out before the first one is synced, so one commit of the file system's journal serves many, and it
  /// notes no length of a file whose content is not on the disk.
  ///
  /// `sync_file_range` and `fdatasync`; `fsync` of the folders.
  ///
  /// - Returns: paths of files that are not there: removed or moved since they were written.
  /// - Throws: EIO and its like: the disk does not have what was written.
  package static func sync(files: [String], folders: [String]) throws(SystemError) -> Set<String> {
    var missing: Set<String> = []
    var rest = files[...]
    while !rest.isEmpty {
      var open: [OpenFile] = []
      for path in rest.prefix(syncedAtOnce) {
        guard let file = try OpenFile(path, O_RDONLY | O_NOFOLLOW) else {
          missing.insert(path)
          continue
        }
        try file.descriptor.writeOut(.begun)
        open.append(file)
      }
      for file in open { try file.descriptor.writeOut(.done) }
      for file in open { try file.wait(fdatasync) }
      rest = rest.dropFirst(syncedAtOnce)
    }
    for path in folders { try OpenFile(path, O_RDONLY | O_DIRECTORY)?.wait(fsync) }
    return missing
  }

  /// Writes octets at a place of a file that is not behind its end; makes the file for the place 0. Where the disk takes only a
  /// part, the file is as long as before.
  ///
  /// The disk begins to get them: a commit of the journal that another file's sync causes notes the length of this one, and a
  /// power failure would leave zeros for what has not been written out.
  ///
  /// `open(O_NOFOLLOW)`, `pwrite`, `sync_file_range`.
  ///
  /// - Throws: ESTALE if the file is shorter: somebody has cut it.
  package static func write(_ octets: Span<UInt8>, to path: String, at offset: Int) throws(SystemError) {
    let flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (offset == 0 ? O_CREAT : 0)
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, flags, 0o644)
      })
    let number = descriptor.rawValue
    let length = lseek(number, 0, SEEK_END)
    guard length >= offset else { throw SystemError(call: "go on with \(path)", number: ESTALE) }
    var count = 0
    do throws(SystemError) {
      while count < octets.count {
        count += try descriptor.write(octets.extracting(count...), at: offset + count)
      }
    } catch {
      _ = ftruncate(number, length)
      throw SystemError(call: "write \(path)", number: error.number)
    }
    try descriptor.writeOut(.begun, from: offset)
  }

  /// Cuts off what a file has after so many octets.
  ///
  /// `truncate`.
  package static func cut(_ path: String, to byteCount: Int) throws(SystemError) {
    // SAFETY: the path is a null-terminated string for the length of the call.
    try checked("truncate \(path)") { unsafe truncate(path, off_t(byteCount)) }
  }
}
