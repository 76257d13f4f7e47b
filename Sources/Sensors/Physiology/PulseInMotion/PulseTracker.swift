import BLEWire

/// Tracks the pulse in a plethysmogram during movement, using an accelerometer. The result is one value every
/// two seconds, for each `PulseRateWindow`. One channel of light is sufficient. Memory is allocated only in
/// the initializer.
///
/// The component of the light that the acceleration explains is removed by two fits, over the last 8 seconds
/// and over the last 16 (`MotionCanceller`). Both residuals pass a Wiener filter computed from the
/// acceleration's spectrum (`PulseSpectrum`), and a hidden Markov model tracks the rate (`PulseRateFilter`).
/// The unit and offset of the light do not matter. The approach (cancel, weight, track) follows Zhang, Pi and
/// Liu, TROIKA, IEEE Trans. Biomed. Eng. 62(2), 2015; Zhang, JOSS, IEEE Trans. Biomed. Eng. 62(8), 2015;
/// Temko, WFPV, IEEE Trans. Biomed. Eng. 64(9), 2017.
///
/// A window is returned `lagSeconds` after its end, because its estimate uses later windows. Its quality is
/// derived from the model's probability that the pulse is correct to 5 beats per minute, and is at most
/// `largestQuality`. The quality is at most 0.4 if the tracked spectral line is not accepted: if it is hardly
/// higher than its surroundings, or if motion cancelling removed most of it (`TrackedLine`). After a jump of
/// the light, for example because the sensor was lifted, the light is ignored until it has settled.
///
/// Without an accelerometer, steps cannot be distinguished from a pulse, so no window has a pulse. While the
/// hand is still, the light must be periodic (`Periodicity`) at the tracked rate. While the hand moves, the
/// rate's spectral line must be higher than its surroundings. The module's guide has the measurements. The
/// results are optical estimates, not medical advice.
///
/// The load is uneven: the sample that completes a window costs about 0.2 ms on a desktop processor.
///
/// Limits: 40 … 220 beats per minute. If steps and pulse have the same rate for a long time, only earlier
/// windows can distinguish them.
public struct PulseTracker: Sendable {
  /// Minimum delay between the end of a window and its result, in seconds.
  public static let lagSeconds = PulseRateWindow.stepSeconds * Double(PulseRateFilter.lag)
  public static let largestMissingShare = 1.0 / 3
  public static let largestQuality = TrackedLine.shares.good
  /// Maximum difference at rest between the pulse and the light's frequency, in beats per minute.
  static let largestPaceError = 5.0
  /// Minimum value of `passed` for a tracked line at rest to be accepted even if the light may be a sine.
  static let trustedWindows = 6
  /// Maximum number of windows that wait for `next`. If there are more, the oldest are dropped.
  private static let capacity = 16
  /// Minimum root mean square of light that contains a signal, as a fraction of the light's level.
  private static let leastPower = 1e-7

  /// Sample counts of a block: two seconds of the grid. Windows start one block apart.
  private struct Block {
    var start: Int64 = 0
    var unmeasured = 0
    var unsettled = 0
    var accelerated = 0
  }

  private var grid: SampleGrid
  private var canceller = MotionCanceller()
  private var spectrum = PulseSpectrum()
  private var filter = PulseRateFilter()
  private var line = TrackedLine()
  /// Ring buffer of windows: amplitudes at each pulse rate of the optical signal after motion cancellation.
  /// Window n is stored at n modulo the number of windows.
  private var cleaned = [Double](repeating: 0, count: (PulseRateFilter.lag + 1) * PulseRateFilter.count)
  /// Number of grid samples since the start.
  private var taken = 0
  /// Blocks of the grid. Block n is at n modulo the capacity.
  private var blocks = [Block](repeating: Block(), count: capacity)
  private var lastTime: Int64 = 0
  private var level = 0.0
  private var periodicity = Periodicity(rate: SampleGrid.rate, seconds: PulseRateWindow.seconds)
  /// Periodicity of each window's light. Window n is at n modulo the capacity.
  private var paces = [Periodicity.Found?](repeating: nil, count: capacity)
  private var scratch = [Double](repeating: 0, count: PulseSpectrum.windowSamples)
  /// Windows whose pulse is not final yet. Window n is at n modulo the capacity.
  private var windows: [PulseRateWindow]
  private var closed = 0
  private var given = 0
  /// Number of accepted windows at rest, minus three for each rejected one; limited to 0 … 2 ×
  /// `trustedWindows`.
  private var passed = 0
  private var queue: WindowQueue

  /// Creates a tracker for one sample rate.
  ///
  /// - Parameter rate: approximate sample rate, in samples per second.
  /// - Throws: `tooSlow` below `PulseDetector.minimumRate`, `tooFast` if only invalid
  ///   timestamps can explain the rate.
  public init(rate: Double) throws(PulseMeter.Refusal) {
    guard rate >= PulseDetector.minimumRate else { throw .tooSlow(rate: rate) }
    guard !SampleRate.isTooHigh(rate) else { throw .tooFast(rate: rate) }
    grid = SampleGrid(rate: rate)
    windows = [PulseRateWindow](repeating: WindowQueue.empty, count: Self.capacity)
    queue = WindowQueue(capacity: Self.capacity)
  }

  /// Processes the next sample; a sample without light counts as missing. Call `next` for the completed
  /// windows.
  public mutating func take(_ sample: SignalSample) {
    guard let light = sample.light else { return }
    if !grid.continues(sample) {
      finish()
      restart()
    }
    level = abs(light)
    grid.take(sample)
    while let placed = grid.next() { add(placed) }
  }

  /// Returns the next complete window. Call it until it returns `nil`.
  public mutating func next() -> PulseRateWindow? { queue.next() }

  /// Ends the stream and decides the last windows from the available data. Call `next` for them. The next
  /// sample starts a new stream.
  public mutating func finish() {
    let whole = taken / MotionCanceller.blockSamples * MotionCanceller.blockSamples
    if taken > 0, canceller.settled < whole {
      // The last window's light is complete, but the accelerometer samples after the window are missing.
      for _ in canceller.settled..<whole {
        canceller.take(GridSample(origin: .missing))
        closeIfWhole()
      }
    }
    while given < closed { give() }
    restart()
  }

  private mutating func restart() {
    grid.reset()
    canceller.reset()
    filter.reset()
    line.reset()
    (taken, closed, given, passed) = (0, 0, 0, 0)
  }

  private mutating func add(_ sample: GridSample) {
    let place = taken % MotionCanceller.blockSamples
    let slot = taken / MotionCanceller.blockSamples % Self.capacity
    if place == 0 { blocks[slot] = Block(start: sample.time) }
    if sample.origin != .measured { blocks[slot].unmeasured += 1 }
    if sample.origin == .unsettled { blocks[slot].unsettled += 1 }
    if sample.hasAcceleration { blocks[slot].accelerated += 1 }
    lastTime = sample.time
    taken += 1
    canceller.take(sample)
    closeIfWhole()
  }

  private mutating func closeIfWhole() {
    let start = closed * MotionCanceller.blockSamples
    let end = start + PulseSpectrum.windowSamples
    guard canceller.settled >= end else { return }
    close(start..<end)
    closed += 1
    if closed - given > PulseRateFilter.lag { give() }
  }

  private mutating func close(_ range: Range<Int>) {
    var (unmeasured, unsettled, accelerated) = (0, 0, 0)
    for block in closed..<closed + 4 {
      unmeasured += blocks[block % Self.capacity].unmeasured
      unsettled += blocks[block % Self.capacity].unsettled
      accelerated += blocks[block % Self.capacity].accelerated
    }
    let isAccelerated = 2 * accelerated >= range.count
    var window = PulseRateWindow(
      start: ReceiveTime(nanoseconds: blocks[closed % Self.capacity].start),
      end: ReceiveTime(nanoseconds: end(of: range)),
      motion: isAccelerated ? canceller.motion(range) : nil)
    if Double(unmeasured) > Self.largestMissingShare * Double(range.count) {
      window.absence = unsettled > 0 ? .unsettled : .missingSamples
    } else if canceller.power(range) <= Self.leastPower * level {
      window.absence = .noSignal
    }
    paces[closed % Self.capacity] = repetition(range)
    window.periodicity = paces[closed % Self.capacity]?.strength
    windows[closed % Self.capacity] = window
    guard window.absence == nil else { return filter.take(nil) }
    weigh(range)
    filter.take(spectrum.evidence)
  }

  private mutating func repetition(_ range: Range<Int>) -> Periodicity.Found? {
    canceller.light(range, to: &scratch)
    // Copy the array, because a span of the property would keep exclusive access to `self`.
    let light = scratch
    return periodicity.find(light.span, 0..<light.count)
  }

  private mutating func weigh(_ range: Range<Int>) {
    spectrum.begin()
    for axis in 0..<3 {
      canceller.acceleration(axis, range, to: &scratch)
      spectrum.addAcceleration(scratch)
    }
    for spans in 1...2 {
      canceller.residual(range, blocks: 4 * spans, to: &scratch)
      spectrum.addLight(scratch, share: 0.5)
    }
    let slot = closed % (PulseRateFilter.lag + 1) * PulseRateFilter.count
    for index in 0..<PulseRateFilter.count { cleaned[slot + index] = spectrum.cleaned[index] }
  }

  /// Returns the time of the first sample after a window, measured or extrapolated.
  private func end(of range: Range<Int>) -> Int64 {
    if taken > range.upperBound {
      return blocks[range.upperBound / MotionCanceller.blockSamples % Self.capacity].start
    }
    return lastTime &+ Int64(1e9 / SampleGrid.rate)
  }

  /// Computes the pulse of the oldest window that is not final yet.
  private mutating func give() {
    var window = windows[given % Self.capacity]
    if window.absence == nil {
      let (pulse, probability) = filter.estimate(window: given)
      judge(given, pulse)
      window.absence = refusal(window, pulse)
      if (window.motion ?? 1) < SignalQuality.largestMotion {
        passed = max(0, min(2 * Self.trustedWindows, passed + (window.absence == nil ? 1 : -3)))
      }
      if window.absence == nil {
        let isBelieved = isBelieved(window)
        let quality = min(
          TrackedLine.quality(probability), isBelieved ? 1 : TrackedLine.largestDoubtfulQuality)
        window.trackingProbability = isBelieved ? probability : nil
        window.pulse = PulseEstimate(beatsPerMinute: pulse, quality: quality, method: .tracking)
      }
    }
    given += 1
    queue.add(window)
  }

  /// Returns whether the tracked line is accepted as a pulse. Within 8 s, filtered noise is nearly as
  /// periodic as a pulse, but has another waveform.
  private func isBelieved(_ window: PulseRateWindow) -> Bool {
    guard line.standsOut else { return false }
    guard (window.motion ?? 0) < SignalQuality.largestMotion else { return line.isKept }
    return passed >= Self.trustedWindows || paces[given % Self.capacity]?.hasHarmonic ?? false
  }

  /// Returns the reason why the oldest undecided window has no pulse although a rate was tracked.
  private func refusal(_ window: PulseRateWindow, _ pulse: Double) -> PulseAbsence? {
    guard let motion = window.motion else { return .noAccelerometer }
    guard motion < SignalQuality.largestMotion else { return line.isNoise ? .noise : nil }
    guard let found = paces[given % Self.capacity], found.strength >= SignalQuality.leastPeriodicity,
      !found.isSine
    else { return .noise }
    return abs(found.beatsPerMinute - pulse) <= Self.largestPaceError ? nil : .octave
  }

  /// Adds a window to the statistics of the tracked line.
  private mutating func judge(_ window: Int, _ pulse: Double) {
    let start = window * MotionCanceller.blockSamples
    let place = PulseRateFilter.index(pulse)
    canceller.light(start..<start + PulseSpectrum.windowSamples, to: &scratch)
    let before = spectrum.amplitude(scratch, at: place)
    let after = cleaned[window % (PulseRateFilter.lag + 1) * PulseRateFilter.count + place]
    line.take(
      contrast: filter.contrast(window: window, at: place),
      kept: before > 0 ? after * after / (before * before) : 1, beatsPerMinute: pulse)
  }
}

/// FIFO queue of windows.
struct WindowQueue: Sendable {
  static let empty = PulseRateWindow(start: ReceiveTime(nanoseconds: 0), end: ReceiveTime(nanoseconds: 0))

  private var windows: [PulseRateWindow]
  private var first = 0
  private(set) var count = 0

  init(capacity: Int) { windows = [PulseRateWindow](repeating: Self.empty, count: capacity) }

  var oldest: PulseRateWindow? { count > 0 ? windows[first] : nil }

  /// Adds a window. If the queue is full, the oldest window is dropped.
  mutating func add(_ window: PulseRateWindow) {
    if count == windows.count { _ = next() }
    windows[(first + count) % windows.count] = window
    count += 1
  }

  mutating func next() -> PulseRateWindow? {
    guard count > 0 else { return nil }
    defer { (first, count) = ((first + 1) % windows.count, count - 1) }
    return windows[first]
  }
}

/// Evidence that the tracked spectral line is a pulse, not noise or steps that motion cancelling did not
/// remove.
///
/// It uses two values of each window at the tracked rate. The contrast is the evidence for that rate divided
/// by the evidence for neighbouring rates. The kept share is the power of the light at that rate after motion
/// cancelling, divided by the power before. Noise can be tracked like a pulse, but its lines are hardly
/// higher than their surroundings. Steps make high lines, but motion cancelling removes most of their power.
/// Both values are averaged over `slowMemory`, and the contrast also over the last few windows.
///
/// The averages decide whether a line is accepted: a rejected line has a quality of at most
/// `largestDoubtfulQuality`, and noise has no pulse. The quality of an accepted line is a step function of
/// the hidden Markov model's probability. The module's guide has the measurements.
struct TrackedLine {
  /// Factor by which the weight of a window decreases with each later window. Corresponds to an average over
  /// half a minute.
  static let slowMemory = 0.93
  /// Like `slowMemory`, for an average over four seconds.
  static let fastMemory = 0.5
  /// Contrast below which the light is noise. Nearly all windows of white noise are below 1.95.
  static let leastContrast = 2.0
  /// Contrast from which a line is accepted. It remains accepted until the contrast falls below
  /// `leastContrast`.
  static let believedContrast = 2.3
  /// The two contrast thresholds below `oneSidedRate`. There, neighbouring rates exist only on one side of
  /// the line, so noise has a higher contrast.
  static let oneSidedContrasts = (least: 3.0, believed: 3.4)
  /// Rate below which `oneSidedContrasts` apply, in beats per minute.
  static let oneSidedRate = 66.0
  /// Minimum kept share. It is lower for pure steps.
  static let leastKept = 0.34
  static let largestDoubtfulQuality = 0.4
  static let keptShares = 0.01...1.0
  /// Contrast and kept share assumed before the first window.
  private static let usual = (contrast: 1.7, kept: 0.64)
  /// Weight of the assumed initial values, in windows.
  private static let usualWindows = 4.0
  /// Thresholds of the hidden Markov model's probability.
  static let probabilities = (poor: 0.4, fair: 0.6, good: 0.72)
  /// Share of windows whose pulse is correct to 5 beats per minute, below and between the thresholds. Fitted
  /// to six runs by `CalibrationTests`, and rounded.
  static let shares = (none: 0.25, poor: 0.66, fair: 0.88, good: 0.98)

  private struct Mean {
    var slow: Double
    var fast: Double

    init(_ value: Double) { (slow, fast) = (value, value) }

    mutating func take(_ value: Double, share: Double) {
      slow += (value - slow) * max(1 - slowMemory, share)
      fast += (value - fast) * (1 - fastMemory)
    }
  }

  private var contrast = Mean(usual.contrast)
  private var kept = Mean(usual.kept)
  private var windows = usualWindows
  /// Whether the line's average contrast is high enough.
  private(set) var standsOut = false

  mutating func reset() { self = TrackedLine() }

  /// Processes the next window with a pulse.
  mutating func take(contrast: Double, kept: Double, beatsPerMinute: Double) {
    windows += 1
    self.contrast.take(contrast, share: 1 / windows)
    self.kept.take(max(Self.keptShares.lowerBound, min(Self.keptShares.upperBound, kept)), share: 1 / windows)
    let limits =
      beatsPerMinute < Self.oneSidedRate
      ? Self.oneSidedContrasts : (least: Self.leastContrast, believed: Self.believedContrast)
    if self.contrast.slow >= limits.believed { standsOut = true }
    if self.contrast.slow < limits.least { standsOut = false }
  }

  /// Whether enough of the line's power remains after motion cancelling. If not, the line is a residue of
  /// steps.
  var isKept: Bool { kept.slow >= Self.leastKept }

  /// Whether the contrast is too low both in the slow and in the fast average.
  var isNoise: Bool { max(contrast.slow, contrast.fast) < Self.leastContrast }

  /// Returns the quality of an accepted line: the share of windows that are correct to 5 beats per minute.
  ///
  /// - Parameter probability: the hidden Markov model's probability that the pulse is correct to 5 beats per
  ///   minute.
  static func quality(_ probability: Double) -> Double {
    if probability >= probabilities.good { return shares.good }
    if probability >= probabilities.fair { return shares.fair }
    return probability >= probabilities.poor ? shares.poor : shares.none
  }
}
