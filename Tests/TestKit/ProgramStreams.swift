import Foundation

/// A program's standard streams, and the files and pipes behind them.
extension Program {
  /// Source of the standard input.
  package enum Input {
    /// Text written with `type`, until `finish` or `end`.
    case typed
    case nothing
    case text(String)
    case file(String)
    /// A descriptor that the caller continues to own.
    case descriptor(Int32)
  }

  /// Destination of an output stream.
  package enum Sink {
    case collected
    case file(String)
    /// A descriptor that the caller continues to own.
    case descriptor(Int32)
  }

  /// The program's end of its standard input, and our end.
  struct Source {
    var descriptor: Int32
    /// Closed when the program has its copy.
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

  /// The program's end of an output stream, and our end.
  struct Drain {
    var descriptor: Int32
    /// Closed when the program has its copy.
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

  /// Makes a file without a name. Unlike a pipe, it can hold any amount of text before it is read.
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
