import BLELinux
package import LiveView
package import Synchronization

/// The live view at the foot of standard error: what else is told scrolls above it.
extension Console {
  package static let view = Mutex<LiveFrames?>(nil)

  package static func openView(isColored: Bool) {
    TerminalKeys.open()
    view.withLock { $0 = LiveFrames(isColored: isColored) }
  }

  /// Nothing where there is no view any more.
  package static func drawView(_ lines: [LiveLine], _ size: (columns: Int, rows: Int)) {
    view.withLock { view in
      if let octets = view?.draw(lines, columns: size.columns, rows: size.rows) { send(octets) }
    }
  }

  /// Takes it away, for good.
  package static func closeView() {
    TerminalKeys.close()
    view.withLock { view in
      if let octets = view?.erase() { send(octets) }
      view = nil
    }
  }

  /// Leaves what is shown, and goes on below it. Does not wait: the process may be about to end.
  package static func leaveView() {
    _ = view.withLockIfAvailable { view in
      if let octets = view?.leave() { send(octets) }
    }
  }

  /// Forgets what is shown: the terminal is somebody else's now.
  package static func forgetView() { view.withLock { _ = $0?.leave() } }
}
