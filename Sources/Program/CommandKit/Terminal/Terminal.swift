public import BLELinux
import Glibc

/// What a terminal says of itself.
public enum Terminal {
  /// Characters of a line of the terminal at standard output; `nil` where that is no terminal, or one that does not say.
  public static var outputColumns: Int? { size(of: .output)?.columns }

  /// The size in characters of the terminal that a stream is; `nil` as above.
  ///
  /// `ioctl(TIOCGWINSZ)`.
  public static func size(of stream: StandardStream) -> (columns: Int, rows: Int)? {
    var size = winsize()
    // SAFETY: the call fills `size`, which outlives it.
    guard unsafe ioctl(stream.rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Whether this process is among those that the terminal is for now; also where the terminal is no session's.
  ///
  /// `tcgetpgrp`.
  public static func isInForeground(of stream: StandardStream) -> Bool {
    let group = tcgetpgrp(stream.rawValue)
    return group < 0 || group == getpgrp()
  }
}
