import Glibc

/// An output file of whole units (rows, records): whatever happens, it ends with a whole one.
///
/// Units are gathered in a buffer. Where the disk takes only a part of it, the file is cut back to the last
/// whole unit, so that what is there stays readable.
public struct OutputFile: ~Copyable {
  private static let bufferByteCount = 1 << 16

  private let descriptor: FileDescriptor
  public let path: String
  /// Units that the kernel has.
  public private(set) var writtenUnits = 0
  private var buffer: [UInt8] = []
  /// Where each unit of the buffer ends.
  private var ends: [Int] = []
  private var writtenByteCount = 0
  private var failure: SystemError?

  /// What to do about a file that is there already.
  public enum Existing: Sendable {
    case replace, fail
  }

  /// Creates a file with mode 0644.
  ///
  /// `open(O_WRONLY | O_CREAT)`, with `O_TRUNC` or `O_EXCL`.
  public init(creating path: String, ifExists existing: Existing = .replace) throws(SystemError) {
    let disposition = existing == .replace ? O_TRUNC : O_EXCL
    descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC | disposition, 0o644)
      })
    self.path = path
    buffer.reserveCapacity(Self.bufferByteCount + 4096)
  }

  /// Whether units wait in the buffer.
  public var isPending: Bool { !ends.isEmpty }

  /// Appends one unit.
  ///
  /// - Throws: ENOSPC and its like once the buffer is full and does not go out; the same error ever after.
  public mutating func append(_ unit: (inout [UInt8]) -> Void) throws(SystemError) {
    if let failure { throw failure }
    unit(&buffer)
    ends.append(buffer.count)
    if buffer.count >= Self.bufferByteCount { try flush() }
  }

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
      _ = ftruncate(descriptor.rawValue, off_t(writtenByteCount + sent))
      failure = SystemError(call: "write \(path)", number: error.number)
    }
    writtenByteCount += sent
    buffer.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
    if let failure { throw failure }
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
