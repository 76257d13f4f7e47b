/// Number of artefacts of each kind among the intervals.
@frozen public struct ArtefactCounts: Hashable, Sendable, BitwiseCopyable {
  /// Number of ectopic beats. Each was moved to the middle between its neighbours.
  public var ectopic = 0
  /// Number of missed beats. Each was inserted in the middle of a long interval.
  public var missed = 0
  /// Number of false beats. Each was removed.
  public var extra = 0
  /// Number of misplaced beats. Each was moved to the middle between its neighbours.
  public var misplaced = 0
  /// Number of omitted intervals: too long or too short for another reason.
  public var leftOut = 0

  public init() {}

  public var total: Int { ectopic + missed + extra + misplaced + leftOut }
}

/// Finds intervals that do not belong to a sinus rhythm, and corrects them. Memory is allocated only in the
/// initializer.
///
/// Method: Lipponen, Tarvainen, A robust algorithm for heart rate variability time series artefact correction
/// using novel beat classification, J. Med. Eng. Technol. 43(3), 173–181, 2019 (published sensitivity 97 %,
/// specificity 99.9 %). Two series are computed: the differences between successive intervals, and the
/// difference of each interval from the median of eleven intervals. Each value is divided by 5.2 times the
/// quartile deviation of the 91 values around it (3.5 standard deviations of a normal distribution). If the
/// quotient exceeds 1, the neighbouring values decide whether a beat is ectopic, missed, extra or misplaced.
///
/// The published method is changed in four ways. Ectopic beats are searched for one interval ahead, so that
/// the first interval of an ectopic beat is not classified as another kind. Unclassified outliers are
/// omitted, not interpolated. The divisor is at least 20 ms, for intervals with a coarse resolution. The
/// correction is repeated until nothing is found, at most four times.
struct ArtefactCorrection: Sendable {
  /// Whether an interval is kept or omitted.
  private enum State: UInt8 {
    case kept
    case leftOut
  }

  static let capacity = 2_048
  private static let scale = 5.2
  private static let window = 91
  private static let medianWindow = 11
  private static let slope = 0.13
  private static let intercept = 0.17
  private static let leastMeasure = 0.02
  private static let passes = 4

  /// Intervals of the run, in seconds. The arrays below have one element per interval.
  private var intervals = [Double](repeating: 0, count: capacity)
  private var states = [State](repeating: .kept, count: capacity)
  /// Differences from the previous interval, divided by `differenceMeasures`.
  private var differences = [Double](repeating: 0, count: capacity)
  /// Differences from the median, doubled if negative, and divided by `distanceMeasures`.
  private var distances = [Double](repeating: 0, count: capacity)
  private var medians = [Double](repeating: 0, count: capacity)
  /// Divisors of `differences`, in seconds.
  private var differenceMeasures = [Double](repeating: 0, count: capacity)
  /// Divisors of `distances`, in seconds.
  private var distanceMeasures = [Double](repeating: 0, count: capacity)
  private var neighbours = OrderedWindow(capacity: window + 1)
  /// Intervals after the correction, in seconds.
  private var corrected = [Double](repeating: 0, count: capacity)
  private var correctedStates = [State](repeating: .kept, count: capacity)
  private var correctedCount = 0
  private(set) var count = 0

  /// Starts a new run of intervals.
  mutating func removeAll() { count = 0 }

  mutating func append(_ seconds: Double) {
    guard count < Self.capacity else { return }
    intervals[count] = seconds
    states[count] = .kept
    count += 1
  }

  /// Returns interval `index`, and whether it was omitted.
  func interval(_ index: Int) -> (seconds: Double, isLeftOut: Bool) {
    (intervals[index], states[index] == .leftOut)
  }

  /// Corrects the run.
  ///
  /// - Returns: the number of artefacts of each kind.
  mutating func correct() -> ArtefactCounts {
    var counts = ArtefactCounts()
    // With fewer intervals, quartiles are not meaningful.
    guard count >= Self.medianWindow else { return counts }
    for _ in 0..<Self.passes {
      measure()
      let before = counts.total
      pass(&counts)
      if counts.total == before { break }
    }
    return counts
  }

  // MARK: Measures

  private mutating func measure() {
    for index in 0..<count { differences[index] = index > 0 ? intervals[index] - intervals[index - 1] : 0 }
    neighbours.slide(over: intervals, count, width: Self.medianWindow) { medians[$0] = $1.quantile(0.5) }
    for index in 0..<count {
      let distance = intervals[index] - medians[index]
      distances[index] = distance < 0 ? 2 * distance : distance
    }
    neighbours.slide(over: differences, count, width: Self.window) {
      differenceMeasures[$0] = Self.measure($1)
    }
    neighbours.slide(over: distances, count, width: Self.window) { distanceMeasures[$0] = Self.measure($1) }
    for index in 0..<count {
      differences[index] /= differenceMeasures[index]
      distances[index] /= distanceMeasures[index]
    }
  }

  private static func measure(_ window: borrowing OrderedWindow) -> Double {
    max(leastMeasure, scale * (window.quantile(0.75) - window.quantile(0.25)) / 2)
  }

  /// Returns the normalised difference from the previous interval; 0 outside the run.
  private func difference(_ index: Int) -> Double { index > 0 && index < count ? differences[index] : 0 }

  // MARK: Kinds

  /// Checks each interval once, and writes the corrected intervals.
  private mutating func pass(_ counts: inout ArtefactCounts) {
    correctedCount = 0
    var index = 0
    while index < count {
      index += isEctopic(index) ? evenOut(index, &counts.ectopic) : treat(index, &counts)
    }
    swap(&intervals, &corrected)
    swap(&states, &correctedStates)
    count = correctedCount
  }

  /// Returns whether the beat between this interval and the next is ectopic. The two intervals then differ
  /// strongly, and both differ from their other neighbours in the opposite direction.
  private func isEctopic(_ index: Int) -> Bool {
    guard index + 1 < count, states[index] == .kept, states[index + 1] == .kept else { return false }
    let own = difference(index + 1)
    let (before, after) = (difference(index), difference(index + 2))
    if own > 1 { return max(before, after) < -Self.slope * own - Self.intercept }
    if own < -1 { return min(before, after) > -Self.slope * own + Self.intercept }
    return false
  }

  /// Copies or corrects an interval that does not end with an ectopic beat.
  ///
  /// - Returns: the number of input intervals consumed.
  private mutating func treat(_ index: Int, _ counts: inout ArtefactCounts) -> Int {
    let seconds = intervals[index]
    guard states[index] == .kept, isOutlier(index) else {
      write(seconds, states[index])
      return 1
    }
    let (median, measure) = (medians[index], distanceMeasures[index])
    let hasNext = index + 1 < count && states[index + 1] == .kept
    if seconds > median {
      if abs(seconds / 2 - median) < measure {
        counts.missed += 1
        write(seconds / 2, .kept)
        write(seconds / 2, .kept)
        return 1
      }
      if hasNext, distances[index + 1] < -1 { return evenOut(index, &counts.misplaced) }
    } else if hasNext {
      if abs(seconds + intervals[index + 1] - median) < measure {
        counts.extra += 1
        write(seconds + intervals[index + 1], .kept)
        return 2
      }
      if distances[index + 1] > 1 { return evenOut(index, &counts.misplaced) }
    }
    counts.leftOut += 1
    write(seconds, .leftOut)
    return 1
  }

  private func isOutlier(_ index: Int) -> Bool {
    if abs(distances[index]) > 3 { return true }
    let own = difference(index)
    let (next, second) = (difference(index + 1), difference(index + 2))
    return own > 1 && min(next, second) < -1 || own < -1 && max(next, second) > 1
  }

  /// Moves the beat between two intervals to the middle.
  ///
  /// - Returns: the number of input intervals consumed.
  private mutating func evenOut(_ index: Int, _ kind: inout Int) -> Int {
    let mean = (intervals[index] + intervals[index + 1]) / 2
    kind += 1
    write(mean, .kept)
    write(mean, .kept)
    return 2
  }

  private mutating func write(_ seconds: Double, _ state: State) {
    guard correctedCount < Self.capacity else { return }
    corrected[correctedCount] = seconds
    correctedStates[correctedCount] = state
    correctedCount += 1
  }
}

/// Sorted window of values around a position in a series.
private struct OrderedWindow: Sendable {
  private var values: [Double]
  private var count = 0

  init(capacity: Int) { values = [Double](repeating: 0, count: capacity) }

  /// Calls `body` for each of the first `total` positions, with the `width` values around the position. Near
  /// the ends of the series, the window has fewer values.
  mutating func slide(
    over series: [Double], _ total: Int, width: Int, _ body: (Int, borrowing OrderedWindow) -> Void
  ) {
    count = 0
    let half = width / 2
    for index in 0..<min(half, total) { insert(series[index]) }
    for index in 0..<total {
      if index + half < total { insert(series[index + half]) }
      if index > half { remove(series[index - half - 1]) }
      body(index, self)
    }
  }

  /// Returns a quantile by linear interpolation between the two nearest values.
  func quantile(_ share: Double) -> Double {
    let place = share * Double(count - 1)
    let below = Int(place)
    let above = min(below + 1, count - 1)
    return values[below] + (values[above] - values[below]) * (place - Double(below))
  }

  private mutating func insert(_ value: Double) {
    var place = count
    while place > 0, values[place - 1] > value {
      values[place] = values[place - 1]
      place -= 1
    }
    values[place] = value
    count += 1
  }

  private mutating func remove(_ value: Double) {
    var place = 0
    while values[place] != value { place += 1 }
    count -= 1
    while place < count {
      values[place] = values[place + 1]
      place += 1
    }
  }
}
