/// Recognises a frame of the raw stream that was received twice in a row, for example from a transport that
/// repeats packets.
///
/// Ring frames have no number, so a repetition is inferred: the ring sends three kinds in turn, but the same
/// kind follows itself with all bytes equal. The loss of exactly two frames before an equal sample looks the
/// same. A frame is therefore not a repetition if the stream often lacks frames, or if it is a dropout,
/// because all dropouts have the same bytes.
public struct RingRepeats: Sendable {
  private static let kinds = RingTick.Part.allCases.count
  /// Minimum number of frames in turn before a repeated one.
  private static let leastInTurn = 12
  /// Minimum number of frames for each one out of turn.
  private static let leastSpacing = 100

  private var last: RingRawSample?
  private var lastLink = 0
  private var order = (RingTick.Part?.none, RingTick.Part?.none, RingTick.Part?.none)
  /// Number of frames since the last one out of turn.
  private var inTurn = 0
  private var frames = 0
  private var outOfTurn = 0

  public init() {}

  /// Processes the next frame, in the order of arrival.
  ///
  /// - Parameters:
  ///   - sample: the frame.
  ///   - link: a number that is unique for each link.
  /// - Returns: whether the frame repeats the previous one and should be skipped.
  public mutating func isRepeat(_ sample: RingRawSample, link: Int = 0) -> Bool {
    if link != lastLink { (last, order, inTurn, lastLink) = (nil, (nil, nil, nil), 0, link) }
    guard let part = sample.part else { return false }
    if last == sample, !sample.isDropout, inTurn >= Self.leastInTurn,
      outOfTurn * Self.leastSpacing <= frames
    {
      return true
    }
    // In turn means: the kind is that of the third frame before, and of neither frame in between.
    let isInTurn = part == order.0 && part != order.1 && part != order.2 && order.1 != order.2
    frames += 1
    if isInTurn { inTurn += 1 } else { inTurn = 0 }
    if !isInTurn, order.0 != nil { outOfTurn += 1 }
    (order, last) = ((order.1, order.2, part), sample)
    return false
  }
}
