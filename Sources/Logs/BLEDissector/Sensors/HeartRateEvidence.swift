import BLESensors
import BLEWire

/// Determines whether the notified values of one attribute can only be heart rates.
///
/// Each value must have the length that its flags indicate, the same layout of the rate as the other values,
/// and a physiologically possible rate, energy and intervals. A single value that does not fit excludes the
/// attribute permanently. Intervals that agree with the rate are sufficient evidence. Without intervals, the
/// rates must change like a heart rate, because a counter, an oxygen saturation or a temperature in tenths of
/// a degree also fits the two bytes of a plain heart rate. In case of doubt, the attribute is rejected.
struct HeartRateEvidence {
  private static let fewestValues = 8
  /// Possible rates in beats per minute. A sensor without contact sends 0.
  private static let rates = 25...240
  /// Maximum change between consecutive values without a pause.
  private static let largestStep = 40
  private static let largestMeanStep = 8
  /// Time between two values that counts as a pause, in nanoseconds.
  private static let pause: Int64 = 10_000_000_000
  /// Accepted average interval between values, in nanoseconds.
  private static let spacing: ClosedRange<Int64> = 500_000_000...3_000_000_000
  /// Possible RR intervals, in units of 1/1024 s.
  private static let intervalTicks: ClosedRange<UInt16> = 200...3_000
  /// Allowed ratio, for one value, of the rate computed from the intervals to the reported rate, which is an
  /// average.
  private static let agreement = 0.5...2.0
  /// The allowed ratio for all values together.
  private static let meanAgreement = 0.7...1.4
  /// Maximum increase of the energy in kilojoules per second: twice the power of an athlete.
  private static let mostPower = 4.0
  /// Range of rates that could also be oxygen saturations in percent.
  private static let saturation = 88...100
  /// Maximum mean rate without further evidence, because room temperatures in tenths of a degree are higher.
  private static let mostMeanRate = 180
  /// Minimum frequency of changes without further evidence: one change in this many steps. Temperatures and
  /// percentages change less often.
  private static let stepsForAChange = 5

  private var isRefuted = false
  private var values = 0
  private var lastTime: ReceiveTime?
  private var firstTime: ReceiveTime?
  /// Sum in nanoseconds, and number, of the intervals between values without pauses.
  private var spacings: (sum: Int64, count: Int64) = (0, 0)
  /// Format of the rate, and support for contact detection. The format and the support are constant for a
  /// sensor.
  private var layout: HeartRateMeasurement.Flags?

  /// Number of values with skin contact.
  private var contacts = 0

  private var rateCount = 0
  private var rateSum = 0
  private var lowest = Int.max
  private var highest = 0
  private var last: (rate: Int, time: ReceiveTime)?
  private var steps: (rises: Int, falls: Int, count: Int, sum: Int) = (0, 0, 0, 0)

  private var energy: (kilojoules: UInt16, time: ReceiveTime)?
  /// Number of all RR intervals, and their sum in units of 1/1024 s.
  private var intervals: (count: Int, ticks: Int) = (0, 0)
  /// Values with RR intervals: number of values, sum of their rates, and number of values whose rate
  /// disagrees with the intervals.
  private var beside: (values: Int, rateSum: Int, disagreements: Int) = (0, 0, 0)

  /// Checks a value.
  ///
  /// - Parameter value: the value of a notification; `nil` for any other operation on the attribute. Heart
  ///   Rate Measurement can only be notified (Heart Rate Service 1.0, 3.1), so `nil` excludes the attribute.
  mutating func take(_ value: Span<UInt8>?, at time: ReceiveTime) {
    guard !isRefuted else { return }
    guard let value, let measurement = Self.measurement(value) else { return isRefuted = true }
    values += 1
    firstTime = firstTime ?? time
    if let lastTime {
      let step = (time - lastTime).nanoseconds
      if (0..<Self.pause).contains(step) { spacings = (spacings.sum + step, spacings.count + 1) }
    }
    lastTime = time
    if measurement.contact == .detected { contacts += 1 }
    let flags = measurement.flags.intersection([.rateIs16Bit, .contactSupported])
    isRefuted =
      flags != layout ?? flags || !takeRate(Int(measurement.beatsPerMinute), at: time)
      || !takeEnergy(measurement.energyExpendedKilojoules, at: time)
      || !takeIntervals(of: measurement, at: time)
    layout = flags
  }

  /// Returns the measurement; `nil` if the length does not match the flags, or if a reserved flag is set.
  private static func measurement(_ value: Span<UInt8>) -> HeartRateMeasurement? {
    guard value.count >= 2, value[0] & 0xE0 == 0,
      let measurement = try? HeartRateMeasurement(decoding: value),
      measurement.trailingByteCount == 0
    else { return nil }
    return measurement
  }

  private mutating func takeRate(_ rate: Int, at time: ReceiveTime) -> Bool {
    guard rate > 0 else { return true }
    guard Self.rates.contains(rate) else { return false }
    rateCount += 1
    rateSum += rate
    (lowest, highest) = (min(lowest, rate), max(highest, rate))
    defer { last = (rate, time) }
    guard let last, (time - last.time).nanoseconds < Self.pause else { return true }
    let step = rate - last.rate
    steps.count += 1
    steps.sum += abs(step)
    if step > 0 { steps.rises += 1 }
    if step < 0 { steps.falls += 1 }
    return abs(step) <= Self.largestStep
  }

  /// Checks the energy, a counter that may be reset to 0.
  private mutating func takeEnergy(_ kilojoules: UInt16?, at time: ReceiveTime) -> Bool {
    guard let kilojoules else { return true }
    defer { energy = (kilojoules, time) }
    guard let energy else { return true }
    let most = 5 + Self.mostPower * max(0, (time - energy.time).seconds)
    guard kilojoules >= energy.kilojoules else { return Double(kilojoules) <= most }
    return Double(kilojoules - energy.kilojoules) <= most
  }

  private mutating func takeIntervals(of measurement: HeartRateMeasurement, at time: ReceiveTime) -> Bool {
    let found = measurement.rrIntervals
    guard found.count > 0 else { return true }
    var sum = 0
    for index in found.indices {
      guard Self.intervalTicks.contains(found[index]) else { return false }
      sum += Int(found[index])
    }
    intervals = (intervals.count + found.count, intervals.ticks + sum)
    // The total duration of the intervals cannot exceed the elapsed time.
    guard let firstTime, Double(intervals.ticks) / 1024 <= (time - firstTime).seconds * 1.1 + 10 else {
      return false
    }
    let rate = Int(measurement.beatsPerMinute)
    guard rate > 0 else { return true }
    beside.values += 1
    beside.rateSum += rate
    let told = 60 * 1024 * Double(found.count) / Double(sum)
    if !Self.agreement.contains(told / Double(rate)) { beside.disagreements += 1 }
    return true
  }

  var isProven: Bool {
    guard !isRefuted, values >= Self.fewestValues, rateCount * 2 >= values, spacings.count > 0,
      Self.spacing.contains(spacings.sum / spacings.count), steps.sum <= Self.largestMeanStep * steps.count
    else { return false }
    if beside.values > 0 {
      let told = 60 * 1024 * Double(intervals.count) / Double(intervals.ticks)
      let mean = Double(beside.rateSum) / Double(beside.values)
      guard beside.disagreements * 10 <= beside.values, Self.meanAgreement.contains(told / mean) else {
        return false
      }
      if beside.values * 2 >= rateCount { return true }
    }
    let changes = steps.rises + steps.falls
    guard changes > 0 else { return false }
    // Set contact flags are stronger evidence than unset contact flags.
    if contacts * 2 >= values { return true }
    // A counter changes with each value, always in the same direction.
    let isCounter = (steps.rises == 0 || steps.falls == 0) && changes * 10 >= steps.count * 9
    if layout?.contains(.contactSupported) ?? false || energy != nil { return !isCounter }
    return steps.rises > 0 && steps.falls > 0 && highest - lowest >= 3
      && !(Self.saturation.contains(lowest) && Self.saturation.contains(highest))
      && rateSum <= Self.mostMeanRate * rateCount && changes * Self.stepsForAChange >= steps.count
  }
}
