/// Times of the samples of one stream, by the sensor's clock.
///
/// A frame has one time stamp, of its last sample. The samples lie evenly between it and that of the frame before; in
/// the first frame, and after a gap, they lie at the nominal rate before it. All in integers: a time stamp has more
/// digits than a `Double`.
public struct PolarSampleClock: Hashable, Sendable, BitwiseCopyable {
  /// Where the samples of one frame lie.
  public struct Timing: Hashable, Sendable, BitwiseCopyable {
    /// Of the last sample.
    let last: UInt64
    let sampleCount: UInt64
    /// `spanNanoseconds` / `spanCount` is the time from sample to sample.
    let spanNanoseconds: UInt64
    let spanCount: UInt64
    /// Samples that are missing before the first, by the nominal rate: frames have no counter.
    public let missingSampleCount: Int

    /// Of sample `index`, in nanoseconds since 2000.
    public func nanoseconds(_ index: Int) -> UInt64 {
      let before = sampleCount - 1 - UInt64(index)
      // Rounded to the nearest, in two parts so that the product stays small.
      let whole = spanNanoseconds / spanCount * before
      let part = (spanNanoseconds % spanCount * before * 2 + spanCount) / (2 * spanCount)
      return last &- whole &- part
    }
  }

  /// Times the nominal duration of a frame that may pass before samples are taken for lost.
  static let gapNumerator: UInt64 = 3
  static let gapDenominator: UInt64 = 2

  private let sampleRateHertz: UInt64?
  private var previous: UInt64?

  /// - Parameters:
  ///   - sampleRateHertz: nominal, above 0; `nil` where it is not known: then no gap is noticed.
  ///   - previous: the time stamp of the frame before the first, in nanoseconds since 2000.
  public init(sampleRateHertz: UInt16?, after previous: UInt64? = nil) {
    precondition(sampleRateHertz != 0, "no such rate")
    self.sampleRateHertz = sampleRateHertz.map(UInt64.init)
    self.previous = previous
  }

  /// - Returns: `nil` where nothing tells: a frame without samples or time, or the first one without a rate.
  public mutating func timing(of timestampNanoseconds: UInt64, sampleCount: Int) -> Timing? {
    guard timestampNanoseconds != 0, sampleCount > 0 else { return nil }
    let count = UInt64(sampleCount)
    let before = previous
    previous = timestampNanoseconds
    // A clock that was set back tells nothing.
    guard let before, before < timestampNanoseconds else {
      return atNominalRate(timestampNanoseconds, count, missing: 0)
    }
    let elapsed = timestampNanoseconds - before
    if let rate = sampleRateHertz {
      let nominal = count * 1_000_000_000 / rate
      if elapsed / Self.gapNumerator > nominal / Self.gapDenominator {
        let slots =
          elapsed / 1_000_000_000 * rate + (elapsed % 1_000_000_000 * rate + 500_000_000) / 1_000_000_000
        let missing = slots > count ? Int(min(slots - count, UInt64(Int32.max))) : 0
        return atNominalRate(timestampNanoseconds, count, missing: missing)
      }
    }
    return Timing(
      last: timestampNanoseconds, sampleCount: count, spanNanoseconds: elapsed, spanCount: count,
      missingSampleCount: 0)
  }

  private func atNominalRate(_ last: UInt64, _ count: UInt64, missing: Int) -> Timing? {
    guard let sampleRateHertz else { return nil }
    return Timing(
      last: last, sampleCount: count, spanNanoseconds: 1_000_000_000, spanCount: sampleRateHertz,
      missingSampleCount: missing)
  }
}
