public import BLELinux
import Glibc

/// Properties of a terminal.
public enum Terminal {
  /// Width of the terminal at standard output in characters; `nil` if it is not a terminal or does not report
  /// its size.
  public static var outputColumns: Int? { size(of: .output)?.columns }

  /// Size in characters of the terminal that a stream is connected to; `nil` if the stream is not a terminal
  /// or does not report its size.
  ///
  /// `ioctl(TIOCGWINSZ)`.
  public static func size(of stream: StandardStream) -> (columns: Int, rows: Int)? {
    var size = winsize()
    // SAFETY: the call fills `size`, which outlives it.
    guard unsafe ioctl(stream.rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Whether this process is in the terminal's foreground process group; also true if the terminal has no
  /// session.
  ///
  /// `tcgetpgrp`.
  public static func isInForeground(of stream: StandardStream) -> Bool {
    let group = tcgetpgrp(stream.rawValue)
    return group < 0 || group == getpgrp()
  }
}
