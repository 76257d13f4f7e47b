public import BLEWire

/// Measures heart rate and beat-to-beat intervals in an electrocardiogram, window by window. Memory is
/// allocated only in the initializer.
///
/// Beats are detected by `ECGDetector`. The rate of a ten-second window is computed from all its beats
/// (`BeatRate`), good or not. There is no rate if less than four fifths of the intervals are good. The
/// quality rules are those of Orphanidou et al. 2015 (see `SignalQuality`). They use the correlation of each
/// beat with the average beat, for the duration of the median interval. The correlation must be at least 0.66
/// for an electrocardiogram, and no pause may exceed 3 s.
///
/// Three of the rules are relaxed or omitted. They are designed for patients at rest, but an
/// electrocardiogram must show ectopic beats and arrhythmia. Rates of 24 … 250 beats per minute are
/// permitted. The lengths of the intervals may vary. The median correlation is used instead of the mean, so
/// that a few ectopic beats do not cause a rejection. In addition, the R peaks must be high compared with the
/// signal, unlike mains hum (`leastCrest`).
///
/// Gaps of up to a second are filled by linear interpolation; the filled samples are counted as missing. No
/// beat is detected in a gap, and no interval spans it. After a longer gap, the meter restarts.
///
/// A window and its beats are returned when no further beat of the window can follow, at most
/// `ECGDetector.lagSeconds` after its end. The results are not medical advice.
public struct ECGMeter: Sendable {
  /// Reason why a sample rate is not supported.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    case tooSlow(rate: Double)
    case tooFast(rate: Double)

    public var description: String {
      switch self {
      case .tooSlow(let rate):
        "\((rate * 10).rounded() / 10) samples a second are too few for an electrocardiogram: the method needs "
          + "\(Int(ECGDetector.neededRate))"
      case .tooFast(let rate):
        "wrong times: no sensor sends \(rate.rounded()) samples a second"
      }
    }
  }

  public static let windowSeconds = 10.0
  public static let leastCorrelation = 0.66
  public static let beatsPerMinute = 24.0...250.0
  /// Minimum share of good intervals between a window's beats. One ectopic beat in ten makes two intervals
  /// bad. If more intervals are bad, other beats may be missed or false.
  public static let leastAcceptedShare = 0.8
  /// Minimum ratio of the R peaks' median height to the root mean square of the signal, 0.67 … 40 Hz. The
  /// ratio is 1.41 for a sine of any frequency, and higher for a signal with R peaks.
  public static let leastCrest = 1.5
  public static let longestPauseSeconds = 3.0
  public static let largestMissingShare = 0.2
  /// Maximum length of a gap that is filled by interpolation, in seconds.
  public static let bridgeSeconds = 1.0
  /// Time in seconds after which a constant signal counts as lost contact.
  public static let stillSeconds = 1.0
  /// Duration of a QRS complex on each side of its R peak, in seconds. A beat is ignored if a sample within
  /// this time is missing.
  public static let wholeSeconds = 0.05
  /// Maximum gap within an interval, in seconds. A gap of this length cannot hide a beat.
  private static let hiddenSeconds = 0.04
  /// Band in which the shapes of beats are compared, in hertz. It excludes baseline wander and muscle noise.
  private static let shapeBand = 0.67...40.0
  /// Maximum number of beats in a window: one every 250 ms, plus those after its end.
  private static let maximumBeats = 64

  private let rate: Double
  private let windowSamples: Int
  private var filter: BandPass
  private var detector: ECGDetector
  private var quality: SignalQuality
  /// Band-pass filtered signal, for comparing the shapes of beats. Sample n is at n modulo the length.
  private var signal: [Double]
  /// Times of the samples, in nanoseconds.
  private var times: [Int64]
  /// Number of missing samples up to each sample.
  private var missing: [Int]
  private var taken = 0
  private var windowStart = 0
  private var last: ECGSample?
  /// Number of consecutive samples equal to their predecessor, up to now.
  private var stillCount = 0
  /// Maximum of `stillCount` in this window.
  private var longestStill = 0
  /// Beats that are not part of a returned window yet.
  private var pending: [DetectedBeat]
  private var pendingCount = 0
  private var found: [ECGBeat]
  /// Correlations of a window's beats, ascending.
  private var correlations: [Double]
  /// Heights of a window's beats, ascending.
  private var heights: [Double]
  /// Intervals between a window's beats, in order.
  private var known: [BeatRate.Interval]
  private var lastBeat: (time: Int64, missing: Int, isGood: Bool)?
  private var intervals: BeatIntervals
  /// Number of beats of the last window.
  public private(set) var beatCount = 0

  /// Creates a meter for one sample rate.
  ///
  /// - Parameter rate: approximate sample rate, in samples per second.
  /// - Throws: `tooSlow` below `ECGDetector.minimumRate`, `tooFast` if only invalid
  ///   timestamps can explain the rate.
  public init(rate: Double) throws(Refusal) {
    guard rate >= ECGDetector.minimumRate else { throw .tooSlow(rate: rate) }
    guard !SampleRate.isTooHigh(rate) else { throw .tooFast(rate: rate) }
    self.rate = rate
    windowSamples = Int((Self.windowSeconds * rate).rounded())
    filter = BandPass(Self.shapeBand, rate: rate)
    detector = ECGDetector(rate: rate)
    quality = SignalQuality(rate: rate)
    signal = [Double](repeating: 0, count: Int(14 * rate))
    times = [Int64](repeating: 0, count: signal.count)
    missing = [Int](repeating: 0, count: signal.count)
    pending = [DetectedBeat](repeating: DetectedBeat(position: 0, height: 0), count: Self.maximumBeats)
    let none = ECGBeat(
      time: ReceiveTime(nanoseconds: 0), interval: nil, height: 0, correlation: nil, isAccepted: false)
    found = [ECGBeat](repeating: none, count: Self.maximumBeats)
    correlations = [Double](repeating: 0, count: Self.maximumBeats)
    heights = correlations
    known = [BeatRate.Interval](
      repeating: BeatRate.Interval(seconds: 0, isLike: true), count: Self.maximumBeats)
    intervals = BeatIntervals(capacity: Self.maximumBeats)
  }

  /// Returns beat `index` of the window that `take` or `finish` returned last.
  ///
  /// - Parameter index: below `beatCount`.
  public func beat(_ index: Int) -> ECGBeat { found[index] }

  /// Processes the next sample.
  ///
  /// - Returns: a window, if one is now complete.
  public mutating func take(_ sample: ECGSample) -> ECGWindow? {
    var window: ECGWindow?
    if let last {
      let step = sample.index &- last.index
      if sample.isRestart || step < 1 || Double(step - 1) > Self.bridgeSeconds * rate {
        window = finish()
        restart()
      } else if step > 1 {
        window = bridge(step, from: last, to: sample)
      }
    }
    stillCount = sample.microvolts == last?.microvolts ? stillCount + 1 : 0
    longestStill = max(longestStill, stillCount)
    last = sample
    return add(sample.microvolts, sample.time.nanoseconds, missing: 0) ?? window
  }

  /// Returns the last window, at the end of the stream or before a gap. It may be incomplete. Returns `nil`
  /// if no sample belongs to it.
  public mutating func finish() -> ECGWindow? {
    guard taken > windowStart, let last else { return nil }
    // Flush the detector: no more samples follow.
    for _ in 0..<Int(ECGDetector.lagSeconds * rate) {
      if let beat = detector.take(last.microvolts) { note(beat) }
    }
    let end = windowStart + windowSamples
    return taken >= end ? close(windowStart..<end, nil) : close(windowStart..<taken, .interrupted)
  }

  private mutating func restart() {
    filter.reset()
    detector.reset()
    (taken, windowStart, pendingCount, stillCount, longestStill) = (0, 0, 0, 0, 0)
    last = nil
    lastBeat = nil
  }

  private mutating func bridge(_ step: Int, from last: ECGSample, to sample: ECGSample) -> ECGWindow? {
    var window: ECGWindow?
    let (start, end) = (last.time.nanoseconds, sample.time.nanoseconds)
    for number in 1..<step {
      let share = Double(number) / Double(step)
      let value = last.microvolts + (sample.microvolts - last.microvolts) * share
      if let closed = add(value, start &+ Int64(Double(end &- start) * share), missing: 1) { window = closed }
    }
    return window
  }

  private mutating func add(_ value: Double, _ time: Int64, missing count: Int) -> ECGWindow? {
    let slot = taken % signal.count
    let before = taken > 0 ? missing[(taken - 1) % signal.count] : 0
    (signal[slot], times[slot], missing[slot]) = (filter.filter(value), time, before + count)
    taken += 1
    if let beat = detector.take(value) { note(beat) }
    let end = windowStart + windowSamples
    return detector.decided >= end ? close(windowStart..<end, nil) : nil
  }

  private mutating func note(_ beat: DetectedBeat) {
    let place = Int(beat.position.rounded())
    let near = Int(Self.wholeSeconds * rate)
    let isWhole =
      place < taken && missing(upTo: min(taken - 1, place + near)) == missing(upTo: max(0, place - near))
    guard isWhole, pendingCount < Self.maximumBeats else { return }
    pending[pendingCount] = beat
    pendingCount += 1
  }

  private func missing(upTo index: Int) -> Int { missing[index % missing.count] }

  // MARK: Windows

  private mutating func close(_ window: Range<Int>, _ reason: ECGRejection?) -> ECGWindow {
    var inside = 0
    while inside < pendingCount, pending[inside].position < Double(window.upperBound) { inside += 1 }
    let available = max(0, taken - signal.count)..<taken
    let width = Int((medianInterval(inside) ?? 0) * rate)
    let whole = average(inside, available, width: width)
    let absent =
      missing(upTo: window.upperBound - 1) - missing(upTo: max(window.lowerBound, available.lowerBound))
    let share = Double(absent) / Double(window.count)
    let given = give(inside, available, width: whole >= 2 ? width : 0)
    let crest = crest(inside, max(window.lowerBound, available.lowerBound)..<window.upperBound)
    let rejection =
      reason ?? self.rejection(inside, window, missingShare: share, given, crest: crest)
    if rejection != nil {
      for index in 0..<inside { found[index] = found[index].rejected }
      lastBeat?.isGood = false
    }
    let result = ECGWindow(
      start: ReceiveTime(nanoseconds: times[window.lowerBound % times.count]),
      end: ReceiveTime(nanoseconds: times[(window.upperBound - 1) % times.count]), beats: inside,
      beatsPerMinute: rejection == nil ? given.perMinute : nil, correlation: given.correlation,
      missingShare: share, acceptedShare: given.acceptedShare, crest: crest, rejection: rejection)
    for index in inside..<pendingCount { pending[index - inside] = pending[index] }
    pendingCount -= inside
    (windowStart, longestStill) = (window.upperBound, stillCount)
    return result
  }

  /// Averages the first `count` beats into the template.
  ///
  /// - Returns: the number of complete beats.
  private mutating func average(_ count: Int, _ available: Range<Int>, width: Int) -> Int {
    // Copy the arrays, because a span of a property would keep exclusive access to `self`.
    let (beats, samples) = (pending, signal)
    return quality.average(
      beats: beats.span.extracting(..<count), signal: samples.span, available: available, width: width)
  }

  private func rejection(
    _ count: Int, _ window: Range<Int>, missingShare: Double, _ given: Given, crest: Double?
  ) -> ECGRejection? {
    guard missingShare <= Self.largestMissingShare else { return .missingSamples }
    guard Double(longestStill) < Self.stillSeconds * rate else { return .contact }
    guard count >= 3 else { return .tooFewBeats }
    let (first, last) = (pending[0].position, pending[count - 1].position)
    guard (crest ?? 0) >= Self.leastCrest else { return .noise }
    guard let perMinute = given.perMinute, Self.beatsPerMinute.contains(perMinute) else {
      return .rateOutOfRange
    }
    var pause = max(first - Double(window.lowerBound), Double(window.upperBound) - last)
    for index in 1..<count { pause = max(pause, pending[index].position - pending[index - 1].position) }
    guard pause <= Self.longestPauseSeconds * rate else { return .pause }
    guard (given.correlation ?? 0) >= Self.leastCorrelation else { return .shape }
    return (given.acceptedShare ?? 0) >= Self.leastAcceptedShare ? nil : .fewAccepted
  }

  /// Returns the median height of the first `count` beats, divided by the root mean square of the signal;
  /// `nil` without a beat or signal.
  private mutating func crest(_ count: Int, _ window: Range<Int>) -> Double? {
    guard count > 0, !window.isEmpty else { return nil }
    for index in 0..<count {
      let height = abs(pending[index].height)
      var place = index
      while place > 0, heights[place - 1] > height {
        heights[place] = heights[place - 1]
        place -= 1
      }
      heights[place] = height
    }
    var sum = 0.0
    for index in window { sum += signal[index % signal.count] * signal[index % signal.count] }
    return sum > 0 ? heights[count / 2] / (sum / Double(window.count)).squareRoot() : nil
  }

  /// Returns the median interval of the first `count` beats, in seconds.
  private mutating func medianInterval(_ count: Int) -> Double? {
    // Copy the array, because a span of the property would keep exclusive access to `self`.
    let beats = pending
    return intervals.median(beats.span.extracting(..<count), rate: rate)
  }

  /// Results from a window's beats: the rate from all beats, the median of their correlations, and the share
  /// of good intervals.
  private typealias Given = (perMinute: Double?, correlation: Double?, acceptedShare: Double?)

  /// Prepares the beats of a window for `beat`, as if the window were good.
  private mutating func give(_ count: Int, _ available: Range<Int>, width: Int) -> Given {
    var (inside, good) = (0, 0)
    var whole = 0
    for index in 0..<count {
      let beat = pending[index]
      let correlation =
        width > 0
        ? quality.correlation(of: beat, signal: signal.span, available: available, width: width) : nil
      if let correlation {
        var place = whole
        while place > 0, correlations[place - 1] > correlation {
          correlations[place] = correlations[place - 1]
          place -= 1
        }
        (correlations[place], whole) = (correlation, whole + 1)
      }
      let (time, absent) = (times.time(at: beat.position, taken: taken), missing(upTo: Int(beat.position)))
      let isGood = (correlation ?? 1) >= Self.leastCorrelation
      var interval: Double?
      if let lastBeat, Double(absent - lastBeat.missing) <= Self.hiddenSeconds * rate {
        interval = Double(time &- lastBeat.time) / 1e9
      }
      let isAccepted = interval != nil && isGood && lastBeat?.isGood == true
      found[index] = ECGBeat(
        time: ReceiveTime(nanoseconds: time), interval: interval, height: beat.height,
        correlation: correlation,
        isAccepted: isAccepted)
      if let interval, index > 0 {
        known[inside] = BeatRate.Interval(seconds: interval, isLike: isGood)
        inside += 1
        if isAccepted { good += 1 }
      }
      lastBeat = (time, absent, isGood)
    }
    beatCount = count
    let perMinute = medianInterval(count).flatMap {
      BeatRate.perMinute(known.span.extracting(..<inside), median: $0)
    }
    return (
      perMinute, whole > 0 ? correlations[whole / 2] : nil, inside > 0 ? Double(good) / Double(inside) : nil
    )
  }
}

extension ECGBeat {
  fileprivate var rejected: ECGBeat {
    ECGBeat(time: time, interval: interval, height: height, correlation: correlation, isAccepted: false)
  }
}

/// Sample of an electrocardiogram, with its index and time on the sensor's own clock.
@frozen public struct ECGSample: Hashable, Sendable, BitwiseCopyable {
  /// Index of the sample since the first sample. Missing samples are counted too.
  public let index: Int
  /// Time of the sample on the sensor's clock, in nanoseconds since the Unix epoch.
  public let time: ReceiveTime
  /// Whether the time since the previous sample is unknown.
  public let isRestart: Bool
  public let microvolts: Double

  @inlinable public init(index: Int, time: ReceiveTime, isRestart: Bool = false, microvolts: Double) {
    self.index = index
    self.time = time
    self.isRestart = isRestart
    self.microvolts = microvolts
  }
}

/// Heart beat in an electrocardiogram, and the interval from the previous beat.
@frozen public struct ECGBeat: Hashable, Sendable, BitwiseCopyable {
  /// Time of the R peak, on the sensor's clock, without filter delay.
  public var time: ReceiveTime
  /// Seconds since the previous R peak; `nil` for the first beat after an interruption or after missing
  /// samples.
  public let interval: Double?
  /// Height of the R peak over the baseline, in microvolts; negative if the lead is inverted.
  public let height: Double
  /// Correlation with the average beat of its window, −1 … 1; `nil` if the buffer does not contain the whole
  /// beat. The correlation is low for ectopic beats and noise.
  public let correlation: Double?
  /// Whether the interval is good: the shapes of both beats resemble the average beats of their windows, and
  /// neither window is rejected.
  public let isAccepted: Bool
}

/// Results of a ten-second window of an electrocardiogram.
public struct ECGWindow: Hashable, Sendable {
  /// Start time, on the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// Number of detected beats, good or not.
  public var beats: Int
  /// Rate computed from all beats, in beats per minute (`BeatRate`); `nil` if the window is rejected.
  public var beatsPerMinute: Double?
  /// Median correlation of the beats with the average beat, −1 … 1. It is the window's quality.
  public var correlation: Double?
  /// Share of missing samples: 0 … 1.
  public var missingShare: Double
  /// Share of good intervals between the beats, 0 … 1; `nil` if there is no interval.
  public var acceptedShare: Double?
  /// Ratio of the R peaks' median height to the root mean square of the signal; `nil` if there is no beat. It
  /// is at most 1.41 for a sine.
  public var crest: Double?
  public var rejection: ECGRejection?
}

/// Reason why a window of an electrocardiogram has no heart rate.
public enum ECGRejection: String, Hashable, Sendable, CaseIterable {
  /// The stream was interrupted or ended within the window.
  case interrupted
  /// More than a fifth of the samples is missing.
  case missingSamples
  /// The signal is constant for a second or more: no electrode has contact, or the amplifier is saturated.
  case contact
  case tooFewBeats
  /// The detected beats are hardly higher than the rest of the signal: mains hum or noise.
  case noise
  /// The rate is outside 24 … 250 beats per minute.
  case rateOutOfRange
  /// More than 3 s without a beat.
  case pause
  /// The shapes of the beats differ: noise, or not a heart.
  case shape
  /// Less than four fifths of the intervals are good (`ECGBeat.isAccepted`).
  case fewAccepted

  /// Short description of the reason.
  public var words: String {
    switch self {
    case .interrupted: "the signal ended or was interrupted"
    case .missingSamples: "samples missing"
    case .contact: "no contact"
    case .tooFewBeats: "too few beats"
    case .noise: "no clear beats in the signal"
    case .rateOutOfRange: "an impossible heart rate"
    case .pause: "more than 3 s without a beat"
    case .shape: "the beats do not look alike"
    case .fewAccepted: "too many beats unlike the others"
    }
  }
}

/// Computes the rate of a window by counting its beats, and tolerates one missed or extra beat.
///
/// If the rhythm is regular except for one deviation, the deviation has two explanations. An interval of
/// double length is a missed beat or a pause of the heart. Two intervals that together last as long as one or
/// three usual intervals contain one beat too many or too few. Above `fastPerMinute`, the detection is
/// assumed to be wrong and the number of usual intervals is counted, because at that rate a heart rarely
/// resumes its rhythm in phase after a pause. At lower rates, the two explanations cannot be distinguished,
/// and the rate is the mean of both counts.
///
/// In an irregular rhythm, the detected beats are counted. A beat with a different shape that splits an
/// interval of usual length is either noise or an ectopic beat between two others, and counts as half a beat.
enum BeatRate {
  /// Maximum deviation of an interval from a multiple of the median interval, as a fraction of the median.
  static let tolerance = 0.2
  /// Maximum deviation of an interval that is split by a beat with a different shape, as a fraction of the
  /// median. It is larger because the rhythm may be irregular.
  private static let splitTolerance = 0.3
  private static let fastPerMinute = 100.0
  /// Number of intervals per correction: one correction is permitted in every eight intervals.
  private static let intervalsForEach = 8

  /// Length in seconds of an interval between two beats, and whether the shape of the beat at its end is
  /// similar to the average beat.
  struct Interval: Sendable, BitwiseCopyable {
    var seconds: Double
    var isLike: Bool
  }

  /// Computes the rate of a window.
  ///
  /// - Parameters:
  ///   - intervals: intervals of a window, in order.
  ///   - median: median of these intervals, in seconds.
  /// - Returns: beats per minute; `nil` without an interval.
  fileprivate static func perMinute(_ intervals: Span<Interval>, median: Double) -> Double? {
    var sum = 0.0
    for index in intervals.indices { sum += intervals[index].seconds }
    guard sum > 0 else { return nil }
    let isFast = 60 / median >= fastPerMinute
    var count = Double(intervals.count)
    if let change = change(intervals, median: median) {
      count += isFast ? Double(change) : Double(change) / 2
    } else {
      count -= Double(splits(intervals, median: median)) / 2
    }
    return 60 * count / sum
  }

  /// Returns the number of beats to add, so that each deviating interval lasts a whole number of usual
  /// intervals; `nil` if the rhythm is irregular.
  private static func change(_ intervals: Span<Interval>, median: Double) -> Int? {
    var (change, runs, index) = (0, 0, 0)
    while index < intervals.count {
      let first = index
      var run = 0.0
      while index < intervals.count, !isNear(intervals[index].seconds, median, tolerance) {
        run += intervals[index].seconds
        index += 1
      }
      guard index > first else {
        index += 1
        continue
      }
      let beats = (run / median).rounded()
      guard abs(run - beats * median) <= tolerance * median, abs(Int(beats) - (index - first)) <= 1 else {
        return nil
      }
      (change, runs) = (change + Int(beats) - (index - first), runs + 1)
    }
    return runs <= max(1, intervals.count / intervalsForEach) ? change : nil
  }

  /// Returns the number of beats with a different shape that split an interval of usual length.
  private static func splits(_ intervals: Span<Interval>, median: Double) -> Int {
    var splits = 0
    for index in 0..<max(0, intervals.count - 1) where !intervals[index].isLike {
      if isNear(intervals[index].seconds + intervals[index + 1].seconds, median, splitTolerance) {
        splits += 1
      }
    }
    return splits
  }

  private static func isNear(_ interval: Double, _ median: Double, _ tolerance: Double) -> Bool {
    abs(interval - median) <= tolerance * median
  }
}
