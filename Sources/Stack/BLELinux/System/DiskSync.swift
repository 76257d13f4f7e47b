import CBluetoothLinux
import Glibc

extension Files {
  /// Files that `sync` has open at the same time, and those that it syncs one by one.
  private static let (openAtOnce, syncedEach) = (128, 64)

  private final class OpenFile: Sendable {
    let path: String
    let descriptor: FileDescriptor

    /// Of its file system; 0 if it cannot be asked.
    var device: dev_t {
      var status = stat()
      // SAFETY: `status` outlives the call.
      return unsafe fstat(descriptor.rawValue, &status) == 0 ? status.st_dev : 0
    }

    /// - Returns: `false` for a file system for which that is not the disk's word.
    func syncFileSystem() throws(SystemError) -> Bool {
      let number = descriptor.rawValue
      return try checked("sync \(path)") { ringtap_sync_file_system(number) } != 0
    }

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
  /// notes no length of a file whose content is not on the disk. More than a few files are synced with their whole file system:
  /// each sync of one has the disk flush its cache.
  ///
  /// `sync_file_range`, which reports what could not be written, and `fdatasync` or `syncfs`; `fsync` of the folders.
  ///
  /// - Returns: paths of files that are not there: removed or moved since they were written.
  /// - Throws: EIO and its like: the disk does not have what was written.
  package static func sync(files: [String], folders: [String]) throws(SystemError) -> Set<String> {
    var missing: Set<String> = []
    var rest = files[...]
    let isMany = files.count > syncedEach
    /// One file of each file system.
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
    let flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (offset == 0 ? O_CREAT : 0)
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
