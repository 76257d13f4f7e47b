/// What a host dropped or had no place for. Each of these is a fault of the controller or of a peer.
public struct HCIHostStatistics: Hashable, Sendable {
  /// Packets that broke the format.
  public var malformed = 0
  /// Data packets of links that are not there, or of kinds that an LE host does not have.
  public var strayData = 0
  /// Events for links that are not there, or before the controller was up.
  public var strayEvents = 0
  /// Answers to commands that nobody sent.
  public var strayAnswers = 0
  /// Packets reported sent, of links that are gone, or more than were under way.
  public var strayCompletions = 0
  /// L2CAP frames that were not put together: cut short, without a start, too long.
  public var droppedFrames = 0
  /// L2CAP frames on channels that are not there, and signals without sense.
  public var strayFrames = 0
  /// Answers of ours that were not sent, because too much waited for the controller.
  public var droppedAnswers = 0
  /// Advertising reports that were not put together.
  public var droppedReports = 0
  /// Data Buffer Overflow events: the controller's count of its buffers and ours differ.
  public var bufferOverflows = 0
  /// Times that the controller failed and was reset.
  public var resets = 0

  public init() {}
}
