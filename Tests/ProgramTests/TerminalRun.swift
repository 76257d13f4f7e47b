import Foundation
import Glibc
import TestKit
import Testing

/// A program on its own pseudo-terminal, which is its controlling terminal, so that it uses colours and a
/// pager and can be interrupted.
final class TerminalRun {
  /// Destination of an output stream.
  enum Stream {
    case terminal
    case file(URL)
  }

  /// Time limit; a test that takes longer has failed.
  private static let patienceSeconds = 30.0

  /// `TIOCSPTLCK` and `TIOCGPTN` of the kernel's `asm-generic/ioctls.h`, which Swift does not import.
  private static let setLock: UInt = 0x4004_5431
  private static let getNumber: UInt = 0x8004_5430

  private let program: Program
  private let terminal: FileHandle
  private var octets: [UInt8] = []

  /// - Parameters:
  ///   - environment: changes to the environment of the tests; `nil` removes a variable.
  init(
    _ program: String, _ arguments: [String], environment: [String: String?] = [:],
    output: Stream = .terminal, errors: Stream = .terminal, columns: UInt16 = 100
  ) throws {
    let number = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    var (lock, index): (CInt, CUnsignedInt) = (0, 0)
    try #require(number >= 0 && ioctl(number, Self.setLock, &lock) == 0)
    try #require(ioctl(number, Self.getNumber, &index) == 0)
    terminal = FileHandle(fileDescriptor: number, closeOnDealloc: true)
    var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
    try #require(ioctl(number, UInt(TIOCSWINSZ), &size) == 0)
    let slave = open("/dev/pts/\(index)", O_RDWR | O_NOCTTY | O_CLOEXEC)
    try #require(slave >= 0)
    defer { close(slave) }
    var variables: [String: String?] = ["TERM": "xterm", "NO_COLOR": nil, "PAGER": nil, "LESS": nil]
    for (name, value) in environment { variables[name] = value }
    // `setsid` makes its standard input the controlling terminal.
    self.program = try Program(
      Place.tool("setsid"), ["--ctty", "--wait", program] + arguments, input: .descriptor(slave),
      output: Self.sink(output, slave), errors: Self.sink(errors, slave), environment: variables)
  }

  deinit { program.send(SIGKILL) }

  private static func sink(_ stream: Stream, _ terminal: Int32) -> Program.Sink {
    switch stream {
    case .terminal: .descriptor(terminal)
    case .file(let file): .file(file.path)
    }
  }

  /// Output so far, with LF line ends; a terminal ends lines with CR and LF.
  var text: String { String(decoding: octets, as: UTF8.self).replacing("\r\n", with: "\n") }

  func type(_ text: String) throws { try terminal.write(contentsOf: Data(text.utf8)) }

  /// Reads until the text satisfies `condition`.
  func wait(
    _ what: Comment, at location: SourceLocation = #_sourceLocation, until condition: (String) -> Bool
  ) throws {
    let end = Date.now.addingTimeInterval(Self.patienceSeconds)
    while !condition(text), Date.now < end, read() {}
    try #require(condition(text), what, sourceLocation: location)
  }

  /// Reads to the end.
  ///
  /// - Returns: the exit status.
  func status(at location: SourceLocation = #_sourceLocation) throws -> Int32 {
    let end = Date.now.addingTimeInterval(Self.patienceSeconds)
    while Date.now < end, read() {}
    try #require(Date.now < end, "the program does not end", sourceLocation: location)
    return try program.ended().status
  }

  /// Reads available output.
  ///
  /// - Returns: `false` at the end, when the other side of the terminal is closed.
  private func read() -> Bool {
    Program.checkThatItMayBlock()
    var poll = pollfd(fd: terminal.fileDescriptor, events: Int16(POLLIN), revents: 0)
    guard Glibc.poll(&poll, 1, 200) > 0 else { return true }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = Glibc.read(terminal.fileDescriptor, &buffer, buffer.count)
    guard count > 0 else { return false }
    octets += buffer[..<count]
    return true
  }
}
