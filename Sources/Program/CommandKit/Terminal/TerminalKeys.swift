import BLELinux
import Glibc
import Synchronization

/// Single keys from the terminal at standard input, taken without Enter and unseen while a view is shown.
///
/// Ctrl-C and Ctrl-Z stay the terminal's own. A process that is killed leaves the terminal without echo; `reset` sets it
/// right.
package enum TerminalKeys {
  private struct State {
    var isOpen = false
    /// What the terminal was set to before.
    var before: termios?
  }

  private static let state = Mutex(State())

  /// Keys are taken from now on.
  static func open() { state.withLock { $0.isOpen = true } }

  /// The keys that were pressed since the last call, sixteen at most. Does not wait. There are none where standard input is
  /// no terminal, where others have it now, and after `close`.
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

  /// Gives the terminal back as it was, and takes no more keys.
  static func close() {
    state.withLock { state in
      state.isOpen = false
      guard var settings = state.before, Terminal.isInForeground(of: .input) else { return }
      state.before = nil
      // SAFETY: `settings` outlives the call.
      _ = unsafe tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }
  }

  /// A shell sets the terminal as it likes while the process is stopped, so its settings are looked at each time.
  ///
  /// - Returns: whether keys are taken.
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
