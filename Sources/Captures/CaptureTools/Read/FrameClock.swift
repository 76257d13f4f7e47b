/// Converts a sensor's clock to wall-clock time: its frames arrive with varying delay, but its samples are
/// regular.
package struct FrameClock: Sendable {
  private var offset: Int64?
  private var lastFrame: Int64 = .min

  /// Largest drift between the clocks, in nanoseconds. Beyond it, the sensor's clock is taken to have been
  /// set.
  private static let tolerance: Int64 = 2_000_000_000

  package init() {}

  package mutating func time(ofFrameAt time: Int64, device: Int64) -> Int64? {
    guard device != .min else { return nil }
    let now = time &- device
    if lastFrame != time, let known = offset, (now &- known).magnitude > Self.tolerance.magnitude {
      offset = nil
    }
    lastFrame = time
    let offset = offset ?? now
    self.offset = offset
    return device &+ offset
  }
}
