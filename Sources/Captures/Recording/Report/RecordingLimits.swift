/// When a recording ends, beside a link that stays lost, a full disk and a cancelled task. All `nil`: only these.
public struct RecordingLimits: Sendable {
  public var duration: Duration?
  /// Samples of a ring, values of a sensor; the recording, packet log included, ends with the last of them.
  public var count: Int?

  public init(duration: Duration? = nil, count: Int? = nil) {
    self.duration = duration
    self.count = count
  }
}
