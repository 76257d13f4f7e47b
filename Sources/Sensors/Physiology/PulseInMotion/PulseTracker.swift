import BLEWire

/// Tracks the pulse of a plethysmogram while its wearer moves, using an accelerometer: one value for each
/// `PulseRateWindow`, every two seconds. One channel of light is sufficient. It allocates only at the start.
///
/// The part of the light that the accelerometer explains is removed, once by a fit over the last 8 seconds
/// and once over the last 16 (`MotionCanceller`). Both remainders pass a Wiener filter computed from the
/// accelerometer's spectrum (`PulseSpectrum`), and a hidden Markov model tracks the rate (`PulseRateFilter`).
/// Only relative changes of the light count, not its unit or offset. The approach (cancel, weight, track) is
/// that of Zhang, Pi and Liu, TROIKA, IEEE Trans. Biomed. Eng. 62(2), 2015; Zhang, JOSS, IEEE Trans. Biomed.
/// Eng. 62(8), 2015; Temko, WFPV, IEEE Trans. Biomed. Eng. 64(9), 2017.
///
/// A window is returned `lagSeconds` after its end, because later windows contribute to it. Its quality is
/// derived from the model's probability that the pulse is within 5 beats per minute, and is at most
/// `largestQuality`. If the line does not stand out, or little of it is left after the accelerometer's part
/// is removed (`TrackedLine`), the quality is at most 0.4. Light that jumped, for example because the sensor
/// was lifted, is ignored until it has settled.
///
/// Without an accelerometer, steps cannot be distinguished from a pulse, so no window has a pulse. While the
/// hand is still, the light must repeat itself (`Periodicity`) at the tracked rate. While it moves, the
/// rate's line in the spectrum must stand out. The module's guide has the measurements. This is a measurement
/// in light, not medical advice.
///
/// The work is done in bursts: the sample that completes a window costs about 0.2 ms on a desktop processor.
///
/// Limits: 40 … 220 beats per minute. If steps and pulse have the same rate for a long time, only earlier
/// windows distinguish them.
public struct PulseTracker: Sendable {
  /// Delay of a window after its end, in seconds. The actual delay is slightly longer.
  public static let lagSeconds = PulseRateWindow.stepSeconds * Double(PulseRateFilter.lag)
  public static let largestMissingShare = 1.0 / 3
  public static let largestQuality = TrackedLine.shares.good
  /// Maximum difference at rest between the pulse and the rate at which the light repeats itself, in beats
  /// per minute.
  static let largestPaceError = 5.0
  /// Value of `passed` from which a tracked line at rest is accepted even if the light may be a sine.
  static let trustedWindows = 6
  /// Maximum number of windows that wait for `next`. If more come, the oldest are lost.
  private static let capacity = 16
  /// Root mean square below which the light contains no signal, as a share of its mean.
  private static let leastPower = 1e-7

  /// Sample counts of two seconds of the grid. Successive windows start one block apart.
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
  /// Amplitudes of cleaned light at the rates; window n is at n modulo their count.
  private var cleaned = [Double](repeating: 0, count: (PulseRateFilter.lag + 1) * PulseRateFilter.count)
  /// Number of samples of the grid since the start.
  private var taken = 0
  /// Blocks of these samples; number n is at n modulo the capacity.
  private var blocks = [Block](repeating: Block(), count: capacity)
  private var lastTime: Int64 = 0
  private var level = 0.0
  private var periodicity = Periodicity(rate: SampleGrid.rate, seconds: PulseRateWindow.seconds)
  /// Periodicity of each window's light; number n is at n modulo the capacity.
  private var paces = [Periodicity.Found?](repeating: nil, count: capacity)
  private var scratch = [Double](repeating: 0, count: PulseSpectrum.windowSamples)
  /// Windows whose pulse is not decided yet; number n is at n modulo the capacity.
  private var windows: [PulseRateWindow]
  private var closed = 0
  private var given = 0
  /// Number of windows at rest that were accepted, minus three for each that was not: 0 … 2 ×
  /// `trustedWindows`.
  private var passed = 0
  private var queue: WindowQueue

  /// - Parameter rate: samples per second; need not be exact.
  /// - Throws: `tooSlow` below `PulseDetector.minimumRate`.
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

  /// Ends the stream. The last windows are decided from the available data; call `next` for them. Another
  /// sample starts a new stream.
  public mutating func finish() {
    let whole = taken / MotionCanceller.blockSamples * MotionCanceller.blockSamples
    if taken > 0, canceller.settled < whole {
      // The light of the last window was measured, but not the accelerometer samples after it.
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
    // A copy for this call, because a span of a property would keep exclusive access to `self`.
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

  /// Time of the sample after a window, measured or extrapolated.
  private func end(of range: Range<Int>) -> Int64 {
    if taken > range.upperBound {
      return blocks[range.upperBound / MotionCanceller.blockSamples % Self.capacity].start
    }
    return lastTime &+ Int64(1e9 / SampleGrid.rate)
  }

  /// Decides the oldest window that was not returned yet.
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

  /// Whether the tracked line is accepted as a pulse. Over 8 s, filtered noise repeats itself nearly as well
  /// as a pulse, but has another form.
  private func isBelieved(_ window: PulseRateWindow) -> Bool {
    guard line.standsOut else { return false }
    guard (window.motion ?? 0) < SignalQuality.largestMotion else { return line.isKept }
    return passed >= Self.trustedWindows || paces[given % Self.capacity]?.hasHarmonic ?? false
  }

  /// Returns the reason why the oldest window has no pulse although one was tracked.
  private func refusal(_ window: PulseRateWindow, _ pulse: Double) -> PulseAbsence? {
    guard let motion = window.motion else { return .noAccelerometer }
    guard motion < SignalQuality.largestMotion else { return line.isNoise ? .noise : nil }
    guard let found = paces[given % Self.capacity], found.strength >= SignalQuality.leastPeriodicity,
      !found.isSine
    else { return .noise }
    return abs(found.beatsPerMinute - pulse) <= Self.largestPaceError ? nil : .octave
  }

  /// Adds a window to the statistics of the line.
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

/// A queue of windows, in order.
struct WindowQueue: Sendable {
  static let empty = PulseRateWindow(start: ReceiveTime(nanoseconds: 0), end: ReceiveTime(nanoseconds: 0))

  private var windows: [PulseRateWindow]
  private var first = 0
  private(set) var count = 0

  init(capacity: Int) { windows = [PulseRateWindow](repeating: Self.empty, count: capacity) }

  var oldest: PulseRateWindow? { count > 0 ? windows[first] : nil }

  /// Adds a window; if the queue is full, the oldest is dropped.
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

/// Evidence that the tracked line is a pulse, and not noise or steps that the accelerometer's part does not
/// include.
///
/// It uses two values of each window at the tracked rate. The contrast is the evidence for that rate divided
/// by the evidence for the rates beside it. The kept share is the power of the light at that rate after
/// removing the accelerometer's part, divided by the power before. Noise is tracked like a pulse, but its
/// lines are hardly higher than their surroundings. Residual steps stand out, but little of their power is
/// kept. Both values are averaged over `slowMemory`, and the contrast also over the last few windows.
///
/// The averages decide whether a line is accepted: a rejected line has a quality of at most
/// `largestDoubtfulQuality`, and noise has no pulse. The quality of an accepted line is a step function of
/// the model's own probability. The module's guide has the measurements.
struct TrackedLine {
  /// Factor by which the weight of a window decreases with each later window. This memory lasts half a
  /// minute.
  static let slowMemory = 0.93
  /// Like `slowMemory`, for a memory of four seconds.
  static let fastMemory = 0.5
  /// Contrast below which light is considered noise: nearly all windows of white noise are below 1.95.
  static let leastContrast = 2.0
  /// Contrast at which a line is accepted. It then stays accepted until its contrast falls below
  /// `leastContrast`.
  static let believedContrast = 2.3
  /// The same two contrasts for rates below `oneSidedRate`. There, the neighbouring rates are all on one side
  /// of the line, so noise stands out, too.
  static let oneSidedContrasts = (least: 3.0, believed: 3.4)
  /// Rate below which `oneSidedContrasts` apply, in beats per minute.
  static let oneSidedRate = 66.0
  /// Minimum kept share. Of pure steps, less is kept.
  static let leastKept = 0.34
  static let largestDoubtfulQuality = 0.4
  static let keptShares = 0.01...1.0
  /// Contrast and kept share assumed before the first window.
  private static let usual = (contrast: 1.7, kept: 0.64)
  /// Weight of the assumed values, in windows.
  private static let usualWindows = 4.0
  /// Thresholds of the model's own probability.
  static let probabilities = (poor: 0.4, fair: 0.6, good: 0.72)
  /// Shares of windows within 5 beats per minute, below and between the thresholds. `CalibrationTests` fits
  /// them to six runs; they are rounded.
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
  /// Whether the line has been higher than its surroundings for a long time.
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

  /// Whether the line is not a residue of steps.
  var isKept: Bool { kept.slow >= Self.leastKept }

  /// Whether the light is considered noise, both over a long time and in the last windows.
  var isNoise: Bool { max(contrast.slow, contrast.fast) < Self.leastContrast }

  /// Share of windows within 5 beats per minute, for an accepted line.
  ///
  /// - Parameter probability: the model's own probability that the pulse is within 5 beats per minute.
  static func quality(_ probability: Double) -> Double {
    if probability >= probabilities.good { return shares.good }
    if probability >= probabilities.fair { return shares.fair }
    return probability >= probabilities.poor ? shares.poor : shares.none
  }
}
