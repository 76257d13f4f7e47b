public import BLEWire

/// Reason why a 32 s window has no breathing rate.
public enum RespirationAbsence: String, Hashable, Sendable, CaseIterable {
  /// No rate between 8 and 45 breaths per minute has enough of the baseline's power.
  case noRhythm
  /// The window eight seconds earlier, or the last window that does not overlap with this one, has a
  /// different rate or no rate.
  case unsteady

  /// Short description of the reason.
  public var words: String {
    switch self {
    case .noRhythm: "no rhythm stands out"
    case .unsteady: "no steady rhythm"
    }
  }
}

/// Breathing rate in a 32 s window of a pulse at rest. Windows start every eight seconds.
public struct RespirationWindow: Hashable, Sendable {
  public static let seconds = 32.0
  public static let stepSeconds = 8.0

  /// Start time, on the sensor's clock.
  public var start: ReceiveTime
  /// End time, on the sensor's clock.
  public var end: ReceiveTime
  /// Breathing rate; `nil` exactly if `absence` is set.
  public var breathsPerMinute: Double?
  public var absence: RespirationAbsence?
  /// Share of the spectral power within 3 breaths per minute of the rate, 0 … 1. The power at each frequency
  /// is multiplied by the frequency.
  public var concentration: Double
}

/// Measures the breathing rate at rest from reflected light. The mean of the light over a beat rises and
/// falls with each breath. Memory is allocated only in the initializer.
///
/// Breathing modulates the light's baseline, its amplitude and the intervals (Karlen et al., Multiparameter
/// Respiratory Rate Estimation From the Photoplethysmogram, IEEE Trans. Biomed. Eng. 60(7), 2013; Charlton et
/// al., An assessment of algorithms to estimate respiratory rate, Physiol. Meas. 37(4), 2016). Only the
/// baseline is used. Combining it with amplitude and intervals, as published, made the rate less accurate.
/// The baseline is the mean of the light between two beats, so it does not contain the pulse. The baseline's
/// power spectrum over `RespirationWindow.seconds`, with a Hann window, is multiplied by the frequency,
/// because slow drifts have more power. A rate is reported if enough of the power is near the rate and two
/// earlier windows have the same rate: the previous window, and the last window that does not overlap.
/// Overlapping windows alone prove little, because a randomly varying baseline often has the same rate in
/// both.
///
/// Limits: 8 to 45 breaths per minute, at rest, with good beats throughout. After three seconds without a
/// good beat, a new window starts. The rate is an optical estimate, not medical advice.
public struct RespirationMeter: Sendable {
  /// Range of rates, in breaths per minute.
  public static let rates = 8...45
  public static let leastConcentration = 0.62
  /// Maximum difference between the rate and the rates of earlier windows, in breaths per minute.
  public static let largestChange = 2.0
  /// Maximum time between two accepted beats in a window, in seconds.
  public static let longestInterval = 3.0
  /// Sample rate of the resampled baseline, in samples per second.
  private static let pointRate = 4.0
  private static let points = Int(RespirationWindow.seconds * pointRate)
  /// Half width of a spectral line around the rate, in breaths per minute.
  private static let lineWidth = 3
  /// Maximum number of accepted beats in a window plus one step, at 250 beats per minute.
  private static let capacity = 256

  /// Midpoint of each beat interval, in seconds since `start`.
  private var times = [Double](repeating: 0, count: capacity)
  /// Mean light of each beat interval, in sensor counts.
  private var levels = [Double](repeating: 0, count: capacity)
  private var count = 0
  private var start: ReceiveTime?
  private var lastTime = ReceiveTime(nanoseconds: 0)
  /// Rates of the last windows, oldest first. The oldest window does not overlap with the next window.
  private var earlierRates = [Double?](
    repeating: nil, count: Int(RespirationWindow.seconds / RespirationWindow.stepSeconds))
  private var signal = [Double](repeating: 0, count: points)
  private var power = [Double](repeating: 0, count: rates.count)
  private let taper: [Double]

  public init() {
    taper = (0..<Self.points).map { index in
      let sine = sineAndCosine(.pi * (Double(index) + 0.5) / Double(Self.points)).sine
      return sine * sine
    }
  }

  /// Processes the next beat of a `PulseMeter`.
  ///
  /// - Returns: the window, if this beat completes a window.
  public mutating func take(_ beat: PulseBeat) -> RespirationWindow? {
    guard beat.isAccepted, let interval = beat.interval, let level = beat.level else { return nil }
    let isNear =
      abs(TimeSpan(from: lastTime.nanoseconds, to: beat.time.nanoseconds).seconds) <= Self.longestInterval
    if start == nil || !isNear || count == Self.capacity {
      (start, count) = (beat.time, 0)
      for index in earlierRates.indices { earlierRates[index] = nil }
    }
    lastTime = beat.time
    guard let start else { return nil }
    let time = TimeSpan(from: start.nanoseconds, to: beat.time.nanoseconds).seconds
    times[count] = time - interval / 2
    levels[count] = level
    count += 1
    return time >= RespirationWindow.seconds ? close(start) : nil
  }

  private mutating func close(_ start: ReceiveTime) -> RespirationWindow {
    resample()
    let found = strongest()
    var window = RespirationWindow(
      start: start,
      end: ReceiveTime(nanoseconds: start.nanoseconds &+ Int64(RespirationWindow.seconds * 1e9)),
      concentration: found?.concentration ?? 0)
    if let found, found.concentration >= Self.leastConcentration {
      if isNear(earlierRates[earlierRates.count - 1], found.rate), isNear(earlierRates[0], found.rate) {
        window.breathsPerMinute = found.rate
      } else {
        window.absence = .unsteady
      }
    } else {
      window.absence = .noRhythm
    }
    for index in 1..<earlierRates.count { earlierRates[index - 1] = earlierRates[index] }
    earlierRates[earlierRates.count - 1] = found?.rate
    advance(start)
    return window
  }

  private func isNear(_ earlier: Double?, _ rate: Double) -> Bool {
    earlier.map { abs($0 - rate) <= Self.largestChange } ?? false
  }

  /// Moves the start by one step.
  private mutating func advance(_ start: ReceiveTime) {
    self.start = ReceiveTime(nanoseconds: start.nanoseconds &+ Int64(RespirationWindow.stepSeconds * 1e9))
    var kept = 0
    for index in 0..<count {
      times[index] -= RespirationWindow.stepSeconds
      // Interpolation at the start needs the previous beat.
      if times[index] >= -Self.longestInterval {
        (times[kept], levels[kept]) = (times[index], levels[index])
        kept += 1
      }
    }
    count = kept
  }

  /// Resamples the baseline at a constant rate and subtracts its least-squares parabola.
  private mutating func resample() {
    var beat = 0
    for index in signal.indices {
      let time = Double(index) / Self.pointRate
      while beat + 2 < count, times[beat + 1] < time { beat += 1 }
      let span = max(times[beat + 1] - times[beat], 1e-3)
      let share = max(0, min(1, (time - times[beat]) / span))
      signal[index] = levels[beat] + (levels[beat + 1] - levels[beat]) * share
    }
    // Orthogonal polynomials on evenly spaced points around the middle: 1, u, and u² minus its mean.
    let middle = Double(Self.points - 1) / 2
    let square = (Double(Self.points * Self.points) - 1) / 12
    for degree in 0..<3 {
      var (sum, norm) = (0.0, 0.0)
      for index in signal.indices {
        let shape = Self.shape(Double(index) - middle, degree, square)
        sum += shape * signal[index]
        norm += shape * shape
      }
      for index in signal.indices {
        signal[index] -= sum / norm * Self.shape(Double(index) - middle, degree, square)
      }
    }
  }

  private static func shape(_ u: Double, _ degree: Int, _ square: Double) -> Double {
    switch degree {
    case 0: 1
    case 1: u
    default: u * u - square
    }
  }

  /// Returns the rate with the most power, and the share of the power near this rate; `nil` if the rate is at
  /// an end of the band or the baseline is constant.
  private mutating func strongest() -> (rate: Double, concentration: Double)? {
    var (best, total) = (0, 0.0)
    for index in power.indices {
      let rate = Self.rates.lowerBound + index
      let turn = 2 * sineAndCosine(2 * .pi * Double(rate) / 60 / Self.pointRate).cosine
      var (last, before) = (0.0, 0.0)
      for place in signal.indices {
        (last, before) = (turn * last + (taper[place] * signal[place] - before), last)
      }
      power[index] = max(0, last * last + before * before - turn * last * before) * Double(rate)
      total += power[index]
      if power[index] > power[best] { best = index }
    }
    guard total > 0, best > 0, best < power.count - 1 else { return nil }
    var line = 0.0
    for index in max(0, best - Self.lineWidth)..<min(power.count, best + Self.lineWidth + 1) {
      line += power[index]
    }
    let (low, here, high) = (power[best - 1], power[best], power[best + 1])
    let bend = low - 2 * here + high
    let shift = bend < 0 ? max(-0.5, min(0.5, 0.5 * (low - high) / bend)) : 0
    return (Double(Self.rates.lowerBound + best) + shift, line / total)
  }
}
