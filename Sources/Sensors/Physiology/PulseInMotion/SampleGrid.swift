import BLEWire

/// A sample of the 25 Hz grid: filtered light in counts and acceleration in g.
struct GridSample {
  var light = 0.0
  var x = 0.0
  var y = 0.0
  var z = 0.0
  /// Time of the sample by the sensor's clock, in nanoseconds.
  var time: Int64 = 0
  /// Whether the sample was measured, or why not.
  var origin = Origin.measured
  var hasAcceleration = false

  enum Origin { case measured, bridged, missing, unsettled }
}

/// Resamples a stream of any rate to 25 samples per second: a band-pass filter of 0.5 … 5 Hz at the stream's
/// own rate, then linear interpolation. The filter leaves nothing above 5 Hz that could alias.
///
/// Samples that are missing or have no light are bridged by a straight line. A single gap of at most
/// `bridgeSeconds` does not affect a pulse; samples in a longer gap are `missing`. Light that exceeds
/// `largestCrest` times its usual size, for example because the sensor slips on the skin, is clipped. After a
/// jump, for example because the sensor is lifted, the filter restarts at the new level. The light is then
/// `unsettled` until it has been near its usual size for a second.
struct SampleGrid {
  static let rate = 25.0
  static let band = 0.5...5.0
  static let bridgeSeconds = 0.2
  /// Maximum duration of a gap. After a longer one, the grid starts again.
  static let longestGapSeconds = 10.0
  /// Level above which light is clipped, as a multiple of its root mean square.
  static let largestCrest = 3.0
  /// Approximate number of samples that the root mean square covers.
  static let usualSamples = 200.0
  /// Number of samples after which clipping starts.
  static let leastSamples = 50.0
  /// Minimum size of a jump, as a multiple of the root mean square of the light or of the steps between
  /// samples, whichever is larger.
  static let jumpCrest = 12.0
  static let settlingSeconds = 1.0
  /// Range of settled light, as multiples of the usual size.
  static let settledSize = 0.2...3
  /// Maximum duration of settling after a jump. If the light is still outside `settledSize` then, its usual
  /// size is measured anew.
  static let longestSettlingSeconds = 6.0

  private let rate: Double
  /// Number of stream samples per sample of the grid.
  private let spacing: Double
  private var light: BandPass
  private var axes: InlineArray<3, BandPass>
  /// The last sample, as measured, and its number; `nil` before the first.
  private var last: (index: Int, light: Double, acceleration: Acceleration, time: Int64)?
  private var hasAcceleration = false
  /// Filtered values one step before the last sample.
  private var before = GridSample()
  /// Filtered values at the last sample.
  private var current = GridSample()
  /// Position of the next sample of the grid, in samples after `firstIndex`.
  private var position = 0.0
  private var firstIndex = 0
  /// Mean square of the light.
  private var power = 0.0
  /// Number of grid samples that `power` covers.
  private var powerSamples = 0.0
  /// Mean square of the steps between samples.
  private var stepPower = 0.0
  /// The sample that ended the gap, while the gap is being bridged.
  private var target: SignalSample?
  private var step = 0
  private var steps = 0
  /// Light level before the gap.
  private var base = 0.0
  /// Number of stream samples until the light is settled.
  private var unsettled = 0
  /// Maximum number of stream samples until the light counts as settled.
  private var unsettledAtMost = 0
  /// Mean square since the jump, over half a second.
  private var recent = 0.0

  init(rate: Double) {
    self.rate = rate
    spacing = rate / Self.rate
    light = BandPass(Self.band, rate: rate)
    axes = .init(repeating: light)
  }

  /// Whether a sample continues the stream. If not, call `reset` first.
  func continues(_ sample: SignalSample) -> Bool {
    guard let last else { return true }
    let step = sample.index &- last.index
    // A time that jumps by weeks is invalid, and must not cause an overflow.
    let leap = abs(TimeSpan(from: last.time, to: sample.time.nanoseconds).seconds)
    return !sample.isRestart && step > 0 && Double(step) <= Self.longestGapSeconds * rate && leap < 1e6
  }

  mutating func reset() {
    light.reset()
    for axis in axes.indices { axes[axis].reset() }
    (last, target, hasAcceleration, position) = (nil, nil, false, 0)
    (power, powerSamples, stepPower) = (0, 0, 0)
    (unsettled, unsettledAtMost) = (0, 0)
  }

  /// Processes the next sample, which must have light. Call `next` for the resulting samples of the grid.
  mutating func take(_ sample: SignalSample) {
    (step, steps) = (0, last.map { sample.index - $0.index } ?? 1)
    base = last?.light ?? sample.light ?? 0
    if last == nil { firstIndex = sample.index }
    target = sample
  }

  /// Returns the next sample of the grid; `nil` when all were returned.
  mutating func next() -> GridSample? {
    while true {
      if let last, position <= Double(last.index &- firstIndex) {
        defer { position += spacing }
        var sample = between(share: 1 - (Double(last.index &- firstIndex) - position))
        switch sample.origin {
        case .measured, .bridged: sample.light = limited(sample.light)
        case .missing: break
        case .unsettled: sample.light = 0
        }
        return sample
      }
      guard let sample = target else { return nil }
      advance(to: sample)
    }
  }

  /// The usual size of the light.
  private var usual: Double { powerSamples >= Self.leastSamples ? power.squareRoot() : .infinity }

  private mutating func limited(_ light: Double) -> Double {
    let limit = Self.largestCrest * usual
    let limited = max(-limit, min(limit, light))
    powerSamples = min(powerSamples + 1, Self.usualSamples)
    power += (limited * limited - power) / powerSamples
    return limited
  }

  /// Filters the next value on the straight line to a sample.
  private mutating func advance(to sample: SignalSample) {
    step += 1
    let value = sample.light ?? last?.light ?? 0
    let isLast = step >= steps
    let share = 1 / Double(steps - step + 1)
    let nanoseconds = sample.time.nanoseconds
    let from = last ?? (sample.index &- 1, value, Acceleration(x: 0, y: 0, z: 0), nanoseconds)
    if sample.acceleration != nil, isLast, !hasAcceleration {
      // Reset the filters, so that the first acceleration does not cause a step.
      for axis in axes.indices { axes[axis].reset() }
      hasAcceleration = true
    }
    let acceleration = isLast ? sample.acceleration ?? from.acceleration : from.acceleration
    let time = from.time + Int64(TimeSpan(from: from.time, to: nanoseconds).seconds * 1e9 * share)
    let bridged = from.light + (value - from.light) * share
    if isLast { noteJump(value - base) }
    before = last == nil ? GridSample() : current
    let filtered = settled(light.filter(bridged))
    current = GridSample(
      light: filtered, x: axes[0].filter(acceleration.x), y: axes[1].filter(acceleration.y),
      z: axes[2].filter(acceleration.z), time: time, origin: origin,
      hasAcceleration: sample.acceleration != nil)
    if last == nil { before = current }
    last = (from.index &+ 1, bridged, acceleration, time)
    if isLast { target = nil }
  }

  /// Restarts the optical filter if the signal changes by more than `jumpCrest` times its usual size in one
  /// step.
  private mutating func noteJump(_ step: Double) {
    guard abs(step) > Self.jumpCrest * max(usual, stepPower.squareRoot()) else {
      stepPower += (step * step - stepPower) * Self.rate / (Self.usualSamples * rate)
      return
    }
    light.reset()
    recent = 0
    unsettled = Int(Self.settlingSeconds * rate)
    unsettledAtMost = Int(Self.longestSettlingSeconds * rate)
  }

  /// Returns a filtered sample, and counts it towards settling if its size is usual.
  private mutating func settled(_ light: Double) -> Double {
    guard unsettled > 0 else { return light }
    recent += (light * light - recent) / (0.5 * rate)
    let isSettled = Self.settledSize.contains(recent.squareRoot() / usual)
    unsettledAtMost -= 1
    unsettled = isSettled ? unsettled - 1 : Int(Self.settlingSeconds * rate)
    if unsettledAtMost <= 0, !isSettled { powerSamples = 0 }
    unsettled = min(unsettled, unsettledAtMost)
    return light
  }

  private var origin: GridSample.Origin {
    if unsettled > 0 { return .unsettled }
    guard steps > 1 else { return .measured }
    return Double(steps - 1) > Self.bridgeSeconds * rate ? .missing : .bridged
  }

  private func between(share: Double) -> GridSample {
    var sample = current
    sample.light = before.light + (current.light - before.light) * share
    sample.x = before.x + (current.x - before.x) * share
    sample.y = before.y + (current.y - before.y) * share
    sample.z = before.z + (current.z - before.z) * share
    sample.time = before.time + Int64(Double(current.time - before.time) * share)
    return sample
  }
}
