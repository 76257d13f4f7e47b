/// Assigns times on the sensor's clock to the samples of one stream.
///
/// Each frame has one timestamp, the time of its last sample. The samples are evenly spaced between the
/// previous frame's timestamp and this timestamp. In the first frame, and after a gap, they precede the
/// timestamp at the nominal rate. Times are integers, because a timestamp has more digits than a `Double`.
///
/// Frames have no counter. If the time since the previous frame is longer than the frame's samples take,
/// samples are missing before the frame. The period is the nominal period until two frames show the true
/// period. Some sensors are off by 4 %, and one firmware reports 135 Hz but measures at 55 Hz (reference
/// `sensor-services.md`, 5.3).
public struct PolarSampleClock: Hashable, Sendable, BitwiseCopyable {
  /// Times of the samples of one frame.
  public struct Timing: Hashable, Sendable, BitwiseCopyable {
    /// Time of the last sample, in nanoseconds since 2000.
    let last: UInt64
    let sampleCount: UInt64
    /// Duration of `spanCount` sample periods, in nanoseconds.
    let spanNanoseconds: UInt64
    let spanCount: UInt64
    /// Number of samples missing before this frame. When the period becomes known, it includes samples
    /// missing before earlier frames.
    public let missingSampleCount: Int

    /// Returns the time of sample `index`, in nanoseconds since 2000.
    public func nanoseconds(_ index: Int) -> UInt64 {
      let before = sampleCount - 1 - UInt64(index)
      // Round to the nearest nanosecond. The calculation is split into two parts to keep the product small.
      let whole = spanNanoseconds / spanCount * before
      let part = (spanNanoseconds % spanCount * before * 2 + spanCount) / (2 * spanCount)
      return last &- whole &- part
    }

    /// Duration of the frame's samples, in nanoseconds.
    public var durationNanoseconds: UInt64 {
      let (product, overflow) = spanNanoseconds.multipliedReportingOverflow(by: sampleCount)
      return overflow ? spanNanoseconds : product / spanCount
    }
  }

  /// Pairs of frames that do not show a plausible period yet.
  private struct Doubtful: Hashable, Sendable, BitwiseCopyable {
    var elapsed = 0.0
    var samples = 0.0
    /// Sample period of the last pair, in nanoseconds.
    var period = 0.0
  }

  /// Maximum relative difference between a plausible period and the known period.
  private static let tolerance = 0.1
  /// Maximum relative difference between two frames that agree on a period other than the nominal period.
  private static let agreement = 0.05

  private let sampleRateHertz: UInt64?
  private var previous: UInt64?
  /// Sample period in nanoseconds, measured from two frames; `nil` until then.
  private var period: Double?
  /// Mean absolute difference between the number of sample periods since the previous frame and the number of
  /// samples in the frame; estimated at first.
  private var deviation: Double?
  private var doubtful = Doubtful()

  /// Creates the clock of a stream.
  ///
  /// - Parameters:
  ///   - sampleRateHertz: nominal rate in hertz, above 0; `nil` to measure the rate from the frames.
  ///   - previous: timestamp of the frame before the first frame, in nanoseconds since 2000.
  public init(sampleRateHertz: UInt16?, after previous: UInt64? = nil) {
    precondition(sampleRateHertz != 0, "no such rate")
    self.sampleRateHertz = sampleRateHertz.map(UInt64.init)
    self.previous = previous
  }

  /// Sample period in nanoseconds; `nil` if it is unknown.
  public var periodNanoseconds: Double? { period ?? sampleRateHertz.map { 1e9 / Double($0) } }

  /// Whether the period was measured from frames.
  public var isMeasured: Bool { period != nil }

  /// Forgets the previous frame. Call this after a change of the link or the clock, so that no samples count
  /// as missing before the next frame.
  public mutating func interrupt() { previous = nil }

  /// Returns the times of the samples in the next frame.
  ///
  /// - Returns: `nil` if the times are unknown: for a frame without samples or timestamp, or for the first
  ///   frame without a known rate.
  public mutating func timing(of timestampNanoseconds: UInt64, sampleCount: Int) -> Timing? {
    guard timestampNanoseconds != 0, sampleCount > 0 else { return nil }
    let count = UInt64(sampleCount)
    let before = previous
    previous = timestampNanoseconds
    // If the clock was set back, the time between the frames is unknown.
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

  /// Compares the time since the previous frame with the number of samples.
  ///
  /// - Returns: the number of missing samples, and whether there is a gap before the frame.
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

  /// Evaluates a pair of frames while the period is unknown.
  private mutating func learn(_ elapsed: Double, _ samples: Double) -> (missing: Int, isApart: Bool) {
    let shown = elapsed / samples
    let ratio = sampleRateHertz.map { shown * Double($0) / 1e9 }
    let isNominal = ratio.map { abs($0 - 1) <= Self.tolerance } ?? false
    // If every second frame is missing, the nominal rate is still correct.
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

  /// Number of missing samples to add if the stream ends before the period is known.
  public var doubtfulSampleCount: Int {
    guard let nominal = periodNanoseconds else { return 0 }
    return Self.missing(doubtful.elapsed / nominal, doubtful.samples)
  }

  private static func missing(_ room: Double, _ samples: Double) -> Int {
    let missing = (room - samples).rounded()
    return missing > 0 ? Int(min(missing, Double(Int32.max))) : 0
  }

  /// Computes the times of a frame's samples from its timestamp and the period, without the previous frame.
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
