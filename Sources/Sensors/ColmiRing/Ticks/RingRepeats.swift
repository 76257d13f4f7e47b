/// Recognises a frame of the raw stream that was received twice in a row, for example from a transport that
/// repeats packets.
///
/// Ring frames have no sequence number, so a repetition is inferred. The ring normally sends three kinds of
/// frames in turn. A repeated frame has the same kind and the same bytes as the previous frame. However, this
/// also happens when exactly two frames before an equal sample are lost. A frame is therefore not treated as
/// a repetition if the stream often lacks frames. Nor is a dropout, because all dropouts have the same bytes.
public struct RingRepeats: Sendable {
  private static let kinds = RingTick.Part.allCases.count
  /// Minimum number of frames in the normal order before a repeated frame.
  private static let leastInTurn = 12
  /// Minimum mean number of frames between two frames out of order.
  private static let leastSpacing = 100

  private var last: RingRawSample?
  private var lastLink = 0
  private var order = (RingTick.Part?.none, RingTick.Part?.none, RingTick.Part?.none)
  /// Number of frames since the last frame out of order.
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
    // A frame is in order if its kind equals that of the third frame before it, and differs from both frames
    // between.
    let isInTurn = part == order.0 && part != order.1 && part != order.2 && order.1 != order.2
    frames += 1
    if isInTurn { inTurn += 1 } else { inTurn = 0 }
    if !isInTurn, order.0 != nil { outOfTurn += 1 }
    (order, last) = ((order.1, order.2, part), sample)
    return false
  }
}
