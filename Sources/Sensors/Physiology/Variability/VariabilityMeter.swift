public import BLEWire

/// Measures heart rate variability from intervals of any source, in segments of five minutes. Memory is
/// constant and allocated only in the initializer.
///
/// A segment begins with the first interval after the previous segment. An interval belongs to the segment in
/// which it ends. Intervals that the source does not accept, or that are shorter than 0.2 s or longer than 3
/// s, interrupt the run of intervals, as a lost packet does. Nothing is computed across an interruption. Each
/// run is corrected separately (`ArtefactCounts`). If the intervals are insufficient, the result is a
/// `Variability.Refusal`.
///
/// Pulse intervals from a finger or wrist vary slightly more than those of an electrocardiogram, mostly at
/// high frequencies (Schäfer, Vagedes, Int. J. Cardiol. 166(1), 15–29, 2013). The results are not medical
/// advice.
public struct VariabilityMeter: Sendable {
  public static let segmentSeconds = 300.0
  public static let intervalSeconds = 0.2...3.0
  /// Maximum difference between an interval's reported end and the sum of the previous intervals, in seconds.
  /// A larger difference starts a new run. Straps send intervals late and several at once, but not that late.
  public static let largestDriftSeconds = 3.0
  private static let capacity = ArtefactCorrection.capacity
  /// Number of intervals before and after a possible leap whose medians are compared. The median tolerates
  /// two wrong intervals.
  private static let leapIntervals = 5

  /// Good intervals of the segment, in seconds.
  private var intervals = [Double](repeating: 0, count: capacity)
  /// End of each good interval, in seconds since the start of the segment.
  private var ends = [Double](repeating: 0, count: capacity)
  /// Whether each good interval begins a run.
  private var begins = [Bool](repeating: false, count: capacity)
  private var count = 0
  private var total = 0
  private var unaccepted = 0
  /// Start of the segment, in nanoseconds since the Unix epoch.
  private var start: Int64?
  private var latest: Int64 = 0
  /// End of the last interval in seconds since the segment's start: the end of its run's first interval plus
  /// the later intervals.
  private var runEnd: Double?
  private var correction = ArtefactCorrection()
  private var normal: [NormalInterval]
  private var spectrum = VariabilitySpectrum(points: capacity, seconds: segmentSeconds)

  public init() {
    normal = [NormalInterval](
      repeating: NormalInterval(end: 0, seconds: 0, isContinued: false), count: Self.capacity)
  }

  /// Processes a beat of an electrocardiogram with its interval.
  ///
  /// - Returns: the previous segment, if it ended before this interval.
  public mutating func take(_ beat: ECGBeat) -> VariabilitySegment? {
    take(beat.interval, end: beat.time, isAccepted: beat.isAccepted)
  }

  /// Processes a beat of a plethysmogram with its interval.
  public mutating func take(_ beat: PulseBeat) -> VariabilitySegment? {
    take(beat.interval, end: beat.time, isAccepted: beat.isAccepted)
  }

  /// Processes the next interval.
  ///
  /// - Parameters:
  ///   - seconds: time between two beats; `nil` for a beat whose interval is unknown.
  ///   - end: time of the second beat on any clock, accurate to a second or two. The ends within a run are
  ///     computed from the lengths of the intervals.
  ///   - isAccepted: whether the source trusts the interval.
  /// - Returns: the previous segment, if it ended before this interval.
  public mutating func take(
    _ seconds: Double?, end: ReceiveTime, isAccepted: Bool = true
  ) -> VariabilitySegment? {
    guard let seconds else {
      interrupt()
      return nil
    }
    let length = min(max(seconds, 0), Self.intervalSeconds.upperBound)
    let began = end.nanoseconds &- Int64((length * 1e9).rounded())
    var closed: VariabilitySegment?
    if let start, Double(end.nanoseconds &- start) / 1e9 > Self.segmentSeconds {
      closed = close(isWhole: true)
    } else if start != nil, Double(latest) - Double(end.nanoseconds) > Self.largestDriftSeconds * 1e9 {
      // The clock was set back, so the elapsed time is unknown.
      closed = close(isWhole: false)
      interrupt()
    }
    if start == nil { latest = end.nanoseconds }
    if start == nil {
      // Without a gap, the next segment begins at the end of the previous segment.
      start =
        closed.flatMap {
          let pause = Double(began) - Double($0.end.nanoseconds)
          return abs(pause) < Self.segmentSeconds * 1e9 ? $0.end.nanoseconds : nil
        }
        ?? began
    }
    total += 1
    latest = max(latest, end.nanoseconds)
    guard isAccepted, Self.intervalSeconds.contains(seconds), count < Self.capacity, let start else {
      unaccepted += 1
      interrupt()
      return closed
    }
    let given = Double(end.nanoseconds &- start) / 1e9
    let expected = runEnd.map { $0 + seconds }
    let isContinued = expected.map { abs($0 - given) <= Self.largestDriftSeconds } ?? false
    let place = isContinued ? expected ?? given : given
    (intervals[count], ends[count], begins[count]) = (seconds, place, !isContinued)
    runEnd = place
    count += 1
    return closed
  }

  /// Marks a loss of intervals. The next interval begins a new run.
  public mutating func interrupt() { runEnd = nil }

  /// Ends the stream and returns the last segment; `nil` if the last segment has no interval.
  public mutating func finish() -> VariabilitySegment? { start == nil ? nil : close(isWhole: false) }

  // MARK: Segments

  private mutating func close(isWhole: Bool) -> VariabilitySegment? {
    guard let start else { return nil }
    let end = isWhole ? start &+ Int64(Self.segmentSeconds * 1e9) : latest
    let rhythm = rhythm
    let (kept, artefacts) = correct()
    let segment = VariabilitySegment(
      start: ReceiveTime(nanoseconds: start), end: ReceiveTime(nanoseconds: end), intervals: total,
      unaccepted: unaccepted, artefacts: artefacts,
      irregularShare: rhythm.irregularShare, leaps: rhythm.leaps,
      result: result(kept, artefacts, rhythm, seconds: Double(end &- start) / 1e9))
    // Moves the end of the run to the next segment's time scale.
    if let runEnd { self.runEnd = runEnd - Double(end &- start) / 1e9 }
    (count, total, unaccepted) = (0, 0, 0)
    self.start = nil
    return segment
  }

  private typealias Rhythm = (irregularShare: Double?, leaps: Int)

  /// Share of irregular changes between successive good intervals, and number of leaps, both before
  /// correction.
  private var rhythm: Rhythm {
    var (pairs, irregular, leaps, runStart, lastLeap) = (0, 0, 0, 0, 0)
    let reach = Self.leapIntervals
    for index in 0..<count {
      if begins[index] { (runStart, lastLeap) = (index, index - reach) }
      guard index > runStart else { continue }
      pairs += 1
      let before = intervals[index - 1]
      if abs(intervals[index] - before) > Variability.irregularChange * before { irregular += 1 }
      // Compare the last `reach` intervals with the `reach` intervals before them.
      let middle = index + 1 - reach
      guard middle - reach >= runStart, middle - lastLeap >= reach else { continue }
      let ratio = median(from: middle) / median(from: middle - reach)
      if max(ratio, 1 / ratio) > Variability.leapRatio { (leaps, lastLeap) = (leaps + 1, middle) }
    }
    return (pairs > 0 ? Double(irregular) / Double(pairs) : nil, leaps)
  }

  /// Returns the median of `leapIntervals` intervals.
  private func median(from start: Int) -> Double {
    for place in start..<start + Self.leapIntervals {
      var (smaller, equal) = (0, 0)
      for other in start..<start + Self.leapIntervals {
        if intervals[other] < intervals[place] { smaller += 1 }
        if intervals[other] == intervals[place] { equal += 1 }
      }
      let middle = Self.leapIntervals / 2
      if smaller <= middle, smaller + equal > middle { return intervals[place] }
    }
    return intervals[start]
  }

  /// Corrects the intervals run by run.
  ///
  /// - Returns: the number of normal intervals, and the number of artefacts.
  private mutating func correct() -> (kept: Int, ArtefactCounts) {
    var artefacts = ArtefactCounts()
    var kept = 0
    var index = 0
    while index < count {
      let first = index
      correction.removeAll()
      repeat {
        correction.append(intervals[index])
        index += 1
      } while index < count && !begins[index]
      artefacts.add(correction.correct())
      var end = ends[first] - intervals[first]
      var isContinued = false
      for place in 0..<correction.count {
        let (seconds, isLeftOut) = correction.interval(place)
        end += seconds
        if !isLeftOut, kept < normal.count {
          normal[kept] = NormalInterval(end: end, seconds: seconds, isContinued: isContinued)
          kept += 1
        }
        isContinued = !isLeftOut
      }
    }
    return (kept, artefacts)
  }

  private mutating func result(
    _ kept: Int, _ artefacts: ArtefactCounts, _ rhythm: Rhythm, seconds: Double
  ) -> Result<Variability, Variability.Refusal> {
    guard kept >= Variability.leastCount else {
      return .failure(.tooFewIntervals(count: kept, needed: Variability.leastCount))
    }
    var covered = 0.0
    for index in 0..<kept { covered += normal[index].seconds }
    guard covered >= Variability.leastSeconds else {
      return .failure(.tooShort(seconds: covered, needed: Variability.leastSeconds))
    }
    if let irregular = rhythm.irregularShare, irregular > Variability.clearlyIrregularShare {
      return .failure(.irregular(share: irregular))
    }
    let share = Double(artefacts.total) / Double(count)
    guard share <= Variability.largestCorrectedShare else { return .failure(.tooManyCorrected(share: share)) }
    let accepted = Double(total - unaccepted) / Double(total)
    guard accepted >= Variability.leastAcceptedShare else { return .failure(.fewAccepted(share: accepted)) }
    guard rhythm.leaps == 0 else { return .failure(.leaps(count: rhythm.leaps)) }
    if let irregular = rhythm.irregularShare, irregular > Variability.largestIrregularShare {
      return .failure(.irregular(share: irregular))
    }
    // Copy the array, because a span of the property would keep exclusive access to `self`.
    let normal = normal
    let intervals = normal.span.extracting(..<kept)
    let spectrum = powers(intervals, covered: covered, of: seconds)
    return .success(Variability(intervals, spectrum: spectrum))
  }

  private mutating func powers(
    _ intervals: Span<NormalInterval>, covered: Double, of seconds: Double
  ) -> Result<Variability.Spectrum, Variability.Refusal> {
    guard seconds >= Variability.leastSpectrumSeconds else {
      return .failure(.tooShort(seconds: seconds, needed: Variability.leastSpectrumSeconds))
    }
    let gaps = 1 - covered / seconds
    guard gaps <= Variability.largestGapShare else { return .failure(.gaps(share: gaps)) }
    return .success(spectrum.measure(intervals))
  }
}

extension ArtefactCounts {
  fileprivate mutating func add(_ other: ArtefactCounts) {
    ectopic += other.ectopic
    missed += other.missed
    extra += other.extra
    misplaced += other.misplaced
    leftOut += other.leftOut
  }
}
