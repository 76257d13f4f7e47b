public import BLELinux
import Glibc

/// An output file of whole units (rows, records): whatever happens, it ends with a whole one.
///
/// Units are gathered in a buffer. Where the disk takes only a part of it, the file is cut back to the last
/// whole unit, so that what is there stays readable.
public struct OutputFile: ~Copyable, Sendable {
  private static let bufferByteCount = 1 << 16
  /// As many rows as the buffer has room for: no row and no record is shorter than 16 octets.
  private static let bufferedUnits = bufferByteCount / 16

  private let descriptor: FileDescriptor
  public let path: String
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
    case replace, fail
    /// Goes on after so many octets of it, and cuts off what follows them.
    case extend(byteCount: Int)
  }

  /// Creates a file with mode 0644.
  ///
  /// `open(O_WRONLY | O_CREAT)`, with `O_TRUNC` or `O_EXCL`, or with `ftruncate` and `lseek`.
  public init(creating path: String, ifExists existing: Existing = .replace) throws(SystemError) {
    descriptor = try Self.open(path, existing)
    self.path = path
    canBeCut = true
    if case .extend(let byteCount) = existing { (writtenByteCount, syncedByteCount) = (byteCount, byteCount) }
    buffer.reserveCapacity(Self.bufferByteCount + 4096)
    ends.reserveCapacity(Self.bufferedUnits)
  }

  /// Standard output, under the name `-`. Where it is full or closed, it may end inside a unit.
  public init(toStandardOutput: Void) throws(SystemError) {
    descriptor = FileDescriptor(
      owning: try checked("dup standard output") { fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) })
    path = "-"
    canBeCut = false
    buffer.reserveCapacity(Self.bufferByteCount + 4096)
    ends.reserveCapacity(Self.bufferedUnits)
  }

  private static func open(
    _ path: String, _ existing: Existing
  ) throws(SystemError) -> FileDescriptor {
    let disposition =
      switch existing {
      case .replace: O_TRUNC
      case .fail: O_EXCL
      case .extend: CInt(0)
      }
    let descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe Glibc.open(path, O_WRONLY | O_CREAT | O_CLOEXEC | disposition, 0o644)
      })
    guard case .extend(let byteCount) = existing else { return descriptor }
    let number = descriptor.rawValue
    try checked("ftruncate \(path)") { ftruncate(number, off_t(byteCount)) }
    try checked("lseek \(path)") { lseek(number, 0, SEEK_END) < 0 ? -1 : 0 }
    return descriptor
  }

  /// Whether units wait in the buffer.
  public var isPending: Bool { !ends.isEmpty }

  /// Whether the kernel has octets that a power failure may take back.
  public var isUnsynced: Bool { canBeCut && failure == nil && syncedByteCount < writtenByteCount }

  /// Whether it is a pipe whose reader has gone: the next write would fail.
  public var hasLostItsReader: Bool {
    var poll = pollfd(fd: descriptor.rawValue, events: 0, revents: 0)
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
      while sent < buffer.count { sent += try descriptor.write(buffer.span.extracting(sent...)) }
      writtenUnits += ends.count
    } catch {
      let whole = ends.lastIndex { $0 <= sent }
      sent = whole.map { ends[$0] } ?? 0
      writtenUnits += whole.map { $0 + 1 } ?? 0
      if canBeCut { _ = ftruncate(descriptor.rawValue, off_t(writtenByteCount + sent)) }
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
    let number = descriptor.rawValue
    do throws(SystemError) { try checked("fdatasync \(path)") { fdatasync(number) } } catch {
      guard error.number == EINVAL || error.number == EROFS else {
        failure = error
        throw error
      }
    }
    syncedByteCount = writtenByteCount
  }

  /// Replaces the whole content with `octets`, in place: the blocks that the file has are used again, so a
  /// file that was made large enough can be rewritten on a full disk.
  public mutating func replace(with octets: Span<UInt8>) throws(SystemError) {
    let number = descriptor.rawValue
    try checked("lseek \(path)") { lseek(number, 0, SEEK_SET) < 0 ? -1 : 0 }
    try descriptor.writeAll(octets)
    try checked("ftruncate \(path)") { ftruncate(number, off_t(octets.count)) }
  }
}
