import BLESensors
import Physiology

/// The beat times of a simulated wearer's heart, as a function of time.
///
/// The rate rises and falls linearly each minute. The rate is modulated by breathing (15 per minute, like
/// respiratory sinus arrhythmia) and by a wave with a period of 10 s (like that of the blood pressure). Both
/// modulations follow McSharry, Clifford, Tarassenko, Smith, A Dynamical Model for Generating Synthetic
/// Electrocardiogram Signals, IEEE Trans. Biomed. Eng. 50(3), 289–294, 2003.
public struct HeartRhythm: Hashable, Sendable {
  public static let periodSeconds = 60.0
  public static let breathsPerSecond = 0.25
  public static let slowWavesPerSecond = 0.1

  /// Mean rate in beats per minute. Rises from the lower to the upper bound and falls back each minute; the
  /// bounds may be equal.
  public var beatsPerMinute: ClosedRange<Double>
  /// Amplitude of the modulation by breathing, as a fraction of the mean rate. `slowShare` is the amplitude
  /// of the slow wave. Their sum is below 0.5.
  public var breathingShare = 0.03
  public var slowShare = 0.02
  /// Fraction of premature beats: 0 … 0.5, where 0.5 is every second beat. After a premature beat a
  /// compensatory pause restores the normal times; two premature beats never follow each other.
  public var ectopicShare = 0.0

  /// Time by which an ectopic beat is early, as a fraction of an interval.
  public static let prematurity = 0.35

  /// Creates a rhythm.
  ///
  /// - Parameter beatsPerMinute: the range of the mean rate.
  public init(beatsPerMinute: ClosedRange<Double> = 64...80) { self.beatsPerMinute = beatsPerMinute }

  /// Returns the mean rate in beats per minute, as a strap shows it, without beat-to-beat variation.
  public func beatsPerMinute(at seconds: Double) -> Double {
    triangle(beatsPerMinute, period: Self.periodSeconds, at: seconds)
  }

  /// Returns the time of the R wave of beat `number` in seconds. Beat 0 is at 0.
  public func beat(_ number: Int) -> Double {
    let place = place(number)
    var time = 60 * place / mean
    // Newton's method. The rate is close to its mean, so the result converges to full precision.
    for _ in 0..<12 { time -= (phase(at: time) - place) / rate(at: time) }
    return time
  }

  /// Returns whether beat `number` is premature. A hash of the number selects some of the odd beats.
  public func isEctopic(_ number: Int) -> Bool {
    guard ectopicShare > 0, number > 0, !number.isMultiple(of: 2) else { return false }
    // SplitMix64: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
    var hash = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
    hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
    return Double((hash ^ hash >> 31) >> 11) / Double(1 << 53 as UInt64) < 2 * ectopicShare
  }

  /// Returns the phase at which beat `number` has its R wave, in beats.
  func place(_ number: Int) -> Double { Double(number) - (isEctopic(number) ? Self.prematurity : 0) }

  /// Returns the phase at a time: the number of beats since time 0. The phase is an integer at each R wave of
  /// the sinus rhythm.
  func phase(at seconds: Double) -> Double {
    guard breathingShare + slowShare > 0 else { return meanBeats(until: seconds) / 60 }
    let (breathing, slow) = (Self.breathsPerSecond, Self.slowWavesPerSecond)
    let waves =
      breathingShare * (1 - sineAndCosine(turns: breathing * seconds).cosine) / breathing
      + slowShare * (1 - sineAndCosine(turns: slow * seconds).cosine) / slow
    return (meanBeats(until: seconds) + mean * waves / (2 * .pi)) / 60
  }

  private var mean: Double { (beatsPerMinute.lowerBound + beatsPerMinute.upperBound) / 2 }

  /// Returns the rate in beats per second.
  private func rate(at seconds: Double) -> Double {
    let waves =
      breathingShare * sineAndCosine(turns: Self.breathsPerSecond * seconds).sine
      + slowShare * sineAndCosine(turns: Self.slowWavesPerSecond * seconds).sine
    return (beatsPerMinute(at: seconds) + mean * waves) / 60
  }

  /// Returns the integral of `beatsPerMinute(at:)` from time 0 to a time.
  private func meanBeats(until seconds: Double) -> Double {
    let period = Self.periodSeconds
    let periods = (seconds / period).rounded(.down)
    let rest = seconds - periods * period
    let rise = beatsPerMinute.upperBound - beatsPerMinute.lowerBound
    func rising(_ time: Double) -> Double { beatsPerMinute.lowerBound * time + rise * time * time / period }
    let part = rest <= period / 2 ? rising(rest) : mean * period - rising(period - rest)
    return periods * mean * period + part
  }
}

/// The intervals of a rhythm, as a strap counts them.
struct PulseSignal: Sendable {
  static let secondsPerKilojoule = 6.0

  var rhythm = HeartRhythm()
  private var body = BodyTime()
  private var beats = 0
  /// Time of the last beat in 1/1024 s.
  private var latest = 0

  /// Restarts at the sensor's time 0. The last beat is then the latest beat at or before that time.
  mutating func restart(_ body: BodyTime = BodyTime()) {
    self.body = body
    beats = Int(rhythm.phase(at: body.seconds(0)).rounded(.down))
    latest = ticks(beats)
  }

  /// Returns the time of a beat by the sensor's clock, in 1/1024 s.
  private func ticks(_ beat: Int) -> Int {
    Int((body.own(rhythm.beat(beat)) * RRIntervals.ticksPerSecond).rounded())
  }

  /// Returns the intervals that have ended since the last call, in 1/1024 s. The intervals are rounded in
  /// such a way that their sum is exact.
  mutating func intervals(until seconds: Double) -> [UInt16] {
    var intervals: [UInt16] = []
    while true {
      guard rhythm.beat(beats + 1) <= body.seconds(seconds) else { return intervals }
      beats += 1
      let ticks = ticks(beats)
      intervals.append(UInt16(clamping: ticks - latest))
      latest = ticks
    }
  }
}
