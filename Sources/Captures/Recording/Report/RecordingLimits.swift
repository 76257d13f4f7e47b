/// Limits that end a recording. Without limits, it ends only if the link is lost for good, the disk is full
/// or the task is cancelled.
public struct RecordingLimits: Sendable {
  public var duration: Duration?
  /// Maximum number of samples of a ring, or of values of another sensor. The recording, including its packet
  /// log, ends with the last of them.
  public var count: Int?

  public init(duration: Duration? = nil, count: Int? = nil) {
    self.duration = duration
    self.count = count
  }
}
