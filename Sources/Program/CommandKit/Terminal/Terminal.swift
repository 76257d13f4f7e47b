public import BLELinux
package import BLEWire
import Glibc
import Synchronization

/// Properties of a terminal.
public enum Terminal {
  /// Width in characters of the terminal at standard output; `nil` if standard output is not a terminal or
  /// does not report its size.
  public static var outputColumns: Int? { size(of: .output)?.columns }

  /// Returns the size in characters of the terminal that a stream is connected to; `nil` if the stream is not
  /// a terminal or does not report its size.
  ///
  /// `ioctl(TIOCGWINSZ)`.
  public static func size(of stream: StandardStream) -> (columns: Int, rows: Int)? {
    var size = winsize()
    // SAFETY: the call fills `size`, and `size` outlives the call.
    guard unsafe ioctl(stream.rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Returns whether this process is in the terminal's foreground process group; also true if the terminal
  /// has no session.
  ///
  /// `tcgetpgrp`.
  public static func isInForeground(of stream: StandardStream) -> Bool {
    let group = tcgetpgrp(stream.rawValue)
    return group < 0 || group == getpgrp()
  }
}

/// Reads single keys, without Enter and without echo, from the terminal at standard input while a view is
/// shown.
///
/// Ctrl-C and Ctrl-Z keep their meaning. If the process is killed, echo stays off until the user runs
/// `reset`.
package enum TerminalKeys {
  private struct State {
    var isOpen = false
    /// The terminal settings to restore.
    var before: termios?
  }

  private static let state = Mutex(State())

  /// Starts reading keys.
  static func open() { state.withLock { $0.isOpen = true } }

  /// Returns the keys pressed since the last call, at most 16, without blocking. The result is empty if
  /// standard input is not a terminal, if another process group is in the foreground, and after `close`.
  ///
  /// `tcgetattr`, `tcsetattr`, `poll`, `read`.
  package static func pressed() -> [UInt8] {
    guard isatty(STDIN_FILENO) == 1, Terminal.isInForeground(of: .input), take() else { return [] }
    var wanted = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
    var keys = [UInt8](repeating: 0, count: 16)
    // SAFETY: `wanted` and `keys` outlive the calls.
    guard unsafe poll(&wanted, 1, 0) > 0 else { return [] }
    let count = unsafe read(STDIN_FILENO, &keys, keys.count)
    return Array(keys.prefix(max(0, count)))
  }

  /// Restores the terminal settings and stops reading keys.
  static func close() {
    state.withLock { state in
      state.isOpen = false
      guard var settings = state.before, Terminal.isInForeground(of: .input) else { return }
      state.before = nil
      // SAFETY: `settings` outlives the call.
      _ = unsafe tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }
  }

  /// Switches the terminal to single keys. Checks the settings on each call, because a shell may change them
  /// while the process is stopped.
  ///
  /// - Returns: whether keys can be read.
  private static func take() -> Bool {
    state.withLock { state in
      var settings = termios()
      // SAFETY: `settings` outlives both calls.
      guard state.isOpen, unsafe tcgetattr(STDIN_FILENO, &settings) == 0 else { return false }
      guard settings.c_lflag & tcflag_t(ICANON) != 0 else { return true }
      state.before = settings
      settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
      return unsafe tcsetattr(STDIN_FILENO, TCSANOW, &settings) == 0
    }
  }
}

/// Reads standard input line by line in bounded memory.
package struct InputLines {
  package static let octets = Limit(
    4_194_304, "bytes of a line of standard input", by: .program, whenFull: "the line is skipped",
    counted: "a message with its number, and exit status 1")

  package enum Line {
    case text(String)
    /// A line that is longer than the limit.
    case tooLong
  }

  private static let chunk = 65_536

  private var chunk: [UInt8] = []
  private var place = 0
  private var isOver = false

  package init() {}

  /// Returns the next line without its terminator; `nil` after the last line. Invalid UTF-8 becomes U+FFFD.
  package mutating func next() throws(SystemError) -> Line? {
    var line: [UInt8] = []
    var (isTooLong, isBegun) = (false, false)
    while true {
      if place == chunk.count {
        if !isOver { chunk = try StandardStream.input.read(upTo: Self.chunk) }
        place = 0
        isOver = chunk.isEmpty
        if isOver { break }
      }
      isBegun = true
      let end = chunk[place...].firstIndex(of: UInt8(ascii: "\n"))
      isTooLong = isTooLong || line.count + (end ?? chunk.count) - place > Self.octets.count
      if isTooLong { line = [] } else { line += chunk[place..<(end ?? chunk.count)] }
      place = end.map { $0 + 1 } ?? chunk.count
      if end != nil { break }
    }
    guard isBegun else { return nil }
    if isTooLong { return .tooLong }
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    return .text(String(decoding: line, as: UTF8.self))
  }
}
