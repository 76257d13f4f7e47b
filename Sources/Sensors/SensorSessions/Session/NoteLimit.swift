package import BLELinux
package import BLEWire
import Synchronization

/// Limits the rate of messages about lost and restored links.
package final class NoteLimit: Sendable {
  package static let lines = Limit(
    20, "lines a minute about lost links", by: .air, whenFull: "the rest is counted in one line",
    counted: "`… and N more in the last minute`")
  private static let period = Duration.seconds(60)

  private struct State: Sendable {
    var end = MonotonicTime(nanoseconds: 0)
    var told = 0
    var heldBack = 0
  }

  private let loop: EventLoop
  private let tell: @Sendable (String) -> Void
  private let state = Mutex(State())

  /// Creates a limiter.
  ///
  /// - Parameters:
  ///   - loop: event loop that provides the clock.
  ///   - tell: called with each line that is not suppressed.
  package init(on loop: EventLoop, _ tell: @escaping @Sendable (String) -> Void) {
    self.loop = loop
    self.tell = tell
  }

  package func note(_ line: String) {
    let now = loop.clock.monotonic()
    let (isTold, rest) = state.withLock { state -> (Bool, Duration?) in
      if state.end <= now, state.heldBack == 0 {
        (state.end, state.told) = (now.advanced(by: Self.period), 0)
      }
      if state.told < Self.lines.count {
        state.told += 1
        return (true, nil)
      }
      state.heldBack += 1
      return (false, state.heldBack == 1 ? now.duration(to: state.end) : nil)
    }
    if isTold { tell(line) }
    if let rest { _ = loop.after(rest) { [weak self] in self?.flush() } }
  }

  /// Reports the number of suppressed lines. Called at the end of each minute; call it also at the end of the
  /// program.
  package func flush() {
    let count = state.withLock { state in
      defer { state.heldBack = 0 }
      return state.heldBack
    }
    if count > 0 { tell("… and \(count) more in the last minute: links lost and restored") }
  }
}
