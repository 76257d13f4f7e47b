import BLELinux
import Glibc
import Synchronization

/// Reads single keys from the terminal at standard input, without Enter and without echo, while a view is
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

  /// The keys pressed since the last call, at most 16. Does not block. Empty if standard input is not a
  /// terminal, if another process group is in the foreground, and after `close`.
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
