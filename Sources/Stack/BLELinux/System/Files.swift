import CBluetoothLinux
import Glibc

/// The few file system operations that a recorder needs, without Foundation.
public enum Files {
  /// Creates a directory and its missing parents with `mkdir`. Succeeds if the directory exists.
  ///
  /// - Parameters:
  ///   - path: path of the directory.
  ///   - mode: permissions of created directories, less the umask, such as 0o700 for private data.
  public static func createDirectory(_ path: String, mode: UInt32 = 0o755) throws(SystemError) {
    var made = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      made += (made.isEmpty || made.hasSuffix("/") ? "" : "/") + part
      do {
        try checked("mkdir \(made)") { unsafe mkdir(made, mode) }
      } catch  where error.number == EEXIST {}
    }
  }

  /// Whether a new file may replace an existing file or link of the same name.
  public enum Existing: Hashable, Sendable {
    /// Keep the existing file, and fail with EEXIST.
    case refuse
    /// Replace the existing file once the new file is complete.
    case replace
  }

  /// Returns whether a new file of that name would replace a file, a link (even a dangling link) or a
  /// directory. Devices, pipes, and paths such as `/dev/stdout` are written in place, so they do not count.
  ///
  /// `lstat`.
  public static func isOccupied(_ path: String) -> Bool {
    if NamedOutput.ownDescriptor(path) != nil { return false }
    var status = stat()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    guard unsafe lstat(path, &status) == 0 else { return false }
    return [S_IFREG, S_IFLNK, S_IFDIR].contains(status.st_mode & S_IFMT)
  }

  /// Returns whether a path is a directory or a link to a directory.
  ///
  /// `stat`.
  public static func isDirectory(_ path: String) -> Bool {
    var status = stat()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Returns whether two paths refer to the same file, after resolving links.
  ///
  /// `stat`.
  public static func areSame(_ path: String, _ other: String) -> Bool {
    var (status, otherStatus) = (stat(), stat())
    // SAFETY: both outlive the calls, and the paths are null-terminated strings.
    guard unsafe stat(path, &status) == 0, unsafe stat(other, &otherStatus) == 0 else { return false }
    return status.st_dev == otherStatus.st_dev && status.st_ino == otherStatus.st_ino
  }

  public static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  /// Returns the names in a directory, unsorted. The result is empty if the directory cannot be read.
  public static func names(in path: String) -> [String] {
    // SAFETY: the directory stream is closed below and the entries' names are copied at once.
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe _ = closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      unsafe withUnsafePointer(to: &entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) {
          unsafe names.append(String(cString: $0))
        }
      }
    }
    return names
  }

  /// Returns the first 4,096 bytes of a text file, such as a file under /proc, or `nil` if it cannot be read.
  public static func text(at path: String) -> String? {
    do throws(SystemError) {
      let descriptor = try FileDescriptor.regularFile(path)
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = try descriptor.read(into: &buffer)
      return String(decoding: buffer.prefix(count), as: UTF8.self)
    } catch { return nil }
  }

  /// Writes to a device, or to a file of the kernel such as one under /sys, in one call. Such a write may
  /// block until the kernel has done what was written.
  ///
  /// `open(O_WRONLY)`, `write`.
  package static func command(_ path: String, _ octets: Span<UInt8>) throws(SystemError) {
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
      })
    do throws(SystemError) { _ = try descriptor.write(octets) } catch {
      throw SystemError(call: "write \(path)", number: error.number)
    }
  }

  /// Returns the absolute path with links resolved, or `nil` if it does not exist.
  public static func absolute(_ path: String) -> String? {
    // SAFETY: without a buffer realpath allocates one, which is freed below after its text was copied.
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
  }

  /// Creates an empty directory in TMPDIR or /tmp that only this user can access.
  ///
  /// `mkdtemp`.
  ///
  /// - Parameter name: prefix of the directory's name.
  public static func temporaryDirectory(_ name: String) throws(SystemError) -> String {
    let parent = ProcessFacts.environment("TMPDIR") ?? "/tmp"
    var path = "\(parent)/\(name)-XXXXXX".utf8CString
    // SAFETY: the template is a separate null-terminated string, which the call writes to in place.
    let made = unsafe path.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard made else { throw SystemError(call: "mkdtemp in \(parent)", number: lastError()) }
    return String(decoding: path.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Creates a symbolic link.
  public static func link(_ path: String, to target: String) throws(SystemError) {
    try checked("symlink \(path)") { unsafe symlink(target, path) }
  }

  /// Returns the target of a symbolic link, or `nil` if `path` is not a link.
  public static func target(ofLink path: String) -> String? {
    var text = [CChar](repeating: 0, count: Int(PATH_MAX))
    // SAFETY: the call gets the size of the buffer.
    let count = unsafe readlink(path, &text, text.count)
    guard count > 0 else { return nil }
    return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Redirects standard output to the pipe at `path`. Blocks until the pipe has a reader.
  ///
  /// `open(O_WRONLY)`, `dup2`.
  public static func becomeStandardOutput(_ path: String) throws(SystemError) {
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") { unsafe open(path, O_WRONLY | O_CLOEXEC) })
    try checked("dup2 \(path)") { dup2(descriptor.rawValue, STDOUT_FILENO) }
  }

  /// Returns the number of bytes that this process may still write to the file system of a folder.
  ///
  /// `statvfs`.
  public static func freeByteCount(at path: String) throws(SystemError) -> Int {
    var status = statvfs()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    try checked("statvfs \(path)") { unsafe statvfs(path, &status) }
    return Int(status.f_bavail) * Int(status.f_frsize)
  }

  /// Checks that this process may read and write the file.
  ///
  /// `access(R_OK | W_OK)`.
  public static func checkWritable(_ path: String) throws(SystemError) {
    try checked("access \(path)") { unsafe access(path, R_OK | W_OK) }
  }

  /// Replaces a file's content atomically: even after a crash, the file has either the old content or the new
  /// content.
  ///
  /// Writes a draft in the same folder, then `fsync`, `rename`, and `fsync` of the folder, so that a power
  /// failure after the return does not restore the old content. Readers that have the old file open keep the
  /// old content.
  ///
  /// - Parameters:
  ///   - path: path of the file; its folder must be writable.
  ///   - octets: the new content.
  ///   - mode: permissions of the new file, such as 0o600.
  public static func replace(
    _ path: String, with octets: Span<UInt8>, mode: UInt32 = 0o644
  ) throws(SystemError) {
    try write(octets, to: path, NamedOutput(path, mode: mode))
  }

  /// Writes a file, such as an image, to a path given by the user. Writes in place to a device, a pipe, or a
  /// path such as `/dev/stdout`. Otherwise the path refers to the old file until the new file is complete.
  ///
  /// A new file has mode 0644. A file that replaces another is not readable by more users than the old file.
  ///
  /// - Parameters:
  ///   - octets: complete content of the file.
  ///   - path: path of the file.
  ///   - existing: whether an existing file or link may be replaced.
  /// - Throws: EEXIST if an existing file or link must not be replaced.
  public static func write(
    _ octets: Span<UInt8>, to path: String, ifExists existing: Existing
  ) throws(SystemError) {
    try write(octets, to: path, NamedOutput(path, to: .anything, ifExists: existing))
  }

  private static func write(
    _ octets: Span<UInt8>, to path: String, _ output: consuming NamedOutput
  ) throws(SystemError) {
    do throws(SystemError) { try output.descriptor.writeAll(octets) } catch {
      throw SystemError(call: "write \(path)", number: error.number)
    }
    try output.commit()
  }

  /// Returns the folder part of a path; `.` for a plain file name.
  package static func folder(of path: String) -> String {
    path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
  }

  package static func name(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
  }

  /// Returns the size of a file, or `nil` if it cannot be read or the path is not a regular file.
  ///
  /// `stat`.
  public static func byteCount(of path: String) -> Int? {
    var status = stat()
    // SAFETY: `status` outlives the call.
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    return Int(status.st_size)
  }

  /// Renames a file with `rename`. Replaces an existing file that has the new name.
  public static func rename(_ path: String, to name: String) throws(SystemError) {
    // SAFETY: both are null-terminated strings for the length of the call.
    try checked("rename \(path)") { unsafe Glibc.rename(path, name) }
  }

  /// Renames a file to a name that must not exist.
  ///
  /// `link` and `unlink`; on a file system without hard links, a check followed by `rename`.
  ///
  /// - Throws: EEXIST if the name exists.
  static func rename(_ path: String, toFree name: String) throws(SystemError) {
    do throws(SystemError) {
      // SAFETY: both are null-terminated strings for the length of the call.
      try checked("link \(name)") { unsafe Glibc.link(path, name) }
    } catch {
      guard error.number != EEXIST, !isOccupied(name) else {
        throw SystemError(call: "open \(name)", number: EEXIST)
      }
      return try rename(path, to: name)
    }
    try remove(path)
  }

  /// Returns the content of a regular file.
  ///
  /// - Throws: EFBIG if the file has more than `limit` bytes; EINVAL at once for a pipe, device or socket,
  ///   EISDIR for a directory.
  public static func octets(of path: String, limit: Int) throws(SystemError) -> [UInt8] {
    var octets: [UInt8] = []
    try read(path) { piece in
      for index in piece.indices { octets.append(piece[index]) }
      return octets.count <= limit
    }
    guard octets.count <= limit else { throw SystemError(call: "read \(path)", number: EFBIG) }
    return octets
  }

  /// Returns a part of a file. The result is shorter than `limit` bytes only at the end of the file.
  ///
  /// `pread`.
  package static func octets(of path: String, from offset: Int, limit: Int) throws(SystemError) -> [UInt8] {
    let descriptor = try FileDescriptor.regularFile(path)
    var octets = [UInt8](repeating: 0, count: limit)
    var count = 0
    while count < limit {
      let number = descriptor.rawValue
      // SAFETY: the pointer covers the rest of the array for the length of the call.
      let result = unsafe octets.withUnsafeMutableBufferPointer { buffer in
        unsafe pread(number, buffer.baseAddress! + count, limit - count, off_t(offset + count))
      }
      if result == 0 { break }
      guard result > 0 else {
        let error = lastError()
        if error == EINTR { continue }
        throw SystemError(call: "read \(path)", number: error)
      }
      count += result
    }
    octets.removeLast(limit - count)
    return octets
  }

  /// Removes a file. Succeeds if the file does not exist.
  public static func remove(_ path: String) throws(SystemError) {
    do {
      try checked("unlink \(path)") { unsafe unlink(path) }
    } catch  where error.number == ENOENT {}
  }

  /// Removes a directory with its contents, without following links. Succeeds if the directory does not
  /// exist.
  public static func removeTree(_ path: String) throws(SystemError) {
    guard exists(folder(of: path)) else { return }
    try OpenFolder(folder(of: path)).removeTree(name(of: path))
  }

  /// Returns whether a path is a directory. Returns `false` for a link to a directory.
  ///
  /// `lstat`.
  package static func isFolder(_ path: String) -> Bool {
    var status = stat()
    // SAFETY: `status` outlives the call.
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Returns the total size of all regular files below a directory, in bytes. Does not follow links.
  public static func treeByteCount(_ path: String) -> Int {
    var status = stat()
    // SAFETY: `status` outlives the call.
    guard unsafe lstat(path, &status) == 0 else { return 0 }
    switch status.st_mode & S_IFMT {
    case S_IFREG: return Int(status.st_size)
    case S_IFDIR:
      return names(in: path).reduce(0) { count, name in
        name == "." || name == ".." ? count : count + treeByteCount(path + "/" + name)
      }
    default: return 0
    }
  }

  /// Passes a file to `body` in pieces, until its end or until `body` returns `false`.
  package static func read(_ path: String, _ body: (Span<UInt8>) -> Bool) throws(SystemError) {
    let descriptor = try FileDescriptor.regularFile(path)
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var goesOn = true
    while goesOn {
      let count: Int
      do throws(SystemError) { count = try descriptor.read(into: &buffer) } catch {
        throw SystemError(call: "read \(path)", number: error.number)
      }
      goesOn = count > 0 && body(buffer.span.extracting(..<count))
    }
  }
}

// MARK: - Syncing

extension Files {
  /// Maximum number of files that `sync` opens at the same time, and maximum number that it syncs one by one.
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
  /// Writes all files before it syncs the first. One commit of the file system's journal then covers many
  /// files, and the journal records no length of a file whose content is not on the disk yet. If there are
  /// many files, syncs their whole file systems, because each sync of a single file makes the disk flush its
  /// cache.
  ///
  /// `sync_file_range`, which reports write errors; `fdatasync` or `syncfs`; `fsync` of the folders.
  ///
  /// - Returns: Paths of files that do not exist, because they were removed or moved since they were written.
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
