public import ColmiRing

/// A ring's stored data of a simulated wearer. The same seed and day give the same data, whatever the order
/// of requests.
///
/// Days start at midnight of the ring's clock. The data of today ends at the ring's time.
public struct RingHistory: Hashable, Sendable {
  /// Number of stored days, including today.
  public var dayCount: Int
  public var seed: UInt64

  public init(dayCount: Int = 7, seed: UInt64 = 1) {
    precondition(1...31 ~= dayCount)
    self.dayCount = dayCount
    self.seed = seed
  }

  /// A record of the activity log, which has one per hour.
  public struct Activity: Hashable, Sendable {
    public let hour: Int
    public let steps: UInt16
    public let distanceMeters: UInt16
    /// Energy, in units of ten small calories.
    public let calories: UInt16
  }

  /// Heart rate in beats per minute, every five minutes; 0 if the wearer moved too much.
  public func heartRates(_ date: RingDate) -> [UInt8] {
    (0..<288).map { slot in
      number(date, .heartRate, slot, 20) == 0 ? 0 : UInt8(58 + number(date, .heartRate, slot + 1000, 40))
    }
  }

  /// Stress level, 0 … 100, every half hour.
  public func stress(_ date: RingDate) -> [UInt8] {
    (0..<48).map { UInt8(20 + number(date, .stress, $0, 40)) }
  }

  /// Heart rate variability in milliseconds, at full hours only, as in an RT11CR.
  public func heartRateVariability(_ date: RingDate) -> [UInt8] {
    (0..<48).map { $0.isMultiple(of: 2) ? UInt8(30 + number(date, .variability, $0, 30)) : 0 }
  }

  /// Activity per hour. Hours without a step are left out.
  public func activity(_ date: RingDate) -> [Activity] {
    (7..<22).compactMap { hour in
      let steps = number(date, .activity, hour, 900)
      guard steps >= 100 else { return nil }
      return Activity(
        hour: hour, steps: UInt16(steps), distanceMeters: UInt16(steps * 7 / 10),
        calories: UInt16(steps * 29 / 10))
    }
  }

  /// Oxygen saturation in percent, every hour.
  public func oxygen(_ date: RingDate) -> [UInt8] {
    (0..<24).map { UInt8(95 + number(date, .oxygen, $0, 5)) }
  }

  /// Temperature in tenths of a degree Celsius, every half hour.
  public func temperatures(_ date: RingDate) -> [Int] {
    (0..<48).map { 340 + number(date, .temperature, $0, 25) }
  }

  /// The night that ended on this day: its start in minutes from midnight, and its stages.
  public func night(_ date: RingDate) -> (startMinute: Int, stages: [RingSleep.Span]) {
    let stages: [RingSleep.Stage] = [.light, .deep, .light, .rapidEyeMovement, .light, .awake, .light]
    let spans = stages.indices.map { index in
      RingSleep.Span(stage: stages[index], minutes: UInt8(20 + number(date, .sleep, index, 40)))
    }
    return (number(date, .sleep, 100, 60) - 40, spans)
  }

  /// The one manual measurement of a day: minute of the day and beats per minute.
  public func manualHeartRate(_ date: RingDate) -> (minute: Int, beatsPerMinute: UInt8) {
    (number(date, .manual, 0, 1440), UInt8(60 + number(date, .manual, 1, 40)))
  }

  private enum Kind: UInt64 {
    case heartRate = 1
    case stress, variability, activity, oxygen, temperature, sleep, manual
  }

  /// A pseudorandom number in 0 … bound − 1 (splitmix64).
  private func number(_ date: RingDate, _ kind: Kind, _ index: Int, _ bound: Int) -> Int {
    var state = seed &* 0x9E37_79B9_7F4A_7C15
    for part in [UInt64(date.timestamp / 86_400), kind.rawValue, UInt64(index)] {
      state = (state ^ part) &+ 0x9E37_79B9_7F4A_7C15
      state = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
      state = (state ^ state >> 27) &* 0x94D0_49BB_1331_11EB
      state ^= state >> 31
    }
    return Int(state % UInt64(bound))
  }
}
