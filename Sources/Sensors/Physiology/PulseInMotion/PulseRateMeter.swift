public import BLEWire

/// Measures the pulse at rest and in motion, and reports the method for each value: `PulseMeter` if it
/// detected good beats, otherwise `PulseTracker`. Pass each sample once. Memory is allocated only in the
/// initializer.
///
/// If accepted intervals cover an 8 s window, apart from its edges, the pulse is computed from their mean;
/// otherwise it is the tracked pulse. A window's value is final when both methods have finished, at most
/// about 11 s after the window ends. The windows and beats of the contained `PulseMeter` are available for
/// interval analysis.
public struct PulseRateMeter: Sendable {
  /// Maximum part of a window without accepted intervals, in mean intervals: the two intervals that the
  /// window's ends cut, and half an interval more.
  public static let mostMissingIntervals = 2.5
  /// Maximum time that a window waits for beats, in seconds. Beats become final every ten seconds, with a
  /// delay of 0.7 s.
  public static let longestWaitSeconds = 12.0
  /// Quality of a pulse from beats, if an accelerometer shows that the hand was still. Each such window was
  /// correct in six runs on a treadmill and in signals with known beats.
  public static let beatQuality = 0.98
  /// Quality of a pulse from beats without an accelerometer. The beats of the last minute must be steady.
  /// Each such window of four patients at rest and of six runners was correct. A minute of steps that look
  /// like beats would be reported as a pulse.
  public static let blindBeatQuality = 0.94
  private static let windowCapacity = 32
  private static let beatCapacity = 256

  private var meter: PulseMeter
  private var tracker: PulseTracker
  private var waiting = WindowQueue(capacity: windowCapacity)
  private var decided = WindowQueue(capacity: windowCapacity)
  /// The last accepted beats. Beat n is at n modulo the capacity.
  private var beats: [PulseBeat]
  private var beatCount = 0
  private var steadiness = SteadyBeats()
  /// Whether each element of `beats` belongs to a window with steady beats.
  private var isSteady = [Bool](repeating: false, count: beatCapacity)
  /// Time up to which the beats of `PulseMeter` are final, in nanoseconds.
  private var decidedTime = Int64.min
  private var lastTime = Int64.min

  /// Creates a meter for one sample rate.
  ///
  /// - Parameter rate: approximate sample rate, in samples per second.
  /// - Throws: `tooSlow` below `PulseDetector.minimumRate`, `tooFast` if only invalid
  ///   timestamps can explain the rate.
  public init(rate: Double) throws(PulseMeter.Refusal) {
    meter = try PulseMeter(rate: rate)
    tracker = try PulseTracker(rate: rate)
    beats = [PulseBeat](
      repeating: PulseBeat(time: ReceiveTime(nanoseconds: 0), interval: nil, isAccepted: false),
      count: Self.beatCapacity)
  }

  /// Number of beats in the window that `take` or `finish` returned last.
  public var windowBeatCount: Int { meter.beatCount }

  /// Returns beat `index` of the window that `take` or `finish` returned last.
  ///
  /// - Parameter index: below `windowBeatCount`.
  public func beat(_ index: Int) -> PulseBeat { meter.beat(index) }

  /// Processes the next sample; a sample without light counts as missing. Call `next` for the completed
  /// windows.
  ///
  /// - Returns: a window of the contained `PulseMeter`, if one is now complete.
  public mutating func take(_ sample: SignalSample) -> PulseWindow? {
    let time = sample.time.nanoseconds
    let window = meter.take(sample)
    if let window { note(window) }
    if sample.isRestart || time < lastTime { flush() }
    lastTime = time
    tracker.take(sample)
    decide()
    return window
  }

  /// Returns the next complete window. Call it until it returns `nil`.
  public mutating func next() -> PulseRateWindow? { decided.next() }

  /// Ends the stream. Call `next` for the last windows.
  ///
  /// - Returns: the last window of the contained `PulseMeter`.
  public mutating func finish() -> PulseWindow? {
    let window = meter.finish()
    if let window { note(window) }
    flush()
    return window
  }

  private mutating func note(_ window: PulseWindow) {
    decidedTime = window.end.nanoseconds
    let areSteady = steadiness.take(window)
    for index in 0..<meter.beatCount where meter.beat(index).isAccepted {
      beats[beatCount % Self.beatCapacity] = meter.beat(index)
      isSteady[beatCount % Self.beatCapacity] = areSteady
      beatCount += 1
    }
  }

  /// Decides all remaining windows with the available data.
  private mutating func flush() {
    tracker.finish()
    decide(isLast: true)
    (decidedTime, lastTime) = (.min, .min)
  }

  private mutating func decide(isLast: Bool = false) {
    while let window = tracker.next() { waiting.add(window) }
    while let window = waiting.oldest {
      let end = window.end.nanoseconds
      let isOld = Double(lastTime &- end) > Self.longestWaitSeconds * 1e9
      guard isLast || isOld || decidedTime >= end else { return }
      _ = waiting.next()
      decided.add(byBeats(window) ?? window)
    }
  }

  /// Returns the window with the pulse from its accepted intervals, or with the reason why the pulse is not
  /// reported; `nil` if there are too few intervals.
  private func byBeats(_ window: PulseRateWindow) -> PulseRateWindow? {
    let (start, end) = (window.start.nanoseconds, window.end.nanoseconds)
    var sum = 0.0
    var count = 0
    var areSteady = true
    for number in max(0, beatCount - Self.beatCapacity)..<beatCount {
      let beat = beats[number % Self.beatCapacity]
      guard let interval = beat.interval, beat.time.nanoseconds <= end,
        Double(beat.time.nanoseconds &- start) >= interval * 1e9
      else { continue }
      sum += interval
      count += 1
      areSteady = areSteady && isSteady[number % Self.beatCapacity]
    }
    let missing = PulseRateWindow.seconds - sum
    guard count > 0, missing <= Self.mostMissingIntervals * sum / Double(count) else { return nil }
    var result = window
    guard areSteady || window.motion != nil else {
      result.absence = .unsteadyBeats
      return result
    }
    result.absence = nil
    result.pulse = PulseEstimate(
      beatsPerMinute: 60 * Double(count) / sum,
      quality: window.motion == nil ? Self.blindBeatQuality : Self.beatQuality, method: .beats)
    return result
  }
}

/// Method by which a pulse was measured.
public enum PulseMethod: String, Hashable, Sendable, CaseIterable {
  /// Detection of single beats: `PulseMeter`.
  case beats
  /// Tracking of the frequency after motion cancelling: `PulseTracker`.
  case tracking
}

/// Pulse and its quality.
public struct PulseEstimate: Hashable, Sendable {
  /// Minimum quality for consumers that cannot evaluate the quality, such as `HomeAssistant` or a bike
  /// computer.
  public static let goodQuality = 0.8

  public var beatsPerMinute: Double
  /// Measured share of windows of this quality whose pulse was correct to 5 beats per minute: 0 … 1.
  public var quality: Double
  public var method: PulseMethod

  public init(beatsPerMinute: Double, quality: Double, method: PulseMethod) {
    self.beatsPerMinute = beatsPerMinute
    self.quality = quality
    self.method = method
  }
}

/// Reason why a window has no pulse.
public enum PulseAbsence: String, Hashable, Sendable, CaseIterable {
  /// More than a third of the samples is missing or has no light.
  case missingSamples
  /// The light jumped, for example because the sensor was lifted. More than a third of the window is missing
  /// or unsettled.
  case unsettled
  /// The light is constant.
  case noSignal
  /// The light is not periodic like a pulse: noise, no finger, or a sine, for example from a lamp.
  case noise
  /// The light's frequency differs from the tracked rate; it is often half or twice that rate.
  case octave
  /// No beats were detected, and without an accelerometer a tracked pulse cannot be distinguished from
  /// movement.
  case noAccelerometer
  /// Only some windows have beats, and there is no accelerometer. The beats may be steps.
  case unsteadyBeats

  /// Short description of the reason.
  public var words: String {
    switch self {
    case .missingSamples: "samples missing"
    case .unsettled: "the light jumped"
    case .noSignal: "the light does not change"
    case .noise: "no pulse in the light"
    case .octave: "no clear pace"
    case .noAccelerometer: "no beats and no accelerometer"
    case .unsteadyBeats: "unsteady beats and no accelerometer"
    }
  }
}

/// Pulse in an 8 s window of a plethysmogram. Windows start every two seconds.
public struct PulseRateWindow: Hashable, Sendable {
  public static let seconds = 8.0
  public static let stepSeconds = 2.0

  /// Start time, on the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// The pulse; `nil` exactly if `absence` is set.
  public var pulse: PulseEstimate?
  public var absence: PulseAbsence?
  /// Root mean square of the acceleration of all axes, 0.5 … 5 Hz, in g. `nil` without an accelerometer.
  public var motion: Double?
  /// Autocorrelation of the light at a lag of one beat: −1 … 1. `nil` if the light is constant.
  public var periodicity: Double?
  /// Probability, according to the hidden Markov model, that the tracked pulse is correct to 5 beats per
  /// minute. `nil` if its spectral line was not accepted (`TrackedLine`). The quality is derived from it.
  package var trackingProbability: Double?

  public init(
    start: ReceiveTime, end: ReceiveTime, pulse: PulseEstimate? = nil, absence: PulseAbsence? = nil,
    motion: Double? = nil, periodicity: Double? = nil
  ) {
    (self.start, self.end, self.pulse, self.absence) = (start, end, pulse, absence)
    (self.motion, self.periodicity) = (motion, periodicity)
  }
}

/// Decides without an accelerometer whether beats are a pulse at rest. Steps can look like beats, but not in
/// every window.
///
/// At rest, nearly every ten-second window has beats, with a steady rate and height. During a run, only some
/// windows have beats, at the rate of the steps, of every second or third step, or of the pulse. A single
/// window cannot distinguish these cases, so each window is compared with the windows of the last minute.
/// Memory is allocated only in the initializer.
struct SteadyBeats {
  /// Number of ten-second windows that are compared: one minute.
  static let count = 6
  /// Maximum relative difference between the rates of two windows. `rateDrift` increases it for each window
  /// between them.
  private static let rateTolerance = 0.2
  private static let rateDrift = 0.02
  /// Maximum ratio of two amplitudes.
  private static let largestAmplitudeRatio = 2.2
  /// Minimum share of similar windows, computed with two windows added to the total and one to the similar
  /// windows.
  static let leastShare = 0.6
  /// Range of usual rates, in beats per minute. Faster beats may be steps; slower beats may be every second
  /// or third step.
  private static let usualRates = 45.0..<100.0
  private static let leastUnusual = 4

  private struct Past {
    var rate = 0.0
    var amplitude = 0.0
  }

  /// The last windows. Window n is at n modulo the count.
  private var past = [Past](repeating: Past(), count: count)
  private var taken = 0

  /// Processes the next ten-second window.
  ///
  /// - Returns: whether its beats are steady.
  mutating func take(_ window: PulseWindow) -> Bool {
    // An interrupted window does not affect the other windows.
    guard window.rejection != .interrupted else { return false }
    past[taken % Self.count] = Past(rate: window.beatsPerMinute ?? 0, amplitude: window.amplitude)
    taken += 1
    guard let rate = window.beatsPerMinute else { return false }
    let seen = min(taken, Self.count)
    var alike = 0
    for age in 0..<seen where isAlike(past[(taken - 1 - age) % Self.count], rate, window.amplitude, age) {
      alike += 1
    }
    guard Self.usualRates.contains(rate) else { return alike >= min(seen, Self.leastUnusual) }
    return Double(alike + 1) >= Self.leastShare * Double(seen + 2)
  }

  private func isAlike(_ other: Past, _ rate: Double, _ amplitude: Double, _ age: Int) -> Bool {
    let tolerance = Self.rateTolerance + Self.rateDrift * Double(age)
    guard other.rate > 0, abs(other.rate - rate) <= tolerance * rate else { return false }
    return max(other.amplitude, amplitude) <= Self.largestAmplitudeRatio * min(other.amplitude, amplitude)
  }
}
