import Glibc

/// An output file that is written through a buffer of its own.
public struct OutputFile: ~Copyable {
  private let descriptor: FileDescriptor
  public let path: String
  private var buffer: [UInt8] = []
  private let bufferByteCount: Int

  /// Creates or replaces a file with mode 0644.
  ///
  /// `open(O_WRONLY | O_CREAT | O_TRUNC)`.
  public init(creating path: String, bufferByteCount: Int = 1 << 16) throws(SystemError) {
    descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
      })
    self.path = path
    self.bufferByteCount = bufferByteCount
    buffer.reserveCapacity(bufferByteCount + 4096)
  }

  /// Octets that wait in the buffer.
  public var bufferedByteCount: Int { buffer.count }

  /// Appends through the buffer.
  ///
  /// - Throws: ENOSPC and its like when the buffer is written out; what is on disk stays readable.
  public mutating func append(_ body: (inout [UInt8]) -> Void) throws(SystemError) {
    body(&buffer)
    if buffer.count >= bufferByteCount { try flush() }
  }

  /// Hands everything to the kernel.
  public mutating func flush() throws(SystemError) {
    guard !buffer.isEmpty else { return }
    defer { buffer.removeAll(keepingCapacity: true) }
    do { try descriptor.writeAll(buffer.span) } catch {
      throw SystemError(call: "write \(path)", number: error.number)
    }
  }

  /// Forgets what was written, to begin the file anew: for small files that are replaced as a whole.
  public consuming func finish() throws(SystemError) { try flush() }
}

/// The few directory and file operations that a recorder needs, without Foundation.
public enum Files {
  /// `mkdir`, parents first. An existing directory is fine.
  public static func createDirectory(_ path: String) throws(SystemError) {
    var made = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      made += (made.isEmpty || made.hasSuffix("/") ? "" : "/") + part
      do {
        try checked("mkdir \(made)") { unsafe mkdir(made, 0o755) }
      } catch  where error.number == EEXIST {}
    }
  }

  /// Whether something with that name is there.
  public static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  /// Names in a directory, unsorted; empty where it cannot be read.
  package static func names(in path: String) -> [String] {
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
  package static func text(at path: String) -> String? {
    let number = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard number >= 0 else { return nil }
    let descriptor = FileDescriptor(owning: number)
    var buffer = [UInt8](repeating: 0, count: 4096)
    guard let count = try? descriptor.read(into: &buffer) else { return nil }
    return String(decoding: buffer.prefix(count), as: UTF8.self)
  }
}
