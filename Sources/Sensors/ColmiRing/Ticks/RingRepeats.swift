/// Recognises a frame of the raw stream that arrived twice in a row, as from a transport that repeats packets.
///
/// Ring frames have no number. A frame counts as repeated only where a sample cannot explain it: the ring
/// sends three kinds in turn, the same kind follows itself, and all its bytes are equal. A dropout is never
/// recognised as repeated, because each dropout has the same bytes.
public struct RingRepeats: Sendable {
  private var last: RingRawSample?
  private var lastLink = 0
  /// Kinds of the two frames before `last`.
  private var earlier: (RingTick.Part?, RingTick.Part?)

  public init() {}

  /// Takes the next frame, in the order of arrival.
  ///
  /// - Parameter link: a number that is unique for each link.
  /// - Returns: whether it repeats the one before and is to be left out.
  public mutating func isRepeat(_ sample: RingRawSample, link: Int = 0) -> Bool {
    if link == lastLink, let last, last == sample, !sample.isDropout, let part = sample.part,
      let first = earlier.0, let second = earlier.1, first != part, second != part, first != second
    {
      return true
    }
    earlier = link == lastLink ? (earlier.1, last?.part) : (nil, nil)
    (last, lastLink) = (sample, link)
    return false
  }
}
