import BLESensors
import Physiology

/// When the heart of a made-up wearer beats: a formula of time alone.
///
/// Its rate rises and falls evenly each minute, and with it vary breathing (15 a minute, as respiratory sinus arrhythmia
/// does) and a wave of 10 s (as that of the blood pressure does), both as in McSharry, Clifford, Tarassenko, Smith, A
/// Dynamical Model for Generating Synthetic Electrocardiogram Signals, IEEE Trans. Biomed. Eng. 50(3), 289–294, 2003.
public struct HeartRhythm: Hashable, Sendable {
  public static let periodSeconds = 60.0
  public static let breathsPerSecond = 0.25
  public static let slowWavesPerSecond = 0.1

  /// From the lower to the upper one and back each minute; they may be the same.
  public var beatsPerMinute: ClosedRange<Double>
  /// How far breathing and the slow wave raise and lower the rate: shares of its mean, together below a half.
  public var breathingShare = 0.03
  public var slowShare = 0.02
  /// Share of the beats that are premature: 0 … 0.5, where each second one is. The beat after one is where it would be
  /// without, after a compensatory pause; two never follow each other.
  public var ectopicShare = 0.0

  /// An ectopic beat is early by this share of an interval.
  public static let prematurity = 0.35

  /// - Parameter beatsPerMinute: 64 … 80 unless told otherwise.
  public init(beatsPerMinute: ClosedRange<Double> = 64...80) { self.beatsPerMinute = beatsPerMinute }

  /// The mean rate, as a strap shows it: without what differs from beat to beat.
  public func beatsPerMinute(at seconds: Double) -> Double {
    triangle(beatsPerMinute, period: Self.periodSeconds, at: seconds)
  }

  /// When beat `number` has its R wave: seconds. Beat 0 has it at 0.
  public func beat(_ number: Int) -> Double {
    let place = place(number)
    var time = 60 * place / mean
    // Newton's method: the rate differs little from its mean, so this is exact to the last digits.
    for _ in 0..<12 { time -= (phase(at: time) - place) / rate(at: time) }
    return time
  }

  /// Whether beat `number` is premature: one of the odd ones, by a hash of its number.
  public func isEctopic(_ number: Int) -> Bool {
    guard ectopicShare > 0, number > 0, !number.isMultiple(of: 2) else { return false }
    // SplitMix64: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
    var hash = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
    hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
    return Double((hash ^ hash >> 31) >> 11) / Double(1 << 53 as UInt64) < 2 * ectopicShare
  }

  /// The phase at which beat `number` has its R wave.
  func place(_ number: Int) -> Double { Double(number) - (isEctopic(number) ? Self.prematurity : 0) }

  /// Beats since 0; a whole number at each R wave of the sinus rhythm.
  func phase(at seconds: Double) -> Double {
    guard breathingShare + slowShare > 0 else { return meanBeats(until: seconds) / 60 }
    let (breathing, slow) = (Self.breathsPerSecond, Self.slowWavesPerSecond)
    let waves =
      breathingShare * (1 - sineAndCosine(turns: breathing * seconds).cosine) / breathing
      + slowShare * (1 - sineAndCosine(turns: slow * seconds).cosine) / slow
    return (meanBeats(until: seconds) + mean * waves / (2 * .pi)) / 60
  }

  private var mean: Double { (beatsPerMinute.lowerBound + beatsPerMinute.upperBound) / 2 }

  /// Beats a second.
  private func rate(at seconds: Double) -> Double {
    let waves =
      breathingShare * sineAndCosine(turns: Self.breathsPerSecond * seconds).sine
      + slowShare * sineAndCosine(turns: Self.slowWavesPerSecond * seconds).sine
    return (beatsPerMinute(at: seconds) + mean * waves) / 60
  }

  /// The integral of `beatsPerMinute(at:)`, from 0.
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
  /// Of the last beat: 1/1024 s.
  private var latest = 0

  /// Begins anew: the last beat is that at the sensor's time 0, or the one before.
  mutating func restart(_ body: BodyTime = BodyTime()) {
    self.body = body
    beats = Int(rhythm.phase(at: body.seconds(0)).rounded(.down))
    latest = ticks(beats)
  }

  /// By the sensor's clock: 1/1024 s.
  private func ticks(_ beat: Int) -> Int {
    Int((body.own(rhythm.beat(beat)) * RRIntervals.ticksPerSecond).rounded())
  }

  /// Intervals that ended since the last call, in 1/1024 s; rounded so that their sum stays right.
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
