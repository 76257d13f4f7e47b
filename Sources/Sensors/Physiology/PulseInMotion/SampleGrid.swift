import BLEWire

/// Sample of the 25 Hz grid: filtered light in counts and filtered acceleration in g.
struct GridSample {
  var light = 0.0
  var x = 0.0
  var y = 0.0
  var z = 0.0
  /// Time of the sample on the sensor's clock, in nanoseconds.
  var time: Int64 = 0
  /// Origin of the light value.
  var origin = Origin.measured
  var hasAcceleration = false

  enum Origin { case measured, bridged, missing, unsettled }
}

/// Resamples a stream of any rate to 25 samples per second: a band-pass filter of 0.5 … 5 Hz at the stream's
/// rate, then linear interpolation. The filter prevents aliasing.
///
/// Missing samples, and samples without light, are filled by linear interpolation. In a gap of at most
/// `bridgeSeconds` they are `bridged` and are used like measured samples. In a longer gap they are `missing`.
/// Light above `largestCrest` times its root mean square is clipped, for example when the sensor slips on the
/// skin. After a jump, for example because the sensor is lifted, the filter restarts at the new level. The
/// light is then `unsettled` until its root mean square has been normal for a second (`settledSize`).
struct SampleGrid {
  static let rate = 25.0
  static let band = 0.5...5.0
  static let bridgeSeconds = 0.2
  /// Maximum duration of a gap, in seconds. After a longer gap, the grid restarts.
  static let longestGapSeconds = 10.0
  /// Level above which light is clipped, as a multiple of its root mean square.
  static let largestCrest = 3.0
  /// Averaging length of the light's root mean square, in grid samples.
  static let usualSamples = 200.0
  /// Number of grid samples before clipping starts.
  static let leastSamples = 50.0
  /// Minimum size of a jump, as a multiple of the light's root mean square or of the root mean square of its
  /// steps, whichever is larger.
  static let jumpCrest = 12.0
  static let settlingSeconds = 1.0
  /// Range of the root mean square after a jump in which the light is settled, as multiples of the root mean
  /// square before the jump.
  static let settledSize = 0.2...3
  /// Maximum settling time after a jump, in seconds. If the light is still outside `settledSize` then, its
  /// root mean square is measured anew.
  static let longestSettlingSeconds = 6.0

  private let rate: Double
  /// Number of stream samples per sample of the grid.
  private let spacing: Double
  private var light: BandPass
  private var axes: InlineArray<3, BandPass>
  /// The last sample before filtering, and its number; `nil` before the first sample.
  private var last: (index: Int, light: Double, acceleration: Acceleration, time: Int64)?
  private var hasAcceleration = false
  /// Filtered values at the sample before the last sample.
  private var before = GridSample()
  /// Filtered values at the last sample.
  private var current = GridSample()
  /// Position of the next grid sample, in stream samples after `firstIndex`.
  private var position = 0.0
  private var firstIndex = 0
  /// Moving average of the squared light.
  private var power = 0.0
  /// Number of grid samples that `power` covers.
  private var powerSamples = 0.0
  /// Moving average of the squared steps between samples.
  private var stepPower = 0.0
  /// The sample after the gap, while the gap is being filled.
  private var target: SignalSample?
  private var step = 0
  private var steps = 0
  /// Light level before the gap.
  private var base = 0.0
  /// Number of stream samples until the light counts as settled.
  private var unsettled = 0
  /// Maximum number of stream samples until the light counts as settled.
  private var unsettledAtMost = 0
  /// Moving average of the squared light since the jump, over half a second.
  private var recent = 0.0

  init(rate: Double) {
    self.rate = rate
    spacing = rate / Self.rate
    light = BandPass(Self.band, rate: rate)
    axes = .init(repeating: light)
  }

  /// Returns whether a sample continues the stream. If not, call `reset` first.
  func continues(_ sample: SignalSample) -> Bool {
    guard let last else { return true }
    let step = sample.index &- last.index
    // A jump of weeks is an invalid timestamp. It must not cause an overflow.
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

  /// Returns the next grid sample; `nil` until more samples are taken.
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

  /// Root mean square of the light; infinite before `leastSamples`.
  private var usual: Double { powerSamples >= Self.leastSamples ? power.squareRoot() : .infinity }

  private mutating func limited(_ light: Double) -> Double {
    let limit = Self.largestCrest * usual
    let limited = max(-limit, min(limit, light))
    powerSamples = min(powerSamples + 1, Self.usualSamples)
    power += (limited * limited - power) / powerSamples
    return limited
  }

  /// Filters the next interpolated value on the way to a sample.
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

  /// Restarts the optical filter if the light changes in one step by more than `jumpCrest` times its root
  /// mean square.
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

  /// Updates the settling state for a filtered sample, and returns the sample unchanged.
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
