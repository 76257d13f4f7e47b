import BLELinux
package import LiveView
package import Synchronization

/// The live view at the bottom of the terminal on standard error. Messages scroll above it.
extension Console {
  package static let view = Mutex<LiveFrames?>(nil)

  package static func openView(isColored: Bool) {
    TerminalKeys.open()
    view.withLock { $0 = LiveFrames(isColored: isColored) }
  }

  /// Draws a frame. Does nothing if the view is closed.
  package static func drawView(_ lines: [LiveLine], _ size: (columns: Int, rows: Int)) {
    view.withLock { view in
      if let octets = view?.draw(lines, columns: size.columns, rows: size.rows) { send(octets) }
    }
  }

  /// Closes the view. Its last frame is erased, or stays on the screen above what is printed next.
  package static func closeView(erasing: Bool) {
    TerminalKeys.close()
    view.withLock { view in
      if let octets = erasing ? view?.erase() : view?.leave() { send(octets) }
      view = nil
    }
  }

  /// Leaves the current frame on the screen and continues below it. Does not block, because the process may
  /// be about to end.
  package static func leaveView() {
    _ = view.withLockIfAvailable { view in
      if let octets = view?.leave() { send(octets) }
    }
  }

  /// Discards the current frame after another program has used the terminal.
  package static func forgetView() { view.withLock { _ = $0?.leave() } }
}
