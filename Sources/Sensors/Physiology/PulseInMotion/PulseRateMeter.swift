public import BLEWire

/// Measures the pulse at rest and in motion, and states the method of each value: `PulseMeter` if it found
/// good beats, otherwise `PulseTracker`. Pass each sample once. It allocates only at the start.
///
/// If accepted intervals fill an 8 s window except for its ends, its pulse is their mean; otherwise it is the
/// tracked pulse. A window waits until both methods have decided: at most about 11 s after its end. The
/// contained `PulseMeter` works as it does on its own; its windows and beats are available for interval
/// analysis.
public struct PulseRateMeter: Sendable {
  /// Maximum part of a window without accepted intervals, in intervals: the two that the window's ends cut,
  /// and half of another.
  public static let mostMissingIntervals = 2.5
  /// Maximum time that a window waits for beats, in seconds. Beats are decided every ten seconds, with a
  /// delay of 0.7 s.
  public static let longestWaitSeconds = 12.0
  /// Quality of a pulse found by beats if an accelerometer shows that the hand was still. In six runs on a
  /// treadmill and in the signals with known beats, each such window was correct.
  public static let beatQuality = 0.98
  /// Quality of a pulse found by beats without an accelerometer, if the beats of the last minute are steady;
  /// other beats are not reported. Each such window of four patients at rest and of six people who ran was
  /// correct. A minute of steps that look like beats would be reported as a pulse.
  public static let blindBeatQuality = 0.94
  private static let windowCapacity = 32
  private static let beatCapacity = 256

  private var meter: PulseMeter
  private var tracker: PulseTracker
  private var waiting = WindowQueue(capacity: windowCapacity)
  private var decided = WindowQueue(capacity: windowCapacity)
  /// The last accepted beats; number n is at n modulo the capacity.
  private var beats: [PulseBeat]
  private var beatCount = 0
  private var steadiness = SteadyBeats()
  /// Whether each of `beats` belongs to a window with steady beats.
  private var isSteady = [Bool](repeating: false, count: beatCapacity)
  /// Time up to which beats are decided, in nanoseconds.
  private var decidedTime = Int64.min
  private var lastTime = Int64.min

  /// - Parameter rate: samples per second; need not be exact.
  /// - Throws: `tooSlow` below `PulseDetector.minimumRate`.
  public init(rate: Double) throws(PulseMeter.Refusal) {
    meter = try PulseMeter(rate: rate)
    tracker = try PulseTracker(rate: rate)
    beats = [PulseBeat](
      repeating: PulseBeat(time: ReceiveTime(nanoseconds: 0), interval: nil, isAccepted: false),
      count: Self.beatCapacity)
  }

  /// Number of beats of the window that `take` or `finish` returned last.
  public var windowBeatCount: Int { meter.beatCount }

  /// Beat `index` of the window that `take` or `finish` returned last, below `windowBeatCount`.
  public func beat(_ index: Int) -> PulseBeat { meter.beat(index) }

  /// Processes the next sample; a sample without light counts as missing. Call `next` for the completed
  /// windows.
  ///
  /// - Returns: a window of the beat meter that is now complete, as from `PulseMeter`.
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
  /// - Returns: the last window of the beat meter.
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

  /// Decides all windows, because no more information about them will follow.
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

  /// Returns the window with the pulse of its accepted intervals, or with the reason why it is not reported;
  /// `nil` if there are too few intervals.
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

/// The method by which a pulse was found.
public enum PulseMethod: String, Hashable, Sendable, CaseIterable {
  /// Single beats were found: `PulseMeter`.
  case beats
  /// The frequency was tracked, with the accelerometer's part removed: `PulseTracker`.
  case tracking
}

/// A pulse and its quality.
public struct PulseEstimate: Hashable, Sendable {
  /// Minimum quality of a pulse for consumers that cannot evaluate the quality: `HomeAssistant`, a bike
  /// computer.
  public static let goodQuality = 0.8

  public var beatsPerMinute: Double
  /// Share of windows whose pulse was within 5 beats per minute, as measured for windows of this quality: 0 …
  /// 1.
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
  /// The light jumped, for example because the sensor was lifted, and more than a third of the window is
  /// missing or unsettled.
  case unsettled
  /// The light is constant.
  case noSignal
  /// The light does not repeat itself like a pulse: noise, no finger, or a sine, for example of a lamp.
  case noise
  /// The light repeats itself at another rate than the tracked one, often half or twice that rate.
  case octave
  /// No beats were found, and a tracked pulse cannot be distinguished from movement without an accelerometer.
  case noAccelerometer
  /// Beats were found only in some windows, and there is no accelerometer: the beats may be steps.
  case unsteadyBeats

  /// A short description of the reason.
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

/// Eight seconds of a plethysmogram. The next window begins two seconds later.
public struct PulseRateWindow: Hashable, Sendable {
  public static let seconds = 8.0
  public static let stepSeconds = 2.0

  /// Start time by the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// The pulse; `nil` exactly if `absence` is set.
  public var pulse: PulseEstimate?
  public var absence: PulseAbsence?
  /// Root mean square of the acceleration of all axes, 0.5 … 5 Hz, in g. `nil` without an accelerometer.
  public var motion: Double?
  /// Correlation of the light with itself one beat later, at the best rate: −1 … 1. `nil` if the light is
  /// constant.
  public var periodicity: Double?
  /// The model's own probability that a tracked pulse is within 5 beats per minute, if its line was accepted
  /// (`TrackedLine`). The quality is derived from it.
  package var trackingProbability: Double?

  public init(
    start: ReceiveTime, end: ReceiveTime, pulse: PulseEstimate? = nil, absence: PulseAbsence? = nil,
    motion: Double? = nil, periodicity: Double? = nil
  ) {
    (self.start, self.end, self.pulse, self.absence) = (start, end, pulse, absence)
    (self.motion, self.periodicity) = (motion, periodicity)
  }
}

/// Decides without an accelerometer whether beats are a pulse at rest. Steps also look like beats, but not in
/// every window.
///
/// At rest, nearly every window of ten seconds has beats, at nearly the same rate and height as before. While
/// a person runs, only some windows have beats, at the rate of the steps, of every second or third step, or
/// of the pulse. A single window does not show which of these it is, so a window is judged by the windows of
/// the last minute. It allocates only at the start.
struct SteadyBeats {
  /// Number of beat-meter windows that are compared: one minute.
  static let count = 6
  /// Maximum difference between the rates of two windows, as a share.
  private static let rateTolerance = 0.2
  private static let rateDrift = 0.02
  /// Maximum ratio of two amplitudes.
  private static let largestAmplitudeRatio = 2.2
  /// Minimum share of similar windows, after adding two windows to the total and one to the similar ones.
  static let leastShare = 0.6
  /// Range of usual rates. Faster beats may be steps, and slower ones every second or third step.
  private static let usualRates = 45.0..<100.0
  private static let leastUnusual = 4

  private struct Past {
    var rate = 0.0
    var amplitude = 0.0
  }

  /// The last windows; window n is at n modulo the count.
  private var past = [Past](repeating: Past(), count: count)
  private var taken = 0

  /// Processes the next window of the beat meter.
  ///
  /// - Returns: whether its beats are steady.
  mutating func take(_ window: PulseWindow) -> Bool {
    // An interrupted window gives no information about the others.
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
