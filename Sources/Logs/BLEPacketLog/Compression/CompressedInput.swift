public import BLELinux
internal import CCompression
import Glibc

/// A file or standard input, decompressed if the first bytes show that the format is gzip or zstd.
///
/// Memory is limited to two pieces and the decompressor's state: 32 KiB for gzip, at most 8 MiB for zstd.
public struct CompressedInput: ~Copyable {
  /// Maximum size of a piece, in bytes.
  public static let pieceByteCount = 65_536

  /// An error in a compressed stream.
  public enum Problem: Error, Hashable, Sendable, CustomStringConvertible {
    /// Damaged data at this offset in the compressed file.
    case damaged(offset: Int)
    /// The end of the file inside a compressed frame.
    case truncated(offset: Int)
    case system(SystemError)

    public var description: String {
      switch self {
      case .damaged(let offset): "the compressed data is damaged before byte \(offset)"
      case .truncated(let offset): "the compressed data ends early, at byte \(offset)"
      case .system(let error): "\(error)"
      }
    }
  }

  private let descriptor: FileDescriptor
  private let decompressor: Decompressor?
  /// Compressed bytes. The range `taken..<count` has not been consumed yet.
  private var raw: [UInt8]
  private var taken = 0
  private var count = 0
  /// Offset of `raw` in the file.
  private var offset = 0
  private var isAtEnd = false

  /// Opens a file, or standard input for `-`, and reads the first bytes.
  ///
  /// `open(O_RDONLY)`, or `dup(0)`.
  public init(path: String) throws(SystemError) {
    let number = try checked("open \(path)") {
      // SAFETY: the path is a null-terminated string for the length of the call.
      unsafe path == "-" ? fcntl(0, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC)
    }
    try self.init(FileDescriptor(owning: number))
  }

  /// Opens a file inside a capture. A pipe or device is rejected at once instead of blocking.
  ///
  /// - Throws: EINVAL or EISDIR if the file is not a regular file.
  package init(regularFile path: String) throws(SystemError) {
    try self.init(try FileDescriptor.regularFile(path))
  }

  private init(_ descriptor: consuming FileDescriptor) throws(SystemError) {
    var raw = [UInt8](repeating: 0, count: Self.pieceByteCount)
    let count = try Self.start(&raw, from: descriptor)
    decompressor = Decompressor.forStream(startingWith: raw, count: count)
    self.descriptor = descriptor
    self.raw = raw
    self.count = count
  }

  /// Whether the input is compressed.
  public var isCompressed: Bool { decompressor != nil }

  /// Returns the next piece, at most `pieceByteCount` bytes; empty at the end. If a plain file has grown
  /// after its end was reached, the next call returns the new bytes.
  public mutating func next() throws(Problem) -> [UInt8] {
    guard let decompressor else {
      if taken == count { try refill() }
      defer { taken = count }
      return Array(raw[taken..<count])
    }
    while !isAtEnd {
      if taken == count { try refill() }
      var piece = [UInt8](repeating: 0, count: Self.pieceByteCount)
      let input = count - taken
      let step = decompressor.step(raw, taken..<count, into: &piece)
      taken += step.taken
      guard step.status != .damaged else { throw .damaged(offset: offset + taken) }
      if step.given > 0 {
        piece.removeSubrange(step.given...)
        return piece
      }
      guard input == 0 else { continue }
      isAtEnd = true
      if step.status == .inFrame { throw .truncated(offset: offset + taken) }
    }
    return []
  }

  /// Returns whether `path` now names another file, or the file has become shorter, because a log was rotated
  /// or restarted. Returns false if the path does not exist, because it may be missing only temporarily.
  ///
  /// `stat`, `fstat`.
  public func isReplaced(at path: String) -> Bool {
    var (named, own) = (stat(), stat())
    // SAFETY: the calls fill structures that outlive the calls; the path is a null-terminated string during
    // its call.
    guard unsafe stat(path, &named) == 0, unsafe fstat(descriptor.rawValue, &own) == 0 else { return false }
    return named.st_ino != own.st_ino || named.st_dev != own.st_dev || Int(named.st_size) < offset + count
  }

  private mutating func refill() throws(Problem) {
    offset += count
    taken = 0
    do throws(SystemError) {
      count = try descriptor.read(into: &raw)
    } catch { throw .system(error) }
  }

  /// Reads until the file type is known or the input ends, because a pipe may deliver one byte at a time.
  private static func start(
    _ raw: inout [UInt8], from descriptor: borrowing FileDescriptor
  ) throws(SystemError) -> Int {
    var count = 0
    while count < 4 {
      var part = [UInt8](repeating: 0, count: raw.count - count)
      let read = try descriptor.read(into: &part)
      if read == 0 { return count }
      raw.replaceSubrange(count..<count + read, with: part[..<read])
      count += read
    }
    return count
  }
}

/// An owned stream of zlib or libzstd.
@safe private final class Decompressor {
  enum Status {
    case mayEnd, inFrame, damaged
  }

  private let stream: OpaquePointer

  private init(owning stream: OpaquePointer) { unsafe self.stream = stream }

  deinit { unsafe ringtap_decompressor_close(stream) }

  /// Returns the decompressor for a stream with these first bytes, or `nil` for a plain file.
  static func forStream(startingWith octets: [UInt8], count: Int) -> Decompressor? {
    guard count >= 4 else { return nil }
    let compression: CInt
    switch (octets[0], octets[1], octets[2], octets[3]) {
    case (0x1F, 0x8B, 0x08, _): compression = CInt(RINGTAP_GZIP.rawValue)
    case (0x28, 0xB5, 0x2F, 0xFD): compression = CInt(RINGTAP_ZSTD.rawValue)
    default: return nil
    }
    // SAFETY: this object owns the stream from now on, and closes it once.
    guard let stream = unsafe ringtap_decompressor_open(compression) else { return nil }
    return unsafe Decompressor(owning: stream)
  }

  func step(
    _ input: [UInt8], _ range: Range<Int>, into output: inout [UInt8]
  ) -> (status: Status, taken: Int, given: Int) {
    var taken = 0
    var given = 0
    // SAFETY: during the call, both pointers are valid for the given numbers of bytes.
    let result = unsafe input.withUnsafeBufferPointer { input in
      unsafe output.withUnsafeMutableBufferPointer { output in
        unsafe ringtap_decompress(
          stream, input.baseAddress.map { unsafe $0 + range.lowerBound }, range.count, &taken,
          output.baseAddress, output.count, &given)
      }
    }
    return (result < 0 ? .damaged : result == 1 ? .mayEnd : .inFrame, taken, given)
  }
}
