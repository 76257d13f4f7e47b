import CBluetoothLinux
import Glibc

extension Files {
  /// Maximum number of files that `sync` has open at once, and maximum number that it syncs one by one.
  private static let (openAtOnce, syncedEach) = (128, 64)

  private final class OpenFile: Sendable {
    let path: String
    let descriptor: FileDescriptor

    /// Device number of the file system; 0 if `fstat` fails.
    var device: dev_t {
      var status = stat()
      // SAFETY: `status` outlives the call.
      return unsafe fstat(descriptor.rawValue, &status) == 0 ? status.st_dev : 0
    }

    /// Syncs the file system.
    ///
    /// - Returns: `false` if `syncfs` does not guarantee that the data is on the disk, as on FUSE.
    func syncFileSystem() throws(SystemError) -> Bool {
      let number = descriptor.rawValue
      return try checked("sync \(path)") { ringtap_sync_file_system(number) } != 0
    }

    /// Opens a file.
    ///
    /// - Returns: `nil` if the file does not exist.
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

    /// Syncs the file. Succeeds on a file system that supports neither call.
    ///
    /// - Parameter call: `fsync` or `fdatasync`.
    func wait(_ call: (CInt) -> CInt) throws(SystemError) {
      let number = descriptor.rawValue
      do { try checked("sync \(path)") { call(number) } } catch {
        guard error.number == EINVAL || error.number == EROFS else { throw error }
      }
    }
  }

  /// Waits until the content of files and the entries of folders are on the disk.
  ///
  /// Writes all files before it syncs the first: one commit of the file system's journal then covers many
  /// files, and it records no length of a file whose content is not on the disk yet. If there are many files,
  /// syncs their whole file systems, because each sync of a single file makes the disk flush its cache.
  ///
  /// `sync_file_range`, which reports write errors; `fdatasync` or `syncfs`; `fsync` of the folders.
  ///
  /// - Returns: Paths of files that do not exist: removed or moved since they were written.
  /// - Throws: EIO or a similar error if the data is not on the disk.
  package static func sync(files: [String], folders: [String]) throws(SystemError) -> Set<String> {
    var missing: Set<String> = []
    var rest = files[...]
    let isMany = files.count > syncedEach
    /// One file per file system.
    var systems: [dev_t: OpenFile] = [:]
    while !rest.isEmpty {
      var open: [OpenFile] = []
      for path in rest.prefix(openAtOnce) {
        guard let file = try OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else {
          missing.insert(path)
          continue
        }
        try file.descriptor.writeOut(.begun)
        open.append(file)
      }
      for file in open { try file.descriptor.writeOut(.done) }
      if isMany {
        for file in open { systems[file.device] = file }
      } else {
        for file in open { try file.wait(fdatasync) }
      }
      rest = rest.dropFirst(openAtOnce)
    }
    var isSynced = true
    for file in systems.values { isSynced = try file.syncFileSystem() && isSynced }
    if !isSynced { missing.formUnion(try syncEach(files)) }
    for path in folders { try OpenFile(path, O_RDONLY | O_DIRECTORY)?.wait(fsync) }
    return missing
  }

  private static func syncEach(_ files: [String]) throws(SystemError) -> Set<String> {
    var missing: Set<String> = []
    for path in files {
      if let file = try OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) {
        try file.wait(fdatasync)
      } else {
        missing.insert(path)
      }
    }
    return missing
  }

  /// Writes bytes at an offset, which is at most the file's length. Creates the file if the offset is 0. If
  /// only a part can be written, truncates the file to its old length.
  ///
  /// Also starts writing the data to the disk. Otherwise a journal commit for another file's sync could
  /// record the new length of this file, and after a power failure the data would be zeros.
  ///
  /// `open(O_NOFOLLOW)`, `pwrite`, `sync_file_range`.
  ///
  /// - Throws: ESTALE if the file is shorter than `offset` because another program has truncated it.
  package static func write(_ octets: Span<UInt8>, to path: String, at offset: Int) throws(SystemError) {
    let flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (offset == 0 ? O_CREAT : 0)
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, flags, 0o644)
      })
    let number = descriptor.rawValue
    let length = lseek(number, 0, SEEK_END)
    guard length >= offset else { throw SystemError(call: "continue \(path)", number: ESTALE) }
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

  /// Truncates a file to `byteCount` bytes.
  ///
  /// `truncate`.
  package static func cut(_ path: String, to byteCount: Int) throws(SystemError) {
    // SAFETY: the path is a null-terminated string for the length of the call.
    try checked("truncate \(path)") { unsafe truncate(path, off_t(byteCount)) }
  }
}
