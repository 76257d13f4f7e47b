/// Puts the samples of a sensor with a clock of its own on the wall clock: its frames come late by turns, its samples do not.
package struct FrameClock: Sendable {
  private var offset: Int64?
  private var lastFrame: Int64 = .min

  /// How far the clocks may drift from each other before the sensor's is taken for set anew. Nanoseconds.
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
