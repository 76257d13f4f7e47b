public import BLEWire

/// Results of a ten-second window of a plethysmogram.
public struct PulseWindow: Hashable, Sendable {
  /// Start time, on the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// Number of detected beats, good or not.
  public var beats: Int
  /// Pulse in beats per minute: 60 divided by the mean of the good intervals in seconds; `nil` if the window
  /// is rejected.
  public var beatsPerMinute: Double?
  /// Mean correlation of the beats with the average beat: −1 … 1.
  public var correlation: Double?
  public var skewness: Double
  /// Autocorrelation of the light at a lag of one beat: −1 … 1; `nil` if the light is constant.
  public var periodicity: Double?
  /// Root mean square of the acceleration, in g. `nil` without an accelerometer.
  public var motion: Double?
  public var rejection: PulseRejection?
  /// Root mean square of the filtered light, in counts.
  var amplitude = 0.0
}

/// Beat, and the interval from the previous beat.
@frozen public struct PulseBeat: Hashable, Sendable, BitwiseCopyable {
  /// Time of the systolic peak of the filtered signal, on the sensor's clock. `BandPass` documents the
  /// filter's delay.
  public var time: ReceiveTime
  /// Seconds since the previous beat; `nil` for the first beat after an interruption.
  public let interval: Double?
  /// Whether the interval is good: the windows of both beats are good, and the interval is within 30 % of its
  /// window's median.
  public let isAccepted: Bool
  /// Mean of the unfiltered light since the previous beat, in counts; `nil` if unknown.
  public var level: Double?
}

/// Measures pulse and beat-to-beat intervals in a plethysmogram, window by window. Memory is allocated only
/// in the initializer.
///
/// Each sample is band-pass filtered (`BandPass`), beats are detected (`PulseDetector`), and each window is
/// judged (`SignalQuality`). The rate of a window is 60 divided by the mean of its good intervals. Gaps of up
/// to a tenth of a second are filled by linear interpolation; the filled samples are counted as missing.
/// After a longer gap, the meter restarts. The results are optical estimates, not medical advice.
public struct PulseMeter: Sendable {
  /// Reason why a sample rate is not supported.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    case tooSlow(rate: Double)
    case tooFast(rate: Double)

    public var description: String {
      switch self {
      case .tooSlow(let rate):
        "\((rate * 10).rounded() / 10) samples a second are too few for a pulse: the method needs "
          + "\(Int(PulseDetector.minimumRate))"
      case .tooFast(let rate):
        "wrong times: no sensor sends \(rate.rounded()) samples a second"
      }
    }
  }

  /// Maximum relative deviation of an interval from its window's median.
  public static let intervalTolerance = 0.3
  /// Minimum distance between two beats of a slow pulse, as a fraction of the light's period. If two beats
  /// are closer, the lower one is the second wave of a beat.
  static let secondWaveShare = 0.65
  /// Maximum length of a gap that is filled by interpolation, in seconds.
  public static let bridgeSeconds = 0.1
  /// Maximum number of beats in a window: one every 220 ms, plus those after its end.
  private static let maximumBeats = 64

  private let rate: Double
  private let windowSamples: Int
  private var filter: BandPass
  private var axes: InlineArray<3, BandPass>
  private var detector: PulseDetector
  private var quality: SignalQuality
  private var periodicity: Periodicity
  /// Filtered samples; sample n is at n modulo the length.
  private var signal: [Double]
  /// Squared magnitudes of the filtered acceleration, in g²; negative if unknown.
  private var squares: [Double]
  /// Times of the samples, in nanoseconds.
  private var times: [Int64]
  /// Cumulative sums of the light, in counts, each light value minus the first sample's.
  private var sums: [Double]
  private var first = 0.0
  private var taken = 0
  private var windowStart = 0
  private var lastIndex: Int?
  private var lastValue = 0.0
  private var bridged = 0
  /// Beats that are not part of a returned window yet.
  private var pending: [DetectedBeat]
  private var pendingCount = 0
  private var found: [PulseBeat]
  private var lastBeat: (position: Double, time: Int64, isGood: Bool)?
  private var intervals: BeatIntervals
  /// Number of beats of the last window.
  public private(set) var beatCount = 0

  /// Creates a meter for one sample rate.
  ///
  /// - Parameter rate: approximate sample rate, in samples per second.
  /// - Throws: `tooSlow` below `PulseDetector.minimumRate`, `tooFast` if only invalid
  ///   timestamps can explain the rate.
  public init(rate: Double) throws(Refusal) {
    guard rate >= PulseDetector.minimumRate else { throw .tooSlow(rate: rate) }
    guard !SampleRate.isTooHigh(rate) else { throw .tooFast(rate: rate) }
    self.rate = rate
    windowSamples = Int((SignalQuality.windowSeconds * rate).rounded())
    filter = BandPass(PulseDetector.band, rate: rate)
    axes = .init(repeating: filter)
    detector = PulseDetector(rate: rate)
    quality = SignalQuality(rate: rate)
    periodicity = Periodicity(rate: rate, seconds: SignalQuality.windowSeconds)
    signal = [Double](repeating: 0, count: Int(13 * rate))
    squares = signal
    times = [Int64](repeating: 0, count: signal.count)
    sums = signal
    pending = [DetectedBeat](repeating: DetectedBeat(position: 0, height: 0), count: Self.maximumBeats)
    found = [PulseBeat](
      repeating: PulseBeat(time: ReceiveTime(nanoseconds: 0), interval: nil, isAccepted: false),
      count: Self.maximumBeats)
    intervals = BeatIntervals(capacity: Self.maximumBeats)
  }

  /// Returns beat `index` of the window that `take` or `finish` returned last.
  ///
  /// - Parameter index: below `beatCount`.
  public func beat(_ index: Int) -> PulseBeat { found[index] }

  /// Processes the next sample; a sample without light counts as missing.
  ///
  /// - Returns: a window, if one is now complete.
  public mutating func take(_ sample: SignalSample) -> PulseWindow? {
    guard let value = sample.light else { return nil }
    let time = sample.time.nanoseconds
    defer { (lastIndex, lastValue) = (sample.index, value) }
    var window: PulseWindow?
    if let lastIndex {
      let step = sample.index &- lastIndex
      if sample.isRestart || step < 1 || Double(step - 1) > Self.bridgeSeconds * rate {
        window = finish()
        restart()
      } else if step > 1 {
        window = bridge(step, to: value, time)
      }
    }
    let square = sample.acceleration.map { squaredLength($0) } ?? -1
    return add(value, time, square: square) ?? window
  }

  /// Returns the last window, at the end of the stream or before a gap. It may be incomplete. Returns `nil`
  /// if no sample belongs to it.
  public mutating func finish() -> PulseWindow? {
    guard taken > windowStart else { return nil }
    // Flush the detector: no more samples follow.
    for _ in 0..<Int(rate) {
      if let beat = detector.take(0) { note(beat) }
    }
    let end = windowStart + windowSamples
    return taken >= end ? close(windowStart..<end, nil) : close(windowStart..<taken, .interrupted)
  }

  private mutating func restart() {
    filter.reset()
    for axis in axes.indices { axes[axis].reset() }
    detector = PulseDetector(rate: rate)
    (taken, windowStart, bridged, pendingCount) = (0, 0, 0, 0)
    lastBeat = nil
  }

  private mutating func bridge(_ step: Int, to value: Double, _ time: Int64) -> PulseWindow? {
    var window: PulseWindow?
    let before = times[(taken - 1) % times.count]
    for number in 1..<step {
      let share = Double(number) / Double(step)
      bridged += 1
      let between = before &+ Int64(Double(time &- before) * share)
      if let closed = add(lastValue + (value - lastValue) * share, between, square: -1) { window = closed }
    }
    return window
  }

  /// Returns the squared magnitude of the acceleration after a band-pass of 0.5 to 8 Hz, in g².
  private mutating func squaredLength(_ a: Acceleration) -> Double {
    let (x, y, z) = (axes[0].filter(a.x), axes[1].filter(a.y), axes[2].filter(a.z))
    return x * x + y * y + z * z
  }

  private mutating func add(_ value: Double, _ time: Int64, square: Double) -> PulseWindow? {
    let filtered = filter.filter(value)
    let slot = taken % signal.count
    (signal[slot], squares[slot], times[slot]) = (filtered, square, time)
    if taken == 0 { first = value }
    sums[slot] = value - first + (taken > 0 ? sums[(taken - 1) % sums.count] : 0)
    taken += 1
    if let beat = detector.take(filtered) { note(beat) }
    let end = windowStart + windowSamples
    return detector.decided >= end ? close(windowStart..<end, nil) : nil
  }

  private mutating func note(_ beat: DetectedBeat) {
    guard pendingCount < Self.maximumBeats else { return }
    pending[pendingCount] = beat
    pendingCount += 1
  }

  // MARK: Windows

  private mutating func close(_ window: Range<Int>, _ reason: PulseRejection?) -> PulseWindow {
    var inside = 0
    while inside < pendingCount, pending[inside].position < Double(window.upperBound) { inside += 1 }
    let motion = motion(in: window)
    let found = repetition(in: window)
    if let found, found.period > Periodicity.slowPeriod, !found.isDoubtful {
      inside = dropSecondWaves(inside, period: found.period)
    }
    let median = medianInterval(inside)
    let correlation = correlation(inside, median: median)
    let isThin = Double(bridged) > SignalQuality.largestMissingShare * Double(window.count)
    let isMoving = (motion ?? 0) > SignalQuality.largestMotion
    let isAlike = (correlation ?? 0) >= SignalQuality.leastCorrelation
    let rejection =
      reason ?? (isThin ? .missingSamples : nil) ?? (isMoving ? .motion : nil)
      ?? SignalQuality.rejection(beats: pending.span.extracting(..<inside), window: window, rate: rate, found)
      ?? (isAlike ? nil : .shape)
    let mean = give(inside, median: median ?? 0, isGood: rejection == nil)
    var result = PulseWindow(
      start: ReceiveTime(nanoseconds: times[window.lowerBound % times.count]),
      end: ReceiveTime(nanoseconds: times[(window.upperBound - 1) % times.count]), beats: inside,
      beatsPerMinute: rejection == nil ? mean.map { 60 / $0 } : nil, correlation: correlation,
      skewness: SignalQuality.skewness(signal: signal.span, window: window),
      periodicity: found?.strength, motion: motion, rejection: rejection)
    result.amplitude = amplitude(in: window)
    for index in inside..<pendingCount { pending[index - inside] = pending[index] }
    pendingCount -= inside
    windowStart = window.upperBound
    bridged = 0
    return result
  }

  private mutating func repetition(in window: Range<Int>) -> Periodicity.Found? {
    // Copy the array, because a span of the property would keep exclusive access to `self`.
    let samples = signal
    return periodicity.find(samples.span, window)
  }

  /// Removes second waves of slow pulses from the first `count` beats. If two beats are closer than
  /// `secondWaveShare` of the light's period, the lower beat is removed.
  ///
  /// - Returns: the number of remaining beats.
  private mutating func dropSecondWaves(_ count: Int, period: Double) -> Int {
    let reach = Self.secondWaveShare * period * rate
    var (kept, index) = (0, 0)
    while index < pendingCount {
      let beat = pending[index]
      let isBehind = kept > 0 && beat.position - pending[kept - 1].position < reach
      if index >= count || !isBehind {
        pending[kept] = beat
        kept += 1
      } else if beat.height > pending[kept - 1].height {
        pending[kept - 1] = beat
      }
      index += 1
    }
    let dropped = pendingCount - kept
    pendingCount = kept
    return count - dropped
  }

  /// Returns the root mean square of the filtered light, in counts.
  private func amplitude(in window: Range<Int>) -> Double {
    var sum = 0.0
    for index in window { sum += signal[index % signal.count] * signal[index % signal.count] }
    return (sum / Double(max(1, window.count))).squareRoot()
  }

  /// Returns the root mean square of the filtered acceleration, in g.
  private func motion(in window: Range<Int>) -> Double? {
    var sum = 0.0
    var count = 0
    for index in window where squares[index % squares.count] >= 0 {
      sum += squares[index % squares.count]
      count += 1
    }
    return count > 0 ? (sum / Double(count)).squareRoot() : nil
  }

  /// Returns the mean correlation of the first `count` beats with the average beat.
  private mutating func correlation(_ count: Int, median: Double?) -> Double? {
    guard let median else { return nil }
    // Copy the arrays, because a span of a property would keep exclusive access to `self`.
    let (beats, samples) = (pending, signal)
    return quality.correlation(
      beats: beats.span.extracting(..<count), signal: samples.span,
      available: max(0, taken - samples.count)..<taken, width: Int((median * rate).rounded()))
  }

  /// Returns the median interval of the first `count` beats, in seconds.
  private mutating func medianInterval(_ count: Int) -> Double? {
    // Copy the array, because a span of the property would keep exclusive access to `self`.
    let beats = pending
    return intervals.median(beats.span.extracting(..<count), rate: rate)
  }

  /// Returns the mean of the light between two positions, in counts.
  private func level(from: Double, to: Double) -> Double? {
    let (start, end) = (Int(from), Int(to))
    guard end > start, start >= 0, start > taken - sums.count, end < taken else { return nil }
    return first + (sums[end % sums.count] - sums[start % sums.count]) / Double(end - start)
  }

  /// Prepares the beats of a window for `beat`.
  ///
  /// - Returns: the mean of the good intervals in seconds; `nil` without good intervals.
  private mutating func give(_ count: Int, median: Double, isGood: Bool) -> Double? {
    var sum = 0.0
    var good = 0
    for index in 0..<count {
      let position = pending[index].position
      let time = times.time(at: position, taken: taken)
      let interval = lastBeat.map { Double(time &- $0.time) / 1e9 }
      let isNear = interval.map { abs($0 - median) <= Self.intervalTolerance * median } ?? false
      let isAccepted = isGood && isNear && lastBeat?.isGood == true
      found[index] = PulseBeat(
        time: ReceiveTime(nanoseconds: time), interval: interval, isAccepted: isAccepted,
        level: lastBeat.flatMap { level(from: $0.position, to: position) })
      if let interval, isNear, index > 0 {
        sum += interval
        good += 1
      }
      lastBeat = (position, time, isGood)
    }
    beatCount = count
    return good > 0 ? sum / Double(good) : nil
  }
}
