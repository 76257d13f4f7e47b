/// Fits the sensor's clock to kernel stamps: a line through (tick number, stamp), by least squares with exponential
/// forgetting, in constant memory.
///
/// Stamps are late, never early: a tick waits for the next connection event, for retransmissions, for the host. So
/// the squares are not weighted alike (asymmetric least squares, Newey and Powell, Econometrica 55, 1987: an
/// expectile): a stamp later than the line weighs a tenth of an early one, and one that is late by more than the
/// usual lateness yet less, by the square of that ratio. The line lies near the earliest stamps.
///
/// What it cannot know is the smallest delay of all, from the sensor to the kernel: the whole line may be late by
/// that. A clock that changes its pace is followed with a memory of `memorySeconds`.
public struct ClockFit: Sendable {
  /// How far back the fit looks: seconds, but never less than `minimumMemory` ticks.
  public static let memorySeconds = 60.0
  public static let minimumMemory = 256.0
  private static let lateWeight = 0.1
  /// What the first guess of the offset is worth, in ticks.
  private static let priorWeight = 2.0

  /// The stamp that the line expects of tick `index`: nanoseconds after `origin`.
  private var offset: Double
  private var index: Int
  /// Nanoseconds from tick to tick.
  public private(set) var period: Double
  private let origin: Int64
  private let forgetting: Double
  /// Sums of weights, of weight × distance and weight × distance² to `index`. The sums with residuals stay zero:
  /// the line is the solution of the normal equations after each step.
  private var weight: Double
  private var first: Double
  private var second: Double
  /// Usual lateness: nanoseconds.
  private var lateness: Double

  /// - Parameters:
  ///   - index: number of the first tick.
  ///   - time: its stamp in nanoseconds.
  ///   - period: a first guess in nanoseconds, above 0.
  ///   - guessTicks: of how many ticks that is a guess.
  public init(index: Int, time: Int64, period: Double, guessTicks: Int) {
    self.index = index
    self.period = period
    origin = time
    offset = 0
    forgetting = 1 - 1 / max(Self.minimumMemory, Self.memorySeconds * 1e9 / period)
    weight = Self.priorWeight
    first = 0
    // The sum of squared distances of so many ticks to their middle, at the weight of late ones: the guess resists as
    // the fit would that had seen them.
    let ticks = Double(guessTicks)
    second = max(Self.priorWeight * 400, Self.lateWeight * ticks * ticks * ticks / 12)
    lateness = period / 4
  }

  /// When tick `index` arrives if it is not late: nanoseconds, on the clock of the stamps.
  public func time(of index: Int) -> Int64 { origin + Int64(expected(index).rounded()) }

  /// How much later than the line a stamp is: nanoseconds, below zero where it is early.
  public func lateness(of time: Int64, at index: Int) -> Double {
    Double(time - origin) - expected(index)
  }

  private func expected(_ index: Int) -> Double { offset + period * Double(index - self.index) }

  /// Takes the stamp of a tick into account. Numbers must not fall.
  ///
  /// - Returns: by how much the line moved there: nanoseconds, above zero to later times.
  @discardableResult public mutating func take(_ time: Int64, at index: Int) -> Double {
    let error = lateness(of: time, at: index)
    move(to: index)
    let share = error > 0 ? Self.weight(late: error, usually: lateness) : 1
    weight += share
    let determinant = weight * second - first * first
    let shift = determinant > 0 ? second * share * error / determinant : 0
    if determinant > 0 {
      offset += shift
      // Stamps that stand still or run backwards must not turn the clock round.
      period = max(1, period - first * share * error / determinant)
    }
    lateness += 0.02 * (min(abs(error), 8 * lateness + 1_000) - lateness)
    return shift
  }

  private static func weight(late error: Double, usually usual: Double) -> Double {
    guard error > 3 * usual else { return lateWeight }
    let ratio = 3 * usual / error
    return lateWeight * ratio * ratio
  }

  /// Measures distances from another tick, and forgets a little.
  private mutating func move(to index: Int) {
    let step = Double(index - self.index)
    offset = expected(index)
    self.index = index
    second += step * (step * weight - 2 * first)
    first -= step * weight
    weight *= forgetting
    first *= forgetting
    second *= forgetting
  }
}
