import BLEWire

/// The pulse at rest and in motion, with the method that each figure is from: `PulseMeter` where it found good beats,
/// else `PulseTracker`. It takes each sample once. No allocation after the start.
///
/// A window of 8 s has the mean of the accepted intervals that lie in it, if they fill it but for its
/// ends; else the tracked pulse. It waits until both have decided: some 11 s after its end at most. The beat meter inside is
/// the same as alone, and its windows and beats are there for whoever needs intervals.
public struct PulseRateMeter: Sendable {
  /// What accepted intervals leave of a window, at most: the ones that its ends cut, and half of another.
  public static let mostMissingIntervals = 2.5
  /// How long a window waits for beats: seconds. Beats are decided every ten, some 0.7 s late.
  public static let longestWaitSeconds = 12.0
  /// Quality of a pulse by beats with an accelerometer, which says that the hand was still: of six runs on a treadmill
  /// and the signals with known beats each such window was right.
  public static let beatQuality = 0.98
  /// The same without an accelerometer: of four patients at rest each such window was right, of people who run it depends on
  /// their steps.
  public static let blindBeatQuality = 0.94
  /// Beats a minute. Faster ones without an accelerometer may be steps, slower ones every second or third of them.
  public static let blindRates = 45.0..<100.0
  public static let blindOtherQuality = 0.45
  private static let windowCapacity = 32
  private static let beatCapacity = 256

  private var meter: PulseMeter
  private var tracker: PulseTracker
  private var waiting = WindowQueue(capacity: windowCapacity)
  private var decided = WindowQueue(capacity: windowCapacity)
  /// The last accepted beats, number n at n modulo the capacity.
  private var beats: [PulseBeat]
  private var beatCount = 0
  /// Until when beats are decided.
  private var decidedTime = Int64.min
  private var lastTime = Int64.min

  /// - Parameter rate: samples a second; need not be exact.
  /// - Throws: `tooSlow` below `PulseDetector.minimumRate`.
  public init(rate: Double) throws(PulseMeter.Refusal) {
    meter = try PulseMeter(rate: rate)
    tracker = try PulseTracker(rate: rate)
    beats = [PulseBeat](
      repeating: PulseBeat(time: ReceiveTime(nanoseconds: 0), interval: nil, isAccepted: false),
      count: Self.beatCapacity)
  }

  /// Beats of the window that `take` or `finish` returned last.
  public var windowBeatCount: Int { meter.beatCount }

  /// Beat `index` of the window that `take` or `finish` returned last, below `windowBeatCount`.
  public func beat(_ index: Int) -> PulseBeat { meter.beat(index) }

  /// Takes the next sample. One without light is missing. What is complete then waits for `next`.
  ///
  /// - Returns: a window of the beat meter that is complete now, as from `PulseMeter`.
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

  /// The next window that is complete: ask until there is none.
  public mutating func next() -> PulseRateWindow? { decided.next() }

  /// Ends the stream: the last windows wait for `next` too.
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
    for index in 0..<meter.beatCount where meter.beat(index).isAccepted {
      beats[beatCount % Self.beatCapacity] = meter.beat(index)
      beatCount += 1
    }
  }

  /// Nothing that is known of the windows so far will change.
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

  /// The window with the pulse of its accepted intervals; `nil` if there are too few.
  private func byBeats(_ window: PulseRateWindow) -> PulseRateWindow? {
    let (start, end) = (window.start.nanoseconds, window.end.nanoseconds)
    var sum = 0.0
    var count = 0
    for number in max(0, beatCount - Self.beatCapacity)..<beatCount {
      let beat = beats[number % Self.beatCapacity]
      guard let interval = beat.interval, beat.time.nanoseconds <= end,
        Double(beat.time.nanoseconds &- start) >= interval * 1e9
      else { continue }
      sum += interval
      count += 1
    }
    let missing = PulseRateWindow.seconds - sum
    guard count > 0, missing <= Self.mostMissingIntervals * sum / Double(count) else { return nil }
    var result = window
    let perMinute = 60 * Double(count) / sum
    result.absence = nil
    result.pulse = PulseEstimate(
      beatsPerMinute: perMinute, quality: Self.quality(perMinute, isBlind: window.motion == nil),
      method: .beats)
    return result
  }

  private static func quality(_ perMinute: Double, isBlind: Bool) -> Double {
    guard isBlind else { return beatQuality }
    return blindRates.contains(perMinute) ? blindBeatQuality : blindOtherQuality
  }
}
