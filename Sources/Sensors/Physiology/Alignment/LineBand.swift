/// All straight lines that lie above one set of points and below another.
///
/// Such a line describes the lateness of a clock. The points are known bounds: a sample cannot arrive before
/// it was measured, and waits at most one connection interval unless a packet was lost. The range of the
/// lines is the uncertainty. It requires no assumption about the distribution of the waits.
public struct LineBand: Hashable, Sendable {
  /// Bound on the lines at one time. Time and value are in seconds.
  public struct Bound: Hashable, Sendable, BitwiseCopyable {
    public var seconds: Double
    public var value: Double

    public init(seconds: Double, value: Double) { (self.seconds, self.value) = (seconds, value) }
  }

  /// Corners of the set of possible lines. Each corner is a level at `center` and a slope.
  private let corners: [(level: Double, slope: Double)]
  private let center: Double
  /// Amount by which the bounds were widened so that a line fits, in seconds.
  public let slack: Double

  public static func == (a: LineBand, b: LineBand) -> Bool {
    a.center == b.center && a.slack == b.slack
      && a.corners.elementsEqual(b.corners) { $0.level == $1.level && $0.slope == $1.slope }
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(center)
    hasher.combine(corners.count)
  }

  /// Number of time blocks. Only the strictest bounds of each block are used.
  private static let blocks = 40
  /// Maximum slope: the difference between two crystals. Core 5.4, Vol 6, Part B, 4.2.2, permits 500 ppm for
  /// each.
  private static let steepest = 1e-3
  private static let slacks = [0, 0.000_2, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032]

  /// Computes the lines.
  ///
  /// - Parameters:
  ///   - above: lower bounds of the lines.
  ///   - below: upper bounds of the lines.
  /// - Returns: `nil` if no line fits, or if there are no bounds above or below.
  public init?(above: [Bound], below: [Bound]) {
    guard let first = (above + below).map(\.seconds).min(), let last = (above + below).map(\.seconds).max(),
      !above.isEmpty, !below.isEmpty
    else { return nil }
    let center = (first + last) / 2
    let low = Self.strictest(above, first, last) { $0 > $1 }
    let high = Self.strictest(below, first, last) { $0 < $1 }
    for slack in Self.slacks {
      let corners = Self.corners(
        low.map { ($0.seconds - center, $0.value - slack) },
        high.map { ($0.seconds - center, $0.value + slack) })
      guard !corners.isEmpty else { continue }
      (self.corners, self.center, self.slack) = (corners, center, slack)
      return
    }
    return nil
  }

  private static func strictest(
    _ bounds: [Bound], _ first: Double, _ last: Double, _ isStricter: (Double, Double) -> Bool
  ) -> [Bound] {
    var best = [Bound?](repeating: nil, count: blocks)
    for bound in bounds {
      let share = last > first ? (bound.seconds - first) / (last - first) : 0
      let block = min(blocks - 1, Int(share * Double(blocks)))
      if let known = best[block], !isStricter(bound.value, known.value) { continue }
      best[block] = bound
    }
    return best.compactMap { $0 }
  }

  /// Returns the corners of the polygon of possible levels and slopes: the intersections of two bounds that
  /// satisfy all other bounds.
  private static func corners(
    _ low: [(time: Double, value: Double)], _ high: [(time: Double, value: Double)]
  ) -> [(level: Double, slope: Double)] {
    func isPossible(_ level: Double, _ slope: Double) -> Bool {
      low.allSatisfy { level + slope * $0.time >= $0.value - 1e-9 }
        && high.allSatisfy { level + slope * $0.time <= $0.value + 1e-9 }
    }
    var corners: [(level: Double, slope: Double)] = []
    let all = low + high
    for (index, a) in all.enumerated() {
      for slope in [-steepest, steepest] where isPossible(a.value - slope * a.time, slope) {
        corners.append((a.value - slope * a.time, slope))
      }
      for b in all[(index + 1)...] where b.time != a.time {
        let slope = (b.value - a.value) / (b.time - a.time)
        let level = a.value - slope * a.time
        if abs(slope) <= steepest, isPossible(level, slope) { corners.append((level, slope)) }
      }
    }
    return corners
  }

  /// Returns the range of the lines at a given time, in seconds.
  public func range(at seconds: Double) -> ClosedRange<Double> {
    let values = corners.map { $0.level + $0.slope * (seconds - center) }
    return (values.min() ?? 0)...(values.max() ?? 0)
  }

  /// Range of the slopes, in seconds per second.
  public var slopes: ClosedRange<Double> {
    let slopes = corners.map(\.slope)
    return (slopes.min() ?? 0)...(slopes.max() ?? 0)
  }
}
