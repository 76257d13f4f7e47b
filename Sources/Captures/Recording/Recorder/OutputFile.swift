public import BLELinux
import Glibc

/// An output file of whole units (rows, records): whatever happens, it ends with a whole one.
///
/// Units are gathered in a buffer. Where the disk takes only a part of it, the file is cut back to the last
/// whole unit, so that what is there stays readable. No link is followed, but those of `/dev/stdout` and its like.
public struct OutputFile: ~Copyable, Sendable {
  private static let bufferByteCount = 1 << 16
  /// As many rows as the buffer has room for: no row and no record is shorter than 16 octets.
  private static let bufferedUnits = bufferByteCount / 16

  private var output: NamedOutput
  public let path: String
  /// Its name in the folder that it was made in.
  private let name: FileName
  /// Whether its name led to it when it was made: a device has none that matters.
  private var isWatched = false
  /// Units that the kernel has.
  public private(set) var writtenUnits = 0
  private var buffer: [UInt8] = []
  /// Where each unit of the buffer ends.
  private var ends: [Int] = []
  /// Octets of the file that the kernel has, those that were there before included.
  public private(set) var writtenByteCount = 0
  /// Octets of it that were there, or that the disk has.
  private var syncedByteCount = 0
  private var failure: SystemError?
  /// Standard output may be a file that was not empty, or not ours alone.
  private let canBeCut: Bool

  /// What to do about a file that is there already.
  public enum Existing: Hashable, Sendable {
    /// Takes its place once the new one is finished. A device or a pipe is written as it is.
    case replace
    /// Throws EEXIST, now or where it has come before the new one is finished. A device or a pipe is written as it is.
    case refuse
    case fail
    /// Goes on after so many octets of it, and cuts off what follows them. None: makes it, where it is not there.
    case extend(byteCount: Int)
  }

  /// Creates a file with mode 0644.
  ///
  /// `open(O_WRONLY | O_NOFOLLOW)`, with `O_CREAT | O_EXCL`, or with `ftruncate` and `lseek`.
  public init(creating path: String, ifExists existing: Existing) throws(SystemError) {
    output = try Self.open(path, existing)
    self.path = path
    name = FileName(Files.name(of: path))
    canBeCut = true
    if case .extend(let byteCount) = existing { (writtenByteCount, syncedByteCount) = (byteCount, byteCount) }
    reserve()
  }

  /// Standard output. Where it is full or closed, it may end inside a unit.
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
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | disposition, 0o644)
      })
    guard case .extend(let byteCount) = existing else { return NamedOutput(inPlace: descriptor, path) }
    let number = descriptor.rawValue
    // Somebody has cut it: what follows would stand after octets that nobody wrote.
    guard lseek(number, 0, SEEK_END) >= byteCount else {
      throw SystemError(call: "go on with \(path)", number: ESTALE)
    }
    try checked("ftruncate \(path)") { ftruncate(number, off_t(byteCount)) }
    try checked("lseek \(path)") { lseek(number, 0, SEEK_END) < 0 ? -1 : 0 }
    return NamedOutput(inPlace: descriptor, path)
  }

  /// Whether units wait in the buffer.
  public var isPending: Bool { !ends.isEmpty }

  /// Whether the kernel has octets that a power failure may take back.
  public var isUnsynced: Bool { canBeCut && failure == nil && syncedByteCount < writtenByteCount }

  /// Whether it is a pipe whose reader has gone: the next write would fail.
  public var hasLostItsReader: Bool {
    var poll = pollfd(fd: output.descriptor.rawValue, events: 0, revents: 0)
    // SAFETY: one entry, which outlives the call.
    return unsafe Glibc.poll(&poll, 1, 0) > 0 && poll.revents & Int16(POLLERR) != 0
  }

  /// Appends one unit.
  ///
  /// - Throws: ENOSPC and its like once the buffer is full and does not go out; the same error ever after.
  public mutating func append(_ unit: (inout [UInt8]) -> Void) throws(SystemError) {
    if let failure { throw failure }
    unit(&buffer)
    ends.append(buffer.count)
    if buffer.count >= Self.bufferByteCount { try flush() }
  }

  /// Appends one unit that is there already.
  public mutating func append(_ unit: [UInt8]) throws(SystemError) { try append { $0 += unit } }

  /// Hands everything to the kernel.
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

  /// Waits until the disk has what the kernel has. Call `flush` before.
  ///
  /// `fdatasync`. A file that is no disk's (a device, a pipe) has nothing to wait for.
  ///
  /// - Throws: EIO and its like; the same error ever after.
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

  /// Has the disk get all octets that the kernel has, though not the file's length. Before `sync` of any of several files, whose
  /// commit may note the lengths of all; and of a new file, so that a power failure leaves it with its head or not at all.
  package mutating func writeOut(_ extent: WritingOut) throws(SystemError) {
    guard failure == nil, canBeCut else { return }
    do throws(SystemError) { try output.descriptor.writeOut(extent) } catch {
      failure = error
      throw error
    }
  }

  /// Replaces the whole content with `octets`, in place: the blocks that the file has are used again, so a
  /// file that was made large enough can be rewritten on a full disk.
  public mutating func replace(with octets: Span<UInt8>) throws(SystemError) {
    let number = output.descriptor.rawValue
    try output.descriptor.appendsAlways(false)
    try checked("lseek \(path)") { lseek(number, 0, SEEK_SET) < 0 ? -1 : 0 }
    try output.descriptor.writeAll(octets)
    try checked("ftruncate \(path)") { ftruncate(number, off_t(octets.count)) }
  }
  /// Hands everything to the disk, and gives a file that is to replace another its name. Nothing more can be appended.
  public mutating func finish() throws(SystemError) {
    try flush()
    try sync()
    try output.commit()
  }
}

// MARK: Whether it is there

extension OutputFile {
  /// Makes a file that is not there yet in a folder that is open, and watches it.
  ///
  /// - Parameter path: what it is called in messages.
  package init(creating name: String, in folder: OpenFolder, _ path: String) throws(SystemError) {
    let descriptor: FileDescriptor
    do throws(SystemError) { descriptor = try folder.create(name) } catch {
      throw SystemError(call: "open \(path)", number: error.number)
    }
    // Where somebody cuts the file, no hole comes to be.
    try descriptor.appendsAlways(true)
    output = NamedOutput(inPlace: descriptor, path)
    (self.path, self.name, canBeCut) = (path, FileName(name), true)
    reserve()
    watch(in: folder)
  }

  /// Makes a log that is not there yet, where a person says, and watches it. A device or a pipe is written as it is.
  package static func log(_ path: String, in folder: OpenFolder) throws(SystemError) -> OutputFile {
    if Files.exists(path), !Files.isOccupied(path) {
      return try OutputFile(creating: path, ifExists: .refuse)
    }
    return try OutputFile(creating: Files.name(of: path), in: folder, path)
  }

  /// Lets `isGone` tell from now on, if it is a file at all, and of a file system whose files can be told from each other.
  package mutating func watch(in folder: OpenFolder) {
    isWatched = folder.holds(name, output.descriptor)
  }

  /// Whether it was removed, replaced, moved out of the folder, or cut: nobody finds there what was written.
  package func isGone(from folder: OpenFolder) -> Bool {
    isWatched && (isCut || !folder.holds(name, output.descriptor))
  }

  /// Whether it is shorter than what the kernel took.
  package var isCut: Bool { isWatched && output.descriptor.isShorter(than: writtenByteCount) }

  /// What is told of it where it is gone.
  package var goneError: SystemError { isCut ? .cut(path) : .removed(path) }

  /// Puts a new file in its place that the disk has, so that a power failure leaves the one or the other; where there is no room
  /// for two, like `replace(with:)`. Where the file has gone from its folder, it is made again.
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
