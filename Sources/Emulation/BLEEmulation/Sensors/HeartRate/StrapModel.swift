public import BLESensors
public import BLEStack
public import BLEWire
import Physiology

/// A heart-rate chest strap: Heart Rate Service with control point, Device Information, Battery.
///
/// Heart Rate Service 1.0. Off the body, the strap sends a rate of 0, without contact and without intervals,
/// like real straps.
public struct StrapModel: SensorModel {
  public var name = "ringtap strap"
  public var address = DeviceAddress(bits: 0x70CB_0D00_180D, type: .public)
  public var location = BodySensorLocation.chest
  public var batteryPercent: UInt8 = 84
  /// Measurements to send in a cycle instead of the simulated wearer's measurements.
  public var measurements: [HeartRateMeasurement] = []
  /// Rhythm of the simulated wearer's heart. Starts with the first subscription on a link.
  public var rhythm: HeartRhythm {
    get { pulse.rhythm }
    set { pulse.rhythm = newValue }
  }
  /// Number of times that the energy expended was reset.
  public private(set) var resets = 0

  private var pulse = PulseSignal()
  private(set) var body = BodyTime()
  private var latest = 0.0
  private var energyStart = 0.0

  /// Period, in measurements, at which a measurement contains the energy expended. Heart Rate Service 1.0,
  /// 3.1.1.3: about ten.
  private static let energyEvery = 10
  /// Number of bytes for the flags, an 8-bit rate and the energy.
  private static let fixedByteCount = 4

  public init() {}

  public var services: [GATTServiceDescription] {
    .genericServices(name: name, appearance: 0x0341)
      + [Self.service(location, hasControlPoint: true)]
      + .sensorServices(model: "strap", batteryPercent: batteryPercent)
  }

  static func service(_ location: BodySensorLocation, hasControlPoint: Bool) -> GATTServiceDescription {
    typealias Characteristic = GATTCharacteristicDescription
    return GATTServiceDescription(
      .heartRate,
      characteristics: [
        Characteristic(.heartRateMeasurement, .notify),
        Characteristic(.bodySensorLocation, .read, value: [location.rawValue]),
      ] + (hasControlPoint ? [Characteristic(.heartRateControlPoint, .write, maximumByteCount: 1)] : []))
  }

  public var advertisingData: [UInt8] { advertisement(of: [0x180D]) }

  public func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode? {
    guard characteristic == .heartRateControlPoint else { return nil }
    guard value.count == 1 else { return .invalidAttributeValueLength }
    return HeartRateCommand(rawValue: value[0]) == .resetEnergyExpended
      ? nil : ATTErrorCode(rawValue: HeartRateCommand.controlPointNotSupported)
  }

  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] {
    if characteristic == .heartRateControlPoint {
      resets += 1
      energyStart = latest
    }
    return []
  }

  public mutating func connected() {
    pulse.restart()
    (latest, energyStart) = (0, 0)
  }

  public mutating func begin(_ body: BodyTime) {
    self.body = body
    pulse.restart(body)
  }

  public mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    [SensorValue(.heartRateMeasurement, measurement(tick).octets)]
  }

  mutating func measurement(_ tick: SensorTick) -> HeartRateMeasurement {
    latest = tick.seconds
    var beats = pulse.intervals(until: tick.seconds)
    if !measurements.isEmpty { return measurements[tick.number % measurements.count] }
    guard !tick.isOffBody else { return HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected) }
    // If there is not enough room, drop the oldest intervals: Heart Rate Service 1.0, 3.1.1.
    let room = min((tick.valueByteCount - Self.fixedByteCount) / 2, RRIntervals.capacity)
    beats = beats.suffix(room)
    let energy =
      (tick.number + 1).isMultiple(of: Self.energyEvery)
      ? UInt16(clamping: Int((latest - energyStart) / PulseSignal.secondsPerKilojoule)) : nil
    return HeartRateMeasurement(
      beatsPerMinute: UInt16(rhythm.beatsPerMinute(at: body.seconds(tick.seconds)).rounded()),
      contact: .detected,
      energyExpendedKilojoules: energy, rrIntervals: RRIntervals(beats))
  }

  /// Returns a value whose flags announce a 16-bit rate and the energy, but with only one byte after the
  /// flags.
  public func malformed(_ value: SensorValue) -> [UInt8] {
    let flags: HeartRateMeasurement.Flags = [.rateIs16Bit, .hasEnergyExpended]
    return [flags.rawValue, value.octets.count > 1 ? value.octets[1] : 0]
  }
}

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
