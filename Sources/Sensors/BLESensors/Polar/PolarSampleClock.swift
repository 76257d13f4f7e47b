/// Times of the samples of one stream, by the sensor's clock.
///
/// A frame has one timestamp, of its last sample. The samples lie evenly between it and that of the frame before; in
/// the first frame, and after a gap, they lie at the nominal rate before it. Times are integers: a timestamp has more
/// digits than a `Double`.
///
/// Frames have no counter. Samples are missing before a frame if the time since the frame before has room for more than it
/// brings, by the period from sample to sample. That is the nominal one until two frames show the true one: some sensors
/// are off by 4 %, and one firmware reports 135 Hz while it measures 55 (reference `sensor-services.md`, 5.3).
public struct PolarSampleClock: Hashable, Sendable, BitwiseCopyable {
  /// Where the samples of one frame lie.
  public struct Timing: Hashable, Sendable, BitwiseCopyable {
    /// Of the last sample.
    let last: UInt64
    let sampleCount: UInt64
    /// `spanNanoseconds` / `spanCount` is the time from sample to sample.
    let spanNanoseconds: UInt64
    let spanCount: UInt64
    /// Samples that are missing before the first; those of earlier frames are added when the period becomes known.
    public let missingSampleCount: Int

    /// Of sample `index`, in nanoseconds since 2000.
    public func nanoseconds(_ index: Int) -> UInt64 {
      let before = sampleCount - 1 - UInt64(index)
      // Rounded to the nearest, in two parts so that the product stays small.
      let whole = spanNanoseconds / spanCount * before
      let part = (spanNanoseconds % spanCount * before * 2 + spanCount) / (2 * spanCount)
      return last &- whole &- part
    }

    /// Time that the frame's samples take, in nanoseconds.
    public var durationNanoseconds: UInt64 {
      let (product, overflow) = spanNanoseconds.multipliedReportingOverflow(by: sampleCount)
      return overflow ? spanNanoseconds : product / spanCount
    }
  }

  /// Pairs of frames that show no plausible period yet.
  private struct Doubtful: Hashable, Sendable, BitwiseCopyable {
    var elapsed = 0.0
    var samples = 0.0
    /// Nanoseconds for each sample of the last pair.
    var period = 0.0
  }

  /// Share by which a period may differ from the one that is known.
  private static let tolerance = 0.1
  /// Share by which frames that show a period that nobody announced must agree.
  private static let agreement = 0.05

  private let sampleRateHertz: UInt64?
  private var previous: UInt64?
  /// Nanoseconds from sample to sample, as two frames have shown it.
  private var period: Double?
  /// Mean difference between the samples that a frame has room for and those that it brings; a guess at first.
  private var deviation: Double?
  private var doubtful = Doubtful()

  /// - Parameters:
  ///   - sampleRateHertz: nominal, above 0; `nil` if it is not known: then frames show it.
  ///   - previous: the timestamp of the frame before the first, in nanoseconds since 2000.
  public init(sampleRateHertz: UInt16?, after previous: UInt64? = nil) {
    precondition(sampleRateHertz != 0, "no such rate")
    self.sampleRateHertz = sampleRateHertz.map(UInt64.init)
    self.previous = previous
  }

  /// Nanoseconds from sample to sample, as far as it is known.
  public var periodNanoseconds: Double? { period ?? sampleRateHertz.map { 1e9 / Double($0) } }

  /// Whether frames have shown the period.
  public var isMeasured: Bool { period != nil }

  /// Forgets the last frame: nothing is missing before the next one, whose link or clock is another.
  public mutating func interrupt() { previous = nil }

  /// - Returns: `nil` if nothing tells: a frame without samples or time, or the first one without a rate.
  public mutating func timing(of timestampNanoseconds: UInt64, sampleCount: Int) -> Timing? {
    guard timestampNanoseconds != 0, sampleCount > 0 else { return nil }
    let count = UInt64(sampleCount)
    let before = previous
    previous = timestampNanoseconds
    // A clock that was set back tells nothing.
    guard let before, before < timestampNanoseconds else {
      return alone(timestampNanoseconds, count, missing: 0)
    }
    let elapsed = timestampNanoseconds - before
    let (missing, isApart) = judge(Double(elapsed), Double(sampleCount))
    if isApart, let timing = alone(timestampNanoseconds, count, missing: missing) { return timing }
    return Timing(
      last: timestampNanoseconds, sampleCount: count, spanNanoseconds: elapsed, spanCount: count,
      missingSampleCount: missing)
  }

  /// - Returns: the samples that are missing, and whether the frame does not follow the one before.
  private mutating func judge(_ elapsed: Double, _ samples: Double) -> (missing: Int, isApart: Bool) {
    guard let known = period else { return learn(elapsed, samples) }
    let room = elapsed / known
    let usual = deviation ?? samples * Self.tolerance / 8
    guard room - samples < max(2.5, 8 * usual) else { return (Self.missing(room, samples), true) }
    let difference = abs(room - samples)
    deviation = usual + (difference - usual) / 8
    if difference <= samples * Self.tolerance { period = known + (elapsed / samples - known) / 8 }
    return (0, false)
  }

  /// Takes a pair of frames while the period is not known.
  private mutating func learn(_ elapsed: Double, _ samples: Double) -> (missing: Int, isApart: Bool) {
    let shown = elapsed / samples
    let ratio = sampleRateHertz.map { shown * Double($0) / 1e9 }
    let isNominal = ratio.map { abs($0 - 1) <= Self.tolerance } ?? false
    // Every second frame may be missing: then the nominal rate is right.
    let isMultiple = ratio.map { $0 > 1.5 && abs($0 - $0.rounded()) < Self.agreement } ?? false
    let agrees = abs(shown - doubtful.period) <= shown * Self.agreement && !isMultiple
    if isNominal || agrees {
      period = shown
      let missing = Self.missing(doubtful.elapsed / shown, doubtful.samples)
      doubtful = Doubtful()
      return (missing, false)
    }
    guard isMultiple, let nominal = periodNanoseconds else {
      doubtful.elapsed += elapsed
      doubtful.samples += samples
      doubtful.period = shown
      return (0, ratio.map { $0 > 1.5 } ?? false)
    }
    return (Self.missing(elapsed / nominal, samples), true)
  }

  /// Samples that are missing if the stream ends before its period became known.
  public var doubtfulSampleCount: Int {
    guard let nominal = periodNanoseconds else { return 0 }
    return Self.missing(doubtful.elapsed / nominal, doubtful.samples)
  }

  private static func missing(_ room: Double, _ samples: Double) -> Int {
    let missing = (room - samples).rounded()
    return missing > 0 ? Int(min(missing, Double(Int32.max))) : 0
  }

  /// A frame whose samples are placed by the period alone.
  private func alone(_ last: UInt64, _ count: UInt64, missing: Int) -> Timing? {
    guard let sampleRateHertz else {
      guard let period, period >= 1 else { return nil }
      return Timing(
        last: last, sampleCount: count, spanNanoseconds: UInt64(period.rounded()), spanCount: 1,
        missingSampleCount: missing)
    }
    return Timing(
      last: last, sampleCount: count, spanNanoseconds: 1_000_000_000, spanCount: sampleRateHertz,
      missingSampleCount: missing)
  }
}
