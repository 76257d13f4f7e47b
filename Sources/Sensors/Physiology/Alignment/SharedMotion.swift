/// Finds the lag between two accelerometers on the same body by correlating their movement, window by window.
///
/// The first lag maximises the joint correlation of all windows in the 15 minutes with the most movement. The
/// lags of the other windows are then searched near a line through the known lags. A parabola locates the
/// peak of the correlation between samples (Boucher and Hassab, Analysis of Discrete Implementation of
/// Generalized Cross Correlator, IEEE Trans. Acoust. 29(3), 1981).
struct SharedMotion {
  /// Sample rate of the grids, in hertz.
  private static let rate = 100.0
  /// Decimation factor for the first search, which covers a wide range of lags.
  private static let coarse = 4
  private static let windowSeconds = 20.0
  /// Minimum movement in g, as a root mean square. Weaker signals are sensor noise.
  private static let leastMovement: Float = 0.02
  /// Minimum correlation for all windows together, and for a single window.
  private static let leastLikeness: (all: Float, one: Float) = (0.4, 0.5)
  /// Minimum measured share of a window.
  private static let leastMeasured = 0.9
  /// Maximum number of windows in the first search.
  private static let searched = 40
  /// Length of the period that contains these windows, in seconds.
  private static let stretchSeconds = 900.0
  /// Maximum distance of a window's lag from the line, in seconds.
  private static let nearby = 0.25
  /// Minimum difference between two lags that count as different, in seconds.
  private static let another = 0.15
  /// If the correlation at another lag exceeds this share of the best correlation, the lag is a rival.
  private static let rival: Float = 0.7
  /// Maximum difference between two correlations that count as equal.
  private static let grain: Float = 0.001
  private static let gridLimit = 40_000_000

  private let first: MotionGrid
  private let second: MotionGrid
  private let start: Double
  private let windows: [Int]
  private let window = Int(Self.windowSeconds * Self.rate)

  static func find(
    _ first: MotionSeries, _ second: MotionSeries, within search: Double
  ) throws(SharedEvidence.Refusal) -> SharedEvidence {
    try SharedMotion(first, second, within: search).find(within: search)
  }

  private init(
    _ first: MotionSeries, _ second: MotionSeries, within search: Double
  ) throws(SharedEvidence.Refusal) {
    guard let begin = first.seconds.first, let end = first.seconds.last, let other = second.seconds.first,
      let otherEnd = second.seconds.last
    else { throw .nothing(.movement) }
    let far = search * SharedEvidence.beyond
    start = max(begin, other - far)
    let length = (min(end, otherEnd + far) - start) * Self.rate
    guard length > 0 else { throw .nothing(.movement) }
    let count = min(Int(length), Self.gridLimit)
    let spacing = max(first.spacing, second.spacing)
    self.first = MotionGrid(first, from: start, count: count, rate: Self.rate, spacing: spacing)
    self.second = MotionGrid(second, from: start, count: count, rate: Self.rate, spacing: spacing)
    let grid = self.first
    let size = window
    windows = stride(from: 0, through: count - size, by: size).filter { place in
      Self.measured(grid, place..<place + size)
        && Self.strength(grid, place..<place + size) >= Self.leastMovement
    }
    guard !windows.isEmpty else { throw .nothing(.movement) }
  }

  private static func measured(_ grid: MotionGrid, _ range: Range<Int>) -> Bool {
    Double(range.count { grid.isMeasured[$0] }) >= leastMeasured * Double(range.count)
  }

  private static func strength(_ grid: MotionGrid, _ range: Range<Int>) -> Float {
    (range.reduce(0) { $0 + grid.values[$1] * grid.values[$1] } / Float(range.count)).squareRoot()
  }

  // MARK: The lag

  private func find(within search: Double) throws(SharedEvidence.Refusal) -> SharedEvidence {
    let places = busiest()
    let coarse = try coarseLag(places, within: search)
    var points: [LagLine.Point] = []
    var likenesses: [Double] = []
    func take(_ place: Int, near lag: Double) -> Double? {
      guard let peak = peak(of: place, near: lag, within: Self.nearby) else { return nil }
      let likeness = Double(peak.likeness)
      let middle = start + (Double(place) + Double(window) / 2) / Self.rate
      points.append(
        LagLine.Point(
          seconds: middle, lag: peak.lag, weight: likeness * likeness / max(1e-4, 1 - likeness * likeness)))
      likenesses.append(likeness)
      return peak.lag
    }
    // Start in the period with the most movement and work outwards, because the clocks drift.
    let middle = places[places.count / 2]
    var lag = coarse
    for place in windows where place >= middle { lag = take(place, near: lag) ?? lag }
    lag = points.first?.lag ?? coarse
    for place in windows.reversed() where place < middle { lag = take(place, near: lag) ?? lag }
    guard let line = LagLine(points) else { throw .tooFew(.movement) }
    let seconds = points.map(\.seconds)
    return SharedEvidence(
      kind: .movement, line: line, likeness: median(likenesses),
      range: (seconds.min() ?? 0)...(seconds.max() ?? 0))
  }

  /// Returns the windows of the period with the most movement, in order of time.
  private func busiest() -> [Int] {
    let strengths = windows.map { Self.strength(first, $0..<$0 + window) }
    let length = Int(Self.stretchSeconds * Self.rate)
    var (best, range) = (-1.0 as Float, 0..<1)
    var (end, sum) = (0, 0.0 as Float)
    for begin in windows.indices {
      while end < windows.count, windows[end] - windows[begin] < length {
        sum += strengths[end]
        end += 1
      }
      if sum > best { (best, range) = (sum, begin..<end) }
      sum -= strengths[begin]
    }
    let step = max(1, range.count / Self.searched)
    return stride(from: range.lowerBound, to: range.upperBound, by: step).map { windows[$0] }
  }

  /// Returns the lag with the best joint correlation of the windows, accurate to a few hundredths of a
  /// second.
  private func coarseLag(_ places: [Int], within search: Double) throws(SharedEvidence.Refusal) -> Double {
    let reach = Int(search * SharedEvidence.beyond * Self.rate) / Self.coarse
    let curves = places.map { place in
      (-reach...reach).map { likeness(of: place, at: $0 * Self.coarse, step: Self.coarse) ?? 0 }
    }
    let sums = (0...2 * reach).map { lag in curves.reduce(0) { $0 + $1[lag] } / Float(places.count) }
    guard let best = sums.indices.max(by: { sums[$0] < sums[$1] }) else { throw .nothing(.movement) }
    guard sums[best] >= Self.leastLikeness.all else {
      throw sums[best] == 0 ? .nothing(.movement) : .unlike(.movement)
    }
    let lag = Double((best - reach) * Self.coarse) / Self.rate
    guard abs(lag) <= search else { throw .beyond(.movement, seconds: abs(lag)) }
    let apart = Int(Self.another * Self.rate) / Self.coarse
    let within = sums.indices.filter { Double(abs($0 - reach) * Self.coarse) / Self.rate <= search }
    for other in within where abs(other - best) > apart && sums[other] > Self.rival * sums[best] {
      let better = curves.count { Self.highest($0, near: other) > Self.highest($0, near: best) - Self.grain }
      if Double(better) > SharedEvidence.rivals * Double(curves.count) || curves.count < LagLine.leastPoints {
        throw .ambiguous(.movement, seconds: Double(abs(other - best) * Self.coarse) / Self.rate)
      }
    }
    return lag
  }

  private static func highest(_ curve: [Float], near place: Int) -> Float {
    curve[max(0, place - 1)...min(curve.count - 1, place + 1)].max() ?? 0
  }

  // MARK: Correlation

  /// Returns the correlation of a window of the first series with the second series `lag` samples later;
  /// `nil` if the second series has gaps there.
  private func likeness(of place: Int, at lag: Int, step: Int = 1) -> Float? {
    let begin = place + lag
    guard begin >= 0, begin + window <= second.values.count else { return nil }
    var (product, squares, others) = (0 as Float, 0 as Float, 0 as Float)
    for offset in stride(from: 0, to: window, by: step) {
      let (a, b) = (first.values[place + offset], second.values[begin + offset])
      product += a * b
      squares += a * a
      others += b * b
    }
    let floor = Self.leastMovement * Self.leastMovement * Float(window / step)
    return others >= floor && squares > 0 ? product / (squares * others).squareRoot() : nil
  }

  /// Returns the lag with the highest correlation for a window, in seconds, and the correlation.
  private func peak(of place: Int, near lag: Double, within reach: Double) -> (lag: Double, likeness: Float)?
  {
    let middle = Int((lag * Self.rate).rounded())
    let radius = Int(reach * Self.rate)
    let curve = (middle - radius...middle + radius).map { likeness(of: place, at: $0) ?? 0 }
    guard let best = curve.indices.max(by: { curve[$0] < curve[$1] }), best > 0, best < curve.count - 1,
      curve[best] >= Self.leastLikeness.one,
      Self.measured(second, place + middle - radius + best..<place + middle - radius + best + window)
    else { return nil }
    let (left, top, right) = (Double(curve[best - 1]), Double(curve[best]), Double(curve[best + 1]))
    let bend = left - 2 * top + right
    let between = bend < 0 ? (left - right) / (2 * bend) : 0
    return ((Double(middle - radius + best) + between) / Self.rate, curve[best])
  }
}

extension SharedEvidence {
  /// Finds the second accelerometer's lag from movement that both accelerometers measured.
  ///
  /// - Parameters:
  ///   - first: the reference series.
  ///   - second: a series of the same body.
  ///   - search: maximum offset of the clocks in either direction, in seconds.
  public static func movement(
    _ first: MotionSeries, _ second: MotionSeries, within search: Double = Self.search
  ) throws(Refusal) -> SharedEvidence {
    try SharedMotion.find(first, second, within: search)
  }

  /// Finds the second sensor's lag from heartbeats that both sensors measured.
  ///
  /// - Parameters:
  ///   - first: ascending times of the beats, in seconds.
  ///   - second: ascending times of the beats, in seconds.
  ///   - search: maximum offset of the clocks in either direction, in seconds.
  public static func beats(
    _ first: [Double], _ second: [Double], within search: Double = Self.search
  ) throws(Refusal) -> SharedEvidence {
    try SharedBeats(first, second).find(within: search)
  }

  /// Finds the lag, accurate to a few hundredths of a second, for a sensor that sends only intervals between
  /// beats.
  public static func roughBeats(
    _ first: [Double], _ second: [Double], within search: Double = Self.search
  ) throws(Refusal) -> Double {
    try SharedBeats(first, second).coarseLag(within: search)
  }
}

/// Lag of a second sensor, found from movement or heartbeats that two sensors measured on the same body.
public struct SharedEvidence: Hashable, Sendable {
  /// Kind of shared signal.
  public enum Kind: String, Hashable, Sendable {
    case movement, beats
  }

  /// Reason why no lag was found.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// One of the sensors has no movement or no beats.
    case nothing(Kind)
    /// The signals are not similar at any lag.
    case unlike(Kind)
    /// The signals are almost as similar at another lag, which differs from the best lag by this many
    /// seconds.
    case ambiguous(Kind, seconds: Double)
    /// The signals are more similar at a lag outside the search range, in seconds.
    case beyond(Kind, seconds: Double)
    /// Too few lags agree to fit a line.
    case tooFew(Kind)

    public var description: String {
      switch self {
      case .nothing(.movement): "no movement that both recorded"
      case .nothing(.beats): "no heartbeats that both recorded"
      case .unlike(.movement): "their movements do not match"
      case .unlike(.beats): "their beats are not from one heart"
      case .ambiguous(.movement, let seconds):
        "the movement matches as well \(Self.text(seconds)) s apart: shake both, or clap"
      case .ambiguous(.beats, let seconds):
        "the beats match as well \(Self.text(seconds)) s apart: record for longer"
      case .beyond(let kind, let seconds):
        "the \(kind.rawValue) of both match better with clocks \(Self.text(seconds)) s apart: if that is "
          + "possible, raise --search"
      case .tooFew(let kind): "too few places where their \(kind.rawValue) match"
      }
    }

    private static func text(_ seconds: Double) -> String { "\((seconds * 100).rounded() / 100)" }
  }

  public let kind: Kind
  public let line: LagLine
  /// Similarity, 0 … 1: the median correlation of movement, or the share of beats that both sensors measured.
  public let likeness: Double
  /// Time of the first and of the last lag used, in seconds.
  public let range: ClosedRange<Double>

  /// Default search range: maximum offset of the clocks in either direction, in seconds.
  public static let search = 10.0
  /// Ratio of the tested range to the search range. If the correct lag were not tested, regular movement
  /// might seem to match at a wrong lag.
  static let beyond = 3.0
  /// Maximum share of windows or beats that match better at another lag. Above this share, the result is
  /// ambiguous.
  static let rivals = 0.2
}
