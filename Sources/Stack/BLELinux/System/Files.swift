import Glibc

/// The few file-system operations that a recorder needs, without Foundation.
public enum Files {
  /// `mkdir`, parents first. An existing directory is fine.
  ///
  /// - Parameters:
  ///   - path: of the directory.
  ///   - mode: of those that are made, less the umask: 0o700 for what concerns one user only.
  public static func createDirectory(_ path: String, mode: UInt32 = 0o755) throws(SystemError) {
    var made = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      made += (made.isEmpty || made.hasSuffix("/") ? "" : "/") + part
      do {
        try checked("mkdir \(made)") { unsafe mkdir(made, mode) }
      } catch  where error.number == EEXIST {}
    }
  }

  /// What becomes of a file, or a link, that has the name of a new one.
  public enum Existing: Hashable, Sendable {
    /// It stays, and the new one is not written: EEXIST.
    case refuse
    /// It is replaced once the new one is whole.
    case replace
  }

  /// Whether a name stands for something that a new file would replace: a file, a link, even one that leads nowhere, or a
  /// directory. A device, a pipe, and `/dev/stdout` and its like, are written as they are.
  ///
  /// `lstat`.
  public static func isOccupied(_ path: String) -> Bool {
    if NamedOutput.ownDescriptor(path) != nil { return false }
    var status = stat()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    guard unsafe lstat(path, &status) == 0 else { return false }
    return [S_IFREG, S_IFLNK, S_IFDIR].contains(status.st_mode & S_IFMT)
  }

  /// Whether a name stands for a directory, or leads to one.
  ///
  /// `stat`.
  public static func isDirectory(_ path: String) -> Bool {
    var status = stat()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Whether two names stand for one file, by whatever links.
  ///
  /// `stat`.
  public static func areSame(_ path: String, _ other: String) -> Bool {
    var (status, otherStatus) = (stat(), stat())
    // SAFETY: both outlive the calls, and the paths are null-terminated strings.
    guard unsafe stat(path, &status) == 0, unsafe stat(other, &otherStatus) == 0 else { return false }
    return status.st_dev == otherStatus.st_dev && status.st_ino == otherStatus.st_ino
  }

  /// Whether something with that name is there.
  public static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  /// Names in a directory, unsorted; empty where it cannot be read.
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

  /// The start of a small text file, such as one under /proc; `nil` where it cannot be read.
  public static func text(at path: String) -> String? {
    do throws(SystemError) {
      let descriptor = try FileDescriptor.regularFile(path)
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = try descriptor.read(into: &buffer)
      return String(decoding: buffer.prefix(count), as: UTF8.self)
    } catch { return nil }
  }

  /// The path from the root, without links; `nil` where nothing is there.
  public static func absolute(_ path: String) -> String? {
    // SAFETY: without a buffer realpath allocates one, which is freed below; its text is copied before.
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
  }

  /// Makes an empty directory of this user's alone, in TMPDIR or /tmp.
  ///
  /// `mkdtemp`.
  ///
  /// - Parameter name: how its name begins.
  public static func temporaryDirectory(_ name: String) throws(SystemError) -> String {
    let parent = ProcessFacts.environment("TMPDIR") ?? "/tmp"
    var path = "\(parent)/\(name)-XXXXXX".utf8CString
    // SAFETY: the template is a null-terminated string of its own, which the call writes to in place.
    let made = unsafe path.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard made else { throw SystemError(call: "mkdtemp in \(parent)", number: lastError()) }
    return String(decoding: path.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Makes a symbolic link.
  public static func link(_ path: String, to target: String) throws(SystemError) {
    try checked("symlink \(path)") { unsafe symlink(target, path) }
  }

  /// What a symbolic link says; `nil` for all else.
  public static func target(ofLink path: String) -> String? {
    var text = [CChar](repeating: 0, count: Int(PATH_MAX))
    // SAFETY: the buffer is as long as the call is told.
    let count = unsafe readlink(path, &text, text.count)
    guard count > 0 else { return nil }
    return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Lets `path`, a pipe, be what is standard output from now on. Waits for its reader.
  ///
  /// `open(O_WRONLY)`, `dup2`.
  public static func becomeStandardOutput(_ path: String) throws(SystemError) {
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") { unsafe open(path, O_WRONLY | O_CLOEXEC) })
    try checked("dup2 \(path)") { dup2(descriptor.rawValue, STDOUT_FILENO) }
  }

  /// Octets that this process may still write to the file system of a folder.
  ///
  /// `statvfs`.
  public static func freeByteCount(at path: String) throws(SystemError) -> Int {
    var status = statvfs()
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    try checked("statvfs \(path)") { unsafe statvfs(path, &status) }
    return Int(status.f_bavail) * Int(status.f_frsize)
  }

  /// Whether this process may read and write what has that name.
  ///
  /// `access(R_OK | W_OK)`.
  public static func checkWritable(_ path: String) throws(SystemError) {
    try checked("access \(path)") { unsafe access(path, R_OK | W_OK) }
  }

  /// Gives a file whole new content: whatever happens, its name stands for the old content or the new.
  ///
  /// Written beside it, `fsync`, `rename`, and `fsync` of the folder, so that a power failure does not bring back the
  /// old one after this returned. Readers that have the old one open keep it.
  ///
  /// - Parameters:
  ///   - path: its folder must be writable.
  ///   - octets: the new content.
  ///   - mode: of the new file, such as 0o600.
  public static func replace(
    _ path: String, with octets: Span<UInt8>, mode: UInt32 = 0o644
  ) throws(SystemError) {
    try write(octets, to: path, NamedOutput(path, mode: mode))
  }

  /// Writes a file for people, such as a picture, where a person said. A device or a pipe, or `/dev/stdout`, is written as it
  /// is. Otherwise the name stands for what had it before, or for the whole new file.
  ///
  /// A new file has mode 0644, and one that takes the place of another is open to nobody who could not read that.
  ///
  /// - Parameters:
  ///   - octets: all that the file is to hold.
  ///   - path: the name.
  ///   - existing: what becomes of a file or link that has it.
  /// - Throws: EEXIST for one that is not to be replaced.
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

  /// The folder that a name is in: `.` for one without.
  package static func folder(of path: String) -> String {
    path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
  }

  /// The last part of a path.
  package static func name(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
  }

  /// How long a file is; `nil` where it cannot be asked, or is none such as a pipe.
  ///
  /// `stat`.
  public static func byteCount(of path: String) -> Int? {
    var status = stat()
    // SAFETY: `status` outlives the call.
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    return Int(status.st_size)
  }

  /// `rename`: what had the new name is gone.
  public static func rename(_ path: String, to name: String) throws(SystemError) {
    // SAFETY: both are null-terminated strings for the length of the call.
    try checked("rename \(path)") { unsafe Glibc.rename(path, name) }
  }

  /// Gives a file another name that nothing has.
  ///
  /// `link` and `unlink`; where the file system has no hard links, `rename` after a look.
  ///
  /// - Throws: EEXIST where something has the name.
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

  /// The whole of a regular file.
  ///
  /// - Throws: EFBIG for more than `limit` octets; EINVAL at once for a pipe, device or socket, EISDIR for a directory.
  public static func octets(of path: String, limit: Int) throws(SystemError) -> [UInt8] {
    var octets: [UInt8] = []
    try read(path) { piece in
      for index in piece.indices { octets.append(piece[index]) }
      return octets.count <= limit
    }
    guard octets.count <= limit else { throw SystemError(call: "read \(path)", number: EFBIG) }
    return octets
  }

  /// A part of a file; less than `limit` octets only at its end.
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

  /// Takes a file away. One that has gone before is fine.
  public static func remove(_ path: String) throws(SystemError) {
    do {
      try checked("unlink \(path)") { unsafe unlink(path) }
    } catch  where error.number == ENOENT {}
  }

  /// Takes a directory away with all that is in it, without following links. One that has gone before is fine.
  public static func removeTree(_ path: String) throws(SystemError) {
    guard exists(folder(of: path)) else { return }
    try OpenFolder(folder(of: path)).removeTree(name(of: path))
  }

  /// Whether a directory has that name, and no link to one.
  ///
  /// `lstat`.
  package static func isFolder(_ path: String) -> Bool {
    var status = stat()
    // SAFETY: `status` outlives the call.
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Octets of all regular files below a directory, without following links.
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

  /// Lends a file to `body` piece by piece, from its start to its end or until `body` returns `false`.
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
