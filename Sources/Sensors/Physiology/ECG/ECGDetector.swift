/// Detects R peaks of either polarity in an electrocardiogram. Memory is allocated only in the initializer.
///
/// Method: Elgendi, Fast QRS Detection with an Optimized Knowledge-Based Method: Evaluation on 11 Standard
/// ECG Databases, PLoS ONE 8(9), e73557, 2013 (sensitivity 99.8 %, positive predictivity 99.9 % over all of
/// them). The signal is filtered to 8 … 20 Hz and squared. A complex is the time during which the average
/// over 97 ms (a QRS complex) exceeds the average over 611 ms (a beat) plus 8 % of the mean.
///
/// Streaming requires two changes to that method. The filter has linear phase. The mean covers the last ten
/// seconds, or is three times the mean of the last two seconds if this is lower, so that a disturbance has no
/// effect after its end.
///
/// The rules that decide which complexes are beats come from Pan and Tompkins, A Real-Time QRS Detection
/// Algorithm, IEEE Transactions on Biomedical Engineering 32(3), 230-236, 1985. As in that article, two
/// measures of a complex are combined: its height in the signal and its amplitude in the band. The strength
/// of a complex is their geometric mean. Noise has a large amplitude in the band but a low height; a wide
/// ventricular beat is the opposite.
///
/// A complex with less than 40 % of the usual strength is noise. The usual strength is the lower quartile of
/// the last eight beats, so that large ectopic beats do not hide the beats between them. If no beat was
/// detected for 1.66 usual intervals, the strongest complex since the last beat is a beat if it has 25 % of
/// the usual strength. A complex within 0.36 s after a beat is a T wave if its slope is less than half of the
/// usual slope and less than half of that beat's slope. This rule ends when the next beat is due, three
/// quarters of the usual interval after the last beat. If two complexes are less than 0.24 s apart, only the
/// stronger complex is a beat.
///
/// The R peak is the extremum of the unfiltered signal, smoothed over 30 ms and weighted by a raised cosine
/// around the maximum energy; a parabola locates the extremum between samples. If a wide wave has several
/// tops, its peak is the highest top of the unsmoothed signal. The polarity is that of the last beats, unless
/// the opposite wave is clearly larger, as in an ectopic beat. The peak's position is not shifted relative to
/// the input.
///
/// A peak is usually returned after half a second to a second, later if a beat was late, and at most
/// `lagSeconds` later.
///
/// Limits: below `minimumRate`, a narrow R wave fits between samples. A noise spike as large as a beat and
/// less than `refractorySeconds` away hides the beat.
public struct ECGDetector: Sendable {
  public static let band = 8.0...20.0
  public static let complexSeconds = 0.097
  public static let beatSeconds = 0.611
  public static let offsetShare = 0.08
  /// Minimum time above the threshold for a complex, in seconds.
  public static let shortestSeconds = 0.06
  public static let refractorySeconds = 0.24
  /// Slope of a T wave: maximum ratio of its steepest slope to the slope of the beat before it.
  public static let waveShare = 0.5
  public static let waveSeconds = 0.36
  /// Time after which the next beat is due, as a fraction of the usual interval. A flat wave after this time
  /// no longer counts as a T wave.
  public static let dueShare = 0.75
  /// Minimum strength of a beat, as a fraction of the usual strength. Weaker complexes are noise.
  public static let noiseShare = 0.4
  /// Value that replaces `noiseShare` if the next beat is late.
  public static let lateNoiseShare = 0.25
  /// Time after which the next beat counts as late, as a multiple of the usual interval.
  public static let lateShare = 1.66
  /// Time in seconds after which a beat is late in any case, and the usual values are reset: the interval of
  /// 30 beats per minute.
  public static let lateSeconds = 2.0
  /// If the polarity of a complex, −1 … 1, differs by more than this from the mean polarity of the last
  /// complexes, the complex's own polarity is used.
  public static let clearPolarity = 0.9
  public static let searchSeconds = 0.12
  /// Minimum nominal sample rate, in samples per second.
  public static let neededRate = 100.0
  /// Minimum measured sample rate, in samples per second: `neededRate` with a clock that is 2 % slow.
  public static let minimumRate = 98.0
  /// Maximum time between an R peak and the sample at which it is returned, in seconds.
  public static let lagSeconds = 3.0

  private static let meanSeconds = 10.0
  private static let shortMeanSeconds = 2.0
  private static let filterSeconds = 0.25
  private static let smoothingSeconds = 0.03
  private static let taperSeconds = 0.2
  /// Maximum time between the tops of a wide wave, in seconds.
  private static let topSeconds = 0.04
  private static let baselineSeconds = 0.3

  private let rate: Double
  private var filter: LinearPhaseBandPass
  /// Width of the average over a complex, in samples; odd, so that the average is centred.
  private let complexWidth: Int
  /// Width of the average over a beat, in samples; odd, so that the average is centred.
  private let beatWidth: Int
  /// The last `size` samples of the squared filtered signal.
  private var squared: [Double]
  /// The last `size` samples of the unfiltered signal.
  private var raw: [Double]
  private let size: Int
  private var smoothing: [Double]
  private var taper: [Double]
  /// Number of filtered samples: the number of received samples minus the filter's delay.
  private var filtered: Int
  private var complexSum = 0.0
  private var beatSum = 0.0
  /// Mean of the squares over ten seconds.
  private var mean = 0.0
  /// Mean of the squares over two seconds.
  private var shortMean = 0.0
  /// The current complex: its first sample, and the position and value of its maximum energy.
  private var block: (start: Int, best: Int, energy: Double)?
  /// Beat that a stronger complex within the refractory time may still replace.
  private var waiting: Complex?
  /// The last beat.
  private var latest: Complex?
  /// The strongest rejected complex since the last beat.
  private var doubtful: Complex?
  private var usual = UsualBeat()
  /// Mean polarity of the last complexes: −1 if the whole wave is below the baseline, 1 if it is above.
  private var polarity = 0.0
  private var complexes = 0

  /// Creates a detector for one sample rate.
  ///
  /// - Parameter rate: sample rate in samples per second, at least `minimumRate`.
  public init(rate: Double) {
    precondition(rate >= Self.minimumRate, "too few samples a second for the method")
    self.rate = rate
    filter = LinearPhaseBandPass(Self.band, seconds: Self.filterSeconds, rate: rate)
    complexWidth = Self.odd(Self.complexSeconds * rate)
    beatWidth = Self.odd(Self.beatSeconds * rate)
    // The buffer extends from the baseline before the longest complex to the newest sample. A complex is at
    // most `beatWidth` samples long.
    size = Int(rate) + 3 * beatWidth
    squared = [Double](repeating: 0, count: size)
    raw = squared
    let half = max(1, Int((Self.smoothingSeconds * rate / 2).rounded()))
    smoothing = (-half...half).map {
      0.5 + 0.5 * sineAndCosine(turns: Double($0) / Double(2 * (half + 1))).cosine
    }
    let sum = smoothing.reduce(0, +)
    smoothing = smoothing.map { $0 / sum }
    let search = Int((Self.searchSeconds * rate).rounded())
    taper = (-search...search).map {
      0.5 + 0.5 * sineAndCosine(turns: Double($0) / (2 * Self.taperSeconds * rate)).cosine
    }
    filtered = -filter.delay
  }

  private static func odd(_ samples: Double) -> Int { 2 * Int((samples - 1) / 2 + 0.5) + 1 }

  private var centre: Int { filtered - 1 - beatWidth / 2 }

  /// Number of the first undecided sample. All peaks before it have been returned.
  public var decided: Int {
    let search = taper.count / 2
    let open = min(centre, block?.start ?? .max) - search - 1
    let undecided = min(waiting?.position ?? .infinity, doubtful?.position ?? .infinity)
    return max(0, undecided < Double(open) ? Int(undecided) : open)
  }

  /// Resets the detector. The next sample has number 0.
  public mutating func reset() {
    filter.reset()
    for index in squared.indices { squared[index] = 0 }
    (filtered, complexSum, beatSum) = (-filter.delay, 0, 0)
    (mean, shortMean) = (0, 0)
    (block, waiting, latest, doubtful) = (nil, nil, nil, nil)
    (polarity, complexes) = (0, 0)
    usual = UsualBeat()
  }

  /// Processes the next sample.
  ///
  /// - Returns: a beat, if one is now final. Its `height` is measured from the baseline, in the unit of the
  ///   signal.
  public mutating func take(_ sample: Double) -> DetectedBeat? {
    raw[(filtered + filter.delay) % size] = sample
    let value = filter.filter(sample)
    filtered += 1
    guard filtered > 0 else { return nil }
    let newest = filtered - 1
    let square = value * value
    beatSum += square - (newest >= beatWidth ? squared[(newest - beatWidth) % size] : 0)
    squared[newest % size] = square
    mean += (square - mean) / min(Double(filtered), Self.meanSeconds * rate)
    shortMean += (square - shortMean) / min(Double(filtered), Self.shortMeanSeconds * rate)
    let centre = centre
    let entering = centre + complexWidth / 2
    let leaving = centre - complexWidth / 2 - 1
    if entering >= 0 { complexSum += squared[entering % size] }
    if leaving >= 0 { complexSum -= squared[leaving % size] }
    guard centre >= 0 else { return nil }
    return decide(centre) ?? given(at: centre)
  }

  /// Detects the end of a complex.
  ///
  /// - Returns: the previous beat, if the complex is a beat.
  private mutating func decide(_ centre: Int) -> DetectedBeat? {
    let energy = complexSum / Double(complexWidth)
    let isAbove = energy > beatSum / Double(beatWidth) + Self.offsetShare * min(mean, 3 * shortMean)
    if isAbove, let open = block, centre - open.start < beatWidth {
      if energy > open.energy { block = (open.start, centre, energy) }
      return nil
    }
    let finished = block
    block = isAbove ? (centre, centre, energy) : nil
    guard let finished, Double(centre - finished.start) >= Self.shortestSeconds * rate else {
      return nil
    }
    return weigh(finished.best, finished.energy)
  }

  /// Decides whether a complex is a beat.
  ///
  /// - Returns: the previous beat, if the complex is a beat.
  private mutating func weigh(_ place: Int, _ energy: Double) -> DetectedBeat? {
    // The complex begins before the first sample.
    guard place >= taper.count / 2 else { return nil }
    let complex = complex(around: place, energy)
    guard let latest else { return accept(complex) }
    let since = (complex.position - latest.position) / rate
    if since < Self.refractorySeconds {
      if waiting != nil, complex.strength > latest.strength { replace(complex) }
      return nil
    }
    if isWave(complex, after: latest, since) { return nil }
    if complex.strength >= Self.noiseShare * usual.strength {
      if let found = doubtful, since > late, complex.position - found.position > Self.refractorySeconds * rate
      {
        // `accept` returns `nil` here, because the previous beat has already been returned.
        _ = accept(found)
      }
      return accept(complex)
    }
    if complex.strength > max(Self.lateNoiseShare * usual.strength, doubtful?.strength ?? 0) {
      doubtful = complex
    }
    return nil
  }

  /// Returns whether a complex `since` seconds after a beat is a T wave.
  private func isWave(_ complex: Complex, after beat: Complex, _ since: Double) -> Bool {
    let due = Self.dueShare * (usual.interval ?? .infinity) / rate
    return since < min(Self.waveSeconds, due)
      && complex.slope < Self.waveShare * min(beat.slope, usual.slope ?? .infinity)
  }

  /// Time after a beat at which the next beat is late, in seconds.
  private var late: Double { min(Self.lateSeconds, Self.lateShare * (usual.interval ?? .infinity) / rate) }

  private mutating func accept(_ complex: Complex) -> DetectedBeat? {
    let before = waiting
    usual.append(complex, after: latest)
    (latest, waiting, doubtful) = (complex, complex, nil)
    return before?.beat
  }

  private mutating func replace(_ complex: Complex) {
    usual.replaceLast(complex)
    (latest, waiting, doubtful) = (complex, complex, nil)
  }

  /// Returns a beat that no later complex can replace any more.
  private mutating func given(at centre: Int) -> DetectedBeat? {
    guard let latest else { return nil }
    // A peak may be earlier than the middle of its complex.
    let since = (Double(min(centre, block?.start ?? .max) - taper.count / 2) - latest.position) / rate
    if let beat = waiting, since > Self.refractorySeconds {
      waiting = nil
      return beat.beat
    }
    if let found = doubtful, since > late { return accept(found) }
    if since > Self.lateSeconds { usual.forget() }
    return nil
  }

  // MARK: The R peak

  /// Measures a complex: the position, height and slope of its extremum, and its strength.
  private mutating func complex(around place: Int, _ energy: Double) -> Complex {
    let newest = filtered + filter.delay - 1
    let oldest = max(0, newest - size + 1)
    let base = baseline(around: place, oldest...newest)
    let search = taper.count / 2
    var (high, low) = (0.0, 0.0)
    var (highest, lowest) = (place, place)
    let half = smoothing.count / 2
    let range = max(oldest + half + 1, place - search)...min(newest - half - 1, place + search)
    var (slope, previous) = (0.0, smoothed(range.lowerBound))
    for index in range {
      let here = smoothed(index)
      let value = (here - base) * taper[index - place + search]
      slope = max(slope, abs(here - previous))
      previous = here
      if value > high { (high, highest) = (value, index) }
      if value < low { (low, lowest) = (value, index) }
    }
    let sign = polarity(of: high, low)
    var peak = sign > 0 ? highest : lowest
    // Move to the local extremum of the unweighted signal.
    while peak > range.lowerBound, sign * smoothed(peak - 1) > sign * smoothed(peak) { peak -= 1 }
    while peak < range.upperBound, sign * smoothed(peak + 1) > sign * smoothed(peak) { peak += 1 }
    peak = top(near: peak, in: range, sign)
    let (before, height, after) = (smoothed(peak - 1), smoothed(peak), smoothed(peak + 1))
    let bend = before - 2 * height + after
    let shift = sign * bend < 0 ? max(-0.5, min(0.5, 0.5 * (before - after) / bend)) : 0
    return Complex(
      position: Double(peak) + shift, height: height - base, slope: slope,
      strength: (abs(height - base) * energy.squareRoot()).squareRoot())
  }

  /// Returns the position of the highest raw sample near a peak. In a wide wave, smoothing may have made
  /// another top the highest.
  private func top(near peak: Int, in range: ClosedRange<Int>, _ sign: Double) -> Int {
    let reach = Int((Self.topSeconds * rate).rounded())
    var highest = peak
    for index in max(range.lowerBound, peak - reach)...min(range.upperBound, peak + reach)
    where sign * raw[index % size] > sign * raw[highest % size] { highest = index }
    return abs(highest - peak) > smoothing.count / 2 ? highest : peak
  }

  private mutating func polarity(of high: Double, _ low: Double) -> Double {
    let range = high - low
    let own = range > 0 ? (high + low) / range : 0
    complexes += 1
    polarity += (own - polarity) / Double(min(complexes, 8))
    let isOther = abs(own - polarity) > Self.clearPolarity
    return (isOther ? own : polarity) >= 0 ? 1 : -1
  }

  private func baseline(around place: Int, _ available: ClosedRange<Int>) -> Double {
    let half = Int(Self.baselineSeconds * rate)
    var sum = 0.0
    let range = max(available.lowerBound, place - half)...min(available.upperBound, place + half)
    for index in range { sum += raw[index % size] }
    return sum / Double(range.count)
  }

  private func smoothed(_ index: Int) -> Double {
    var sum = 0.0
    let start = index - smoothing.count / 2
    for tap in smoothing.indices { sum += smoothing[tap] * raw[(start + tap) % size] }
    return sum
  }
}

/// Wave that may be a QRS complex.
private struct Complex: Sendable {
  var position: Double
  var height: Double
  /// Steepest slope, in the signal's unit per sample.
  var slope: Double
  /// Geometric mean of the height in the signal and the amplitude in the band.
  var strength: Double

  var beat: DetectedBeat { DetectedBeat(position: position, height: height) }
}

/// Usual strength, slope and interval, from the last eight beats.
private struct UsualBeat: Sendable {
  private static let capacity = 8

  private var strengths = InlineArray<8, Double>(repeating: 0)
  private var slopes = InlineArray<8, Double>(repeating: 0)
  private var intervals = InlineArray<8, Double>(repeating: 0)
  private var count = 0
  private var intervalCount = 0

  mutating func append(_ complex: Complex, after before: Complex?) {
    strengths[count % Self.capacity] = complex.strength
    slopes[count % Self.capacity] = complex.slope
    count += 1
    guard let before else { return }
    intervals[intervalCount % Self.capacity] = complex.position - before.position
    intervalCount += 1
  }

  mutating func replaceLast(_ complex: Complex) {
    guard count > 0 else { return }
    strengths[(count - 1) % Self.capacity] = complex.strength
    slopes[(count - 1) % Self.capacity] = complex.slope
  }

  mutating func forget() { (count, intervalCount) = (0, 0) }

  /// Lower quartile of the strengths; 0 if unknown.
  var strength: Double { Self.quantile(strengths, count, share: 0.25) ?? 0 }

  /// Median of the steepest slopes, in the signal's unit per sample.
  var slope: Double? { Self.quantile(slopes, count) }

  /// Median of the intervals, in samples.
  var interval: Double? { Self.quantile(intervals, intervalCount) }

  private static func quantile(_ values: InlineArray<8, Double>, _ count: Int, share: Double = 0.5) -> Double?
  {
    let kept = min(count, capacity)
    guard kept > 0 else { return nil }
    for index in 0..<kept {
      var (smaller, equal) = (0, 0)
      for other in 0..<kept {
        if values[other] < values[index] { smaller += 1 }
        if values[other] == values[index] { equal += 1 }
      }
      let place = Int(share * Double(kept))
      if smaller <= place, smaller + equal > place { return values[index] }
    }
    return nil
  }
}
