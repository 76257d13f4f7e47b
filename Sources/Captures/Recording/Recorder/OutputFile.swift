public import BLELinux
import Glibc

/// Output file that consists of whole units (rows, records).
///
/// Units are buffered. If the disk accepts only part of the buffer, the file is truncated to its last whole
/// unit, so that it stays readable. Symbolic links are not followed, except for `/dev/stdout` and similar
/// paths.
public struct OutputFile: ~Copyable, Sendable {
  private static let bufferByteCount = 1 << 16
  /// Maximum number of units in the buffer. A row or record has at least 16 bytes.
  private static let bufferedUnits = bufferByteCount / 16

  private var output: NamedOutput
  public let path: String
  /// Name of the file in its folder.
  private let name: FileName
  /// Whether to check that the path still refers to this file. `false` for devices.
  private var isWatched = false
  /// Number of units written to the kernel.
  public private(set) var writtenUnits = 0
  private var buffer: [UInt8] = []
  /// End offset of each unit in the buffer.
  private var ends: [Int] = []
  /// Number of bytes written to the kernel, including bytes in the file when it was opened.
  public private(set) var writtenByteCount = 0
  /// Number of bytes on disk, including bytes in the file when it was opened.
  private var syncedByteCount = 0
  private var failure: SystemError?
  /// Whether the file may be truncated. `false` for standard output, which may be shared with other processes
  /// or be a file with earlier content.
  private let canBeCut: Bool

  /// Action if the file exists.
  public enum Existing: Hashable, Sendable {
    /// Replaces the file when the new file is complete. A device or pipe is written directly.
    case replace
    /// Throws EEXIST if the file exists, even if it is created before the new file is complete. A device or
    /// pipe is written directly.
    case refuse
    case fail
    /// Appends after `byteCount` bytes, and removes the bytes after them. If `byteCount` is 0, a missing file
    /// is created.
    case extend(byteCount: Int)
  }

  /// Creates a file with mode 0644.
  ///
  /// Uses `open(O_WRONLY | O_NOFOLLOW)`, with `O_CREAT | O_EXCL`, or with `ftruncate` and `lseek`.
  public init(creating path: String, ifExists existing: Existing) throws(SystemError) {
    output = try Self.open(path, existing)
    self.path = path
    name = FileName(Files.name(of: path))
    canBeCut = true
    if case .extend(let byteCount) = existing { (writtenByteCount, syncedByteCount) = (byteCount, byteCount) }
    reserve()
  }

  /// Opens standard output. If standard output becomes full or is closed, the output may end with part of a
  /// unit.
  public init(toStandardOutput: Void) throws(SystemError) {
    let descriptor = FileDescriptor(
      owning: try checked("dup standard output") { fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) })
    (path, name) = ("standard output", FileName("-"))
    output = NamedOutput(inPlace: descriptor, path)
    canBeCut = false
    reserve()
  }

  private mutating func reserve() {
    buffer.reserveCapacity(Self.bufferByteCount + 4096)
    ends.reserveCapacity(Self.bufferedUnits)
  }

  private static func open(
    _ path: String, _ existing: Existing
  ) throws(SystemError) -> NamedOutput {
    let disposition: CInt
    switch existing {
    case .replace: return try NamedOutput(path, to: .anything)
    case .refuse: return try NamedOutput(path, to: .anything, ifExists: .refuse)
    case .fail: disposition = O_CREAT | O_EXCL
    case .extend(byteCount: 0): disposition = O_CREAT
    case .extend: disposition = 0
    }
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the duration of the call.
        unsafe Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | disposition, 0o644)
      })
    guard case .extend(let byteCount) = existing else { return NamedOutput(inPlace: descriptor, path) }
    let number = descriptor.rawValue
    // The file was truncated by another process. Appended data would follow a hole.
    guard lseek(number, 0, SEEK_END) >= byteCount else {
      throw SystemError(call: "continue \(path)", number: ESTALE)
    }
    try checked("ftruncate \(path)") { ftruncate(number, off_t(byteCount)) }
    try checked("lseek \(path)") { lseek(number, 0, SEEK_END) < 0 ? -1 : 0 }
    return NamedOutput(inPlace: descriptor, path)
  }

  /// Whether the buffer contains unwritten units.
  public var isPending: Bool { !ends.isEmpty }

  /// Whether bytes written to the kernel could be lost in a power failure.
  public var isUnsynced: Bool { canBeCut && failure == nil && syncedByteCount < writtenByteCount }

  /// Whether the file is a pipe whose reader has closed it. The next write then fails.
  public var hasLostItsReader: Bool {
    var poll = pollfd(fd: output.descriptor.rawValue, events: 0, revents: 0)
    // SAFETY: there is one entry, which exists during the call.
    return unsafe Glibc.poll(&poll, 1, 0) > 0 && poll.revents & Int16(POLLERR) != 0
  }

  /// Appends one unit.
  ///
  /// - Throws: ENOSPC or similar when the buffer is full and cannot be written. All later calls throw the
  ///   same error.
  public mutating func append(_ unit: (inout [UInt8]) -> Void) throws(SystemError) {
    if let failure { throw failure }
    unit(&buffer)
    ends.append(buffer.count)
    if buffer.count >= Self.bufferByteCount { try flush() }
  }

  /// Appends one encoded unit.
  public mutating func append(_ unit: [UInt8]) throws(SystemError) { try append { $0 += unit } }

  /// Writes all buffered units to the kernel.
  public mutating func flush() throws(SystemError) {
    if let failure { throw failure }
    var sent = 0
    do throws(SystemError) {
      while sent < buffer.count { sent += try output.descriptor.write(buffer.span.extracting(sent...)) }
      writtenUnits += ends.count
    } catch {
      let whole = ends.lastIndex { $0 <= sent }
      sent = whole.map { ends[$0] } ?? 0
      writtenUnits += whole.map { $0 + 1 } ?? 0
      if canBeCut { _ = ftruncate(output.descriptor.rawValue, off_t(writtenByteCount + sent)) }
      failure = SystemError(call: "write \(path)", number: error.number)
    }
    writtenByteCount += sent
    buffer.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
    if let failure { throw failure }
  }

  /// Waits until the written data is on disk. Call `flush` first.
  ///
  /// Uses `fdatasync`. Returns at once for a device or pipe.
  ///
  /// - Throws: EIO or similar. All later calls throw the same error.
  public mutating func sync() throws(SystemError) {
    guard isUnsynced else { return }
    let number = output.descriptor.rawValue
    do throws(SystemError) { try checked("fdatasync \(path)") { fdatasync(number) } } catch {
      guard error.number == EINVAL || error.number == EROFS else {
        failure = error
        throw error
      }
    }
    syncedByteCount = writtenByteCount
  }

  /// Writes the kernel's data of the file to disk, but not the file's length. Call this on all files before
  /// `sync` on any of them, because a `sync` may commit the lengths of all files. Call it also on a new file;
  /// after a power failure, the file then either has its header or does not exist.
  package mutating func writeOut(_ extent: WritingOut) throws(SystemError) {
    guard failure == nil, canBeCut else { return }
    do throws(SystemError) { try output.descriptor.writeOut(extent) } catch {
      failure = error
      throw error
    }
  }

  /// Replaces the content in place. The file's blocks are reused, so a file that was created large enough can
  /// be rewritten on a full disk.
  public mutating func replace(with octets: Span<UInt8>) throws(SystemError) {
    let number = output.descriptor.rawValue
    try output.descriptor.appendsAlways(false)
    try checked("lseek \(path)") { lseek(number, 0, SEEK_SET) < 0 ? -1 : 0 }
    try output.descriptor.writeAll(octets)
    try checked("ftruncate \(path)") { ftruncate(number, off_t(octets.count)) }
  }
  /// Writes all data to disk, and renames a replacement file to its final name. Nothing can be appended
  /// afterwards.
  public mutating func finish() throws(SystemError) {
    try flush()
    try sync()
    try output.commit()
  }
}

// MARK: Existence

extension OutputFile {
  /// Creates a new file in an open folder, and watches it.
  ///
  /// - Parameters:
  ///   - name: name of the file.
  ///   - folder: the folder.
  ///   - path: path of the file for messages.
  package init(creating name: String, in folder: OpenFolder, _ path: String) throws(SystemError) {
    let descriptor: FileDescriptor
    do throws(SystemError) { descriptor = try folder.create(name) } catch {
      throw SystemError(call: "open \(path)", number: error.number)
    }
    // `O_APPEND` avoids a hole if the file is truncated.
    try descriptor.appendsAlways(true)
    output = NamedOutput(inPlace: descriptor, path)
    (self.path, self.name, canBeCut) = (path, FileName(name), true)
    reserve()
    watch(in: folder)
  }

  /// Creates a new log at a path chosen by the user, and watches it. A device or pipe is written directly.
  package static func log(_ path: String, in folder: OpenFolder) throws(SystemError) -> OutputFile {
    if Files.exists(path), !Files.isOccupied(path) {
      return try OutputFile(creating: path, ifExists: .refuse)
    }
    return try OutputFile(creating: Files.name(of: path), in: folder, path)
  }

  /// Enables `isGone`, if the file is on a file system with distinct inode numbers.
  package mutating func watch(in folder: OpenFolder) {
    isWatched = folder.holds(name, output.descriptor)
  }

  /// Returns whether the file was removed, replaced, moved out of the folder or truncated, so that the
  /// written data is lost.
  package func isGone(from folder: OpenFolder) -> Bool {
    isWatched && (isCut || !folder.holds(name, output.descriptor))
  }

  /// Whether the file is shorter than the written data.
  package var isCut: Bool { isWatched && output.descriptor.isShorter(than: writtenByteCount) }

  /// Error to report if `isGone`.
  package var goneError: SystemError { isCut ? .cut(path) : .removed(path) }

  /// Replaces the file with a new one that is on disk, so that a power failure leaves either the old or the
  /// new file. If the disk has no room for both, the old file is rewritten in place (`replace(with:)`). A
  /// file that was removed from its folder is created again.
  package mutating func replace(
    with octets: Span<UInt8>, in folder: OpenFolder
  ) throws(SystemError) {
    if let new = try? folder.replace(name.text, with: octets) {
      output = NamedOutput(inPlace: new, path)
      return watch(in: folder)
    }
    if isGone(from: folder) { self = try OutputFile(creating: name.text, in: folder, path) }
    try replace(with: octets)
  }
}
