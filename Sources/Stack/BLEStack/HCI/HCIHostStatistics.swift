/// Counts of dropped and unexpected packets. Each is an error of the controller or of a peer.
public struct HCIHostStatistics: Hashable, Sendable {
  /// Malformed packets.
  public var malformed = 0
  /// Data packets of unknown links, or of types that an LE host does not have.
  public var strayData = 0
  /// Events for unknown links, or before the controller was initialised.
  public var strayEvents = 0
  /// Responses to commands that the host did not send.
  public var strayAnswers = 0
  /// Number of packets reported as transmitted for links that have ended, or beyond the number outstanding.
  public var strayCompletions = 0
  /// L2CAP frames that could not be reassembled: truncated, without a start, or too long.
  public var droppedFrames = 0
  /// L2CAP frames on unknown channels, and invalid signalling commands.
  public var strayFrames = 0
  /// Responses of this host that were dropped because a queue was full.
  public var droppedAnswers = 0
  /// Advertising reports that could not be reassembled.
  public var droppedReports = 0
  /// Data Buffer Overflow events: the host has sent more packets than the controller can buffer.
  public var bufferOverflows = 0
  /// Resets of a failed controller.
  public var resets = 0

  public init() {}
}
