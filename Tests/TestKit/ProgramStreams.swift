import Foundation

/// A program's standard streams, and the files and pipes behind them.
extension Program {
  /// What it gets as its standard input.
  package enum Input {
    /// What `type` writes, until `finish` or `end`.
    case typed
    case nothing
    case text(String)
    case file(String)
    /// Stays its owner's.
    case descriptor(Int32)
  }

  /// Where one of its streams goes.
  package enum Sink {
    case collected
    case file(String)
    /// Stays its owner's.
    case descriptor(Int32)
  }

  /// The program's end of its standard input, and ours.
  struct Source {
    var descriptor: Int32
    /// To be closed once the program has it.
    var handle: FileHandle?
    var writer: FileHandle?

    init(_ input: Input) throws {
      switch input {
      case .typed:
        let pipe = Pipe()
        self.init(pipe.fileHandleForReading, pipe.fileHandleForWriting)
      case .nothing: self.init(try Program.handle("/dev/null", O_RDONLY))
      case .file(let path): self.init(try Program.handle(path, O_RDONLY))
      case .text(let text): self.init(try Program.handle(holding: text))
      case .descriptor(let number): self.init(descriptor: number)
      }
    }

    private init(_ handle: FileHandle, _ writer: FileHandle? = nil) {
      self.init(descriptor: handle.fileDescriptor, handle: handle, writer: writer)
    }

    private init(descriptor: Int32, handle: FileHandle? = nil, writer: FileHandle? = nil) {
      (self.descriptor, self.handle, self.writer) = (descriptor, handle, writer)
    }
  }

  /// The program's end of a stream that it writes to, and ours.
  struct Drain {
    var descriptor: Int32
    /// To be closed once the program has it.
    var handle: FileHandle?
    var reader: FileHandle?

    init(_ sink: Sink) throws {
      switch sink {
      case .collected:
        let pipe = Pipe()
        self.init(pipe.fileHandleForWriting, pipe.fileHandleForReading)
      case .file(let path): self.init(try Program.handle(path, O_WRONLY | O_CREAT | O_TRUNC))
      case .descriptor(let number): self.init(descriptor: number)
      }
    }

    private init(_ handle: FileHandle, _ reader: FileHandle? = nil) {
      self.init(descriptor: handle.fileDescriptor, handle: handle, reader: reader)
    }

    private init(descriptor: Int32, handle: FileHandle? = nil, reader: FileHandle? = nil) {
      (self.descriptor, self.handle, self.reader) = (descriptor, handle, reader)
    }
  }

  private static func handle(_ path: String, _ flags: Int32) throws -> FileHandle {
    let number = open(path, flags | O_CLOEXEC, 0o666)
    guard number >= 0 else { throw Failure(description: "\(path): \(String(cString: strerror(errno)))") }
    return FileHandle(fileDescriptor: number, closeOnDealloc: true)
  }

  /// A file that has no name: unlike a pipe, it takes any text before anybody reads.
  private static func handle(holding text: String) throws -> FileHandle {
    var path = Array((NSTemporaryDirectory() + "/input-XXXXXX").utf8CString)
    let number = mkstemp(&path)
    guard number >= 0 else { throw Failure(description: "mkstemp: \(String(cString: strerror(errno)))") }
    unlink(path)
    let handle = FileHandle(fileDescriptor: number, closeOnDealloc: true)
    try handle.write(contentsOf: Data(text.utf8))
    try handle.seek(toOffset: 0)
    return handle
  }
}
