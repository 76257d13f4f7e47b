/// Finds R peaks in an electrocardiogram, of either polarity. No allocation after the start.
///
/// Method: Elgendi, Fast QRS Detection with an Optimized Knowledge-Based Method: Evaluation on 11 Standard ECG
/// Databases, PLoS ONE 8(9), e73557, 2013 (sensitivity 99.8 %, positive predictivity 99.9 % over all of them). The
/// signal, 8 … 20 Hz, is squared; where its average over 97 ms (the QRS complex) is above that over 611 ms (a beat)
/// plus 8 % of the mean, there is a complex.
///
/// What differs, because it streams: the filter is of linear phase and the mean is that of the last ten seconds, or three times
/// that of the last two where this is less, so that the end of a disturbance is the end of its effect.
/// What is added: a complex of less than 15 % of the usual amplitude (the median of the last eight) is noise unless
/// nothing else came for 1.5 s; of two within 250 ms the larger counts. The R peak is the extremum, in the
/// polarity that the last beats had, of the signal as it came, smoothed over 30 ms, weighted by a raised cosine around the
/// energy's maximum; a parabola gives its place between the samples. Nothing shifts it: the place is that in the input.
///
/// A peak is given at most `lagSeconds` after it.
///
/// Limits: below `minimumRate` a narrow R wave lies between the samples. Where the polarity of a lead changes, the first
/// beats are placed at the other wave of their complex.
public struct ECGDetector: Sendable {
  public static let band = 8.0...20.0
  public static let complexSeconds = 0.097
  public static let beatSeconds = 0.611
  public static let offsetShare = 0.08
  /// A complex is above the threshold for this time at least.
  public static let shortestSeconds = 0.06
  public static let refractorySeconds = 0.25
  /// Of the usual amplitude; smaller ones are noise.
  public static let noiseShare = 0.15
  /// After this time without a beat smaller ones count as well.
  public static let silenceSeconds = 1.5
  public static let searchSeconds = 0.12
  /// Samples a second below which the method means nothing.
  public static let minimumRate = 100.0
  /// From an R peak to the sample that completes it, at most.
  public static let lagSeconds = 1.2

  private static let meanSeconds = 10.0
  private static let shortMeanSeconds = 2.0
  private static let filterSeconds = 0.25
  private static let smoothingSeconds = 0.03
  private static let taperSeconds = 0.2
  private static let baselineSeconds = 0.3

  private let rate: Double
  private var filter: LinearPhaseBandPass
  /// Odd numbers of samples: the averages are centred.
  private let complexWidth: Int
  private let beatWidth: Int
  /// The squares of the filtered signal and the signal itself, the last `size` samples.
  private var squared: [Double]
  private var raw: [Double]
  private let size: Int
  private var smoothing: [Double]
  private var taper: [Double]
  /// Filtered samples; `delay` more were taken.
  private var filtered: Int
  private var complexSum = 0.0
  private var beatSum = 0.0
  /// Of the squares: over ten seconds, and over two.
  private var mean = 0.0
  private var shortMean = 0.0
  /// The complex that the threshold is under: its first sample, and where most energy is.
  private var block: (start: Int, best: Int, energy: Double)?
  /// Found, but a larger one may come within the refractory time.
  private var waiting: (position: Double, height: Double, energy: Double)?
  private var energies = UsualEnergy()
  /// −1 … 1: of the complexes so far, how much larger the upper wave is.
  private var polarity = 0.0
  private var complexes = 0

  /// - Parameter rate: samples a second, at least `minimumRate`.
  public init(rate: Double) {
    precondition(rate >= Self.minimumRate, "too few samples a second for the method")
    self.rate = rate
    filter = LinearPhaseBandPass(Self.band, seconds: Self.filterSeconds, rate: rate)
    complexWidth = Self.odd(Self.complexSeconds * rate)
    beatWidth = Self.odd(Self.beatSeconds * rate)
    // From the baseline before a complex as long as the average that is its threshold to the newest sample.
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

  /// Samples that have been decided: peaks before this one were given.
  public var decided: Int {
    let search = taper.count / 2
    let open = min(centre, block?.start ?? .max) - search - 1
    return max(0, min(open, waiting.map { Int($0.position) } ?? .max))
  }

  /// Begins anew: the next sample has number 0.
  public mutating func reset() {
    filter.reset()
    for index in squared.indices { squared[index] = 0 }
    (filtered, complexSum, beatSum) = (-filter.delay, 0, 0)
    (mean, shortMean) = (0, 0)
    (block, waiting) = (nil, nil)
    (polarity, complexes) = (0, 0)
    energies = UsualEnergy()
  }

  /// Takes the next sample.
  ///
  /// - Returns: the beat that is certain now, its `height` that over the baseline, in the unit of the signal.
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

  /// - Returns: the beat before the complex that ends here.
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

  private mutating func weigh(_ place: Int, _ energy: Double) -> DetectedBeat? {
    // What began before the signal is no whole complex.
    guard place >= taper.count / 2 else { return nil }
    let silence = energies.lastPlace.map { Double(place - $0) / rate } ?? .infinity
    if energies.isNoise(energy, share: Self.noiseShare) {
      guard silence > Self.silenceSeconds else { return nil }
      energies.forget()
    }
    let peak = peak(around: place)
    let before = waiting
    if let before, peak.position - before.position < Self.refractorySeconds * rate {
      guard energy > before.energy else { return nil }
      waiting = (peak.position, peak.height, energy)
      energies.replaceLast(energy, at: place)
      return nil
    }
    waiting = (peak.position, peak.height, energy)
    energies.append(energy, at: place)
    return before.map { DetectedBeat(position: $0.position, height: $0.height) }
  }

  private mutating func given(at centre: Int) -> DetectedBeat? {
    guard let beat = waiting else { return nil }
    // The next one may lie before the middle of its complex.
    let clear = beat.position + Self.refractorySeconds * rate + Double(taper.count / 2)
    guard Double(min(centre, block?.start ?? .max)) > clear else { return nil }
    waiting = nil
    return DetectedBeat(position: beat.position, height: beat.height)
  }

  // MARK: The R peak

  /// The extremum around the middle of a complex: its place and its height over the baseline.
  private mutating func peak(around place: Int) -> (position: Double, height: Double) {
    let newest = filtered + filter.delay - 1
    let oldest = max(0, newest - size + 1)
    let base = baseline(around: place, oldest...newest)
    let search = taper.count / 2
    var (high, low) = (0.0, 0.0)
    var (highest, lowest) = (place, place)
    let half = smoothing.count / 2
    let range = max(oldest + half + 1, place - search)...min(newest - half - 1, place + search)
    for index in range {
      let value = (smoothed(index) - base) * taper[index - place + search]
      if value > high { (high, highest) = (value, index) }
      if value < low { (low, lowest) = (value, index) }
    }
    let sign = polarity(of: high, low)
    var peak = sign > 0 ? highest : lowest
    // Up to where the weight has no part in it.
    while peak > range.lowerBound, sign * smoothed(peak - 1) > sign * smoothed(peak) { peak -= 1 }
    while peak < range.upperBound, sign * smoothed(peak + 1) > sign * smoothed(peak) { peak += 1 }
    let (before, height, after) = (smoothed(peak - 1), smoothed(peak), smoothed(peak + 1))
    let bend = before - 2 * height + after
    let shift = sign * bend < 0 ? max(-0.5, min(0.5, 0.5 * (before - after) / bend)) : 0
    return (Double(peak) + shift, height - base)
  }

  private mutating func polarity(of high: Double, _ low: Double) -> Double {
    let range = high - low
    let own = range > 0 ? (high + low) / range : 0
    complexes += 1
    polarity += (own - polarity) / Double(min(complexes, 8))
    return polarity >= 0 ? 1 : -1
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

/// The energy of the last eight complexes.
private struct UsualEnergy: Sendable {
  private static let capacity = 8
  private static let leastCount = 4

  private var energies = InlineArray<8, Double>(repeating: 0)
  private var count = 0
  private(set) var lastPlace: Int?

  mutating func append(_ energy: Double, at place: Int) {
    energies[count % Self.capacity] = energy
    count += 1
    lastPlace = place
  }

  mutating func replaceLast(_ energy: Double, at place: Int) {
    count = max(0, count - 1)
    append(energy, at: place)
  }

  mutating func forget() { count = 0 }

  /// Whether the amplitude is less than that share of the median one.
  func isNoise(_ energy: Double, share: Double) -> Bool {
    guard count >= Self.leastCount else { return false }
    let kept = min(count, Self.capacity)
    let limit = energy / (share * share)
    var larger = 0
    for index in 0..<kept where energies[index] > limit { larger += 1 }
    return 2 * larger > kept
  }
}
