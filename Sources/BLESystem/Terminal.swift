import Glibc

/// What a terminal says of itself.
public enum Terminal {
  /// Characters of a line of the terminal at standard output; `nil` where that is no terminal, or one that does not say.
  ///
  /// `ioctl(TIOCGWINSZ)`.
  public static var outputColumns: Int? {
    var size = winsize()
    // SAFETY: the call fills `size`, which outlives it.
    guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }
}
