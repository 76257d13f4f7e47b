/// Recognises a frame of the raw stream that arrived twice in a row, as from a transport that repeats packets.
///
/// Ring frames have no number, so this is an inference: the ring sends three kinds in turn, the same kind
/// follows itself, and all its bytes are equal. The loss of exactly two frames before an equal sample looks
/// the same. A frame in a stream that often lacks frames therefore does not count, nor does a dropout, because
/// each dropout has the same bytes.
public struct RingRepeats: Sendable {
  private static let kinds = RingTick.Part.allCases.count
  /// Number of frames in turn before a repeated one.
  private static let leastInTurn = 12
  /// Least number of frames for each one out of turn.
  private static let leastSpacing = 100

  private var last: RingRawSample?
  private var lastLink = 0
  private var order = (RingTick.Part?.none, RingTick.Part?.none, RingTick.Part?.none)
  /// Number of frames since the last one out of turn.
  private var inTurn = 0
  private var frames = 0
  private var outOfTurn = 0

  public init() {}

  /// Takes the next frame, in the order of arrival.
  ///
  /// - Parameters:
  ///   - sample: the frame.
  ///   - link: a number that is unique for each link.
  /// - Returns: whether it repeats the one before; if so, leave it out.
  public mutating func isRepeat(_ sample: RingRawSample, link: Int = 0) -> Bool {
    if link != lastLink { (last, order, inTurn, lastLink) = (nil, (nil, nil, nil), 0, link) }
    guard let part = sample.part else { return false }
    if last == sample, !sample.isDropout, inTurn >= Self.leastInTurn,
      outOfTurn * Self.leastSpacing <= frames
    {
      return true
    }
    // In turn: the kind of three frames before, and none of the two between.
    let isInTurn = part == order.0 && part != order.1 && part != order.2 && order.1 != order.2
    frames += 1
    if isInTurn { inTurn += 1 } else { inTurn = 0 }
    if !isInTurn, order.0 != nil { outOfTurn += 1 }
    (order, last) = ((order.1, order.2, part), sample)
    return false
  }
}
