public import BLEWire

/// Frames of one tick of the ring's timer: at most one of each subtype.
///
/// The ring sends the three frames back to back (reference `colmi-ring-protocol.md`, 5.3). The frames contain
/// no tick number; `RingTickGrouper` groups them.
@frozen public struct RingTick: Hashable, Sendable, BitwiseCopyable {
  /// Kinds of frames in a tick, in the order of transmission.
  @frozen public enum Part: Int, CaseIterable, Sendable { case spO2, ppg, accelerometer }

  /// Kernel timestamp of the tick's first frame.
  public var time: ReceiveTime
  public var spO2: SpO2RawSample?
  public var ppg: PPGRawSample?
  public var accelerometer: AccelerometerSample?
  /// Kernel timestamp of the SpO₂ frame; `nil` if the frame is missing.
  public var spO2Time: ReceiveTime?
  /// Kernel timestamp of the PPG frame; `nil` if the frame is missing.
  public var ppgTime: ReceiveTime?
  /// Kernel timestamp of the accelerometer frame; `nil` if the frame is missing.
  public var accelerometerTime: ReceiveTime?
  /// Values of `ClockSetting.offset` in nanoseconds: for the first frame's timestamp, and for the timestamps
  /// of the frames in `laterParts`. They differ if the clock was set between two frames.
  @usableFromInline var (clockOffset, laterOffset): (Int64, Int64) = (0, 0)
  /// Bit set of `Part`.
  @usableFromInline var laterParts: UInt8 = 0

  @inlinable public init(
    time: ReceiveTime, spO2: SpO2RawSample? = nil, ppg: PPGRawSample? = nil,
    accelerometer: AccelerometerSample? = nil
  ) {
    self.time = time
    self.spO2 = spO2
    self.ppg = ppg
    self.accelerometer = accelerometer
    spO2Time = spO2.map { _ in time }
    ppgTime = ppg.map { _ in time }
    accelerometerTime = accelerometer.map { _ in time }
  }

  /// Returns the kernel timestamp of a frame; `nil` if the frame is missing.
  public func time(of part: Part) -> ReceiveTime? {
    switch part {
    case .spO2: spO2Time
    case .ppg: ppgTime
    case .accelerometer: accelerometerTime
    }
  }

  /// Timestamp of the first frame on the wall clock as it was set at the start of the stream, in nanoseconds.
  var steadyTime: Int64 { time.nanoseconds &- clockOffset }

  /// Returns the timestamp of a frame on the wall clock as it was set at the start of the stream, in
  /// nanoseconds; `nil` if the frame is missing.
  func steadyTime(of part: Part) -> Int64? {
    let isLater = laterParts & 1 << UInt8(part.rawValue) != 0
    return time(of: part).map { $0.nanoseconds &- (isLater ? laterOffset : clockOffset) }
  }

  mutating func take(_ sample: RingRawSample, at time: ReceiveTime, offset: Int64) {
    if offset != clockOffset, let part = sample.part {
      laterParts |= 1 << UInt8(part.rawValue)
      laterOffset = offset
    }
    switch sample {
    case .spO2(let sample): (spO2, spO2Time) = (sample, time)
    case .ppg(let sample): (ppg, ppgTime) = (sample, time)
    case .accelerometer(let sample): (accelerometer, accelerometerTime) = (sample, time)
    case .unknown: break
    }
  }
}

extension RingRawSample {
  /// Part of the tick that contains the sample; `nil` for an unknown subtype.
  public var part: RingTick.Part? {
    switch self {
    case .spO2: .spO2
    case .ppg: .ppg
    case .accelerometer: .accelerometer
    case .unknown: nil
    }
  }
}

/// Groups the frames of the raw stream into ticks by their order. Memory is fixed and holds one tick.
///
/// A new tick starts with a subtype that the current tick already has, or that belongs before one of its
/// frames. A lost frame therefore leaves its place empty and does not shift the other frames. Time is
/// normally not used, because a link that loses packets can delay part of a tick for seconds without losing
/// it. But if the period is at least half a second, a pause of 0.6 periods separates two ticks, in case the
/// ring lost all frames between.
///
/// The initial order is 1, 2, 3 (SpO2, PPG, accelerometer); it can change during the stream. The ring sends
/// the frames of a tick together, so the frame that usually follows a pause is the first frame of a tick. A
/// link at its capacity, however, can pause anywhere in a tick. Another order is therefore accepted only if
/// the stream began with it, or if events show that the link has spare capacity.
public struct RingTickGrouper: Sendable {
  private static let kinds = 3
  /// Number of frames after which the order is determined from the pauses. This is repeated whenever the
  /// number of frames has doubled.
  private static let learningFrames = 48
  /// Number of frames after which the order no longer changes.
  private static let lastLearningFrames = 3_072
  /// Minimum pause before the first frame of a tick, in nanoseconds.
  private static let pause: Int64 = 5_000_000
  /// Minimum number of pauses before the first frame of a tick for a change of the order.
  private static let leastPauses = 12
  /// Minimum ratio of these pauses to the pauses before other frames.
  private static let pauseLead = 3
  /// Minimum period at which a pause separates two ticks, in nanoseconds.
  private static let slowPeriod = 500_000_000.0

  private var tick: RingTick?
  /// Bit set of the kinds in `tick`.
  private var present: UInt8 = 0
  private var lastRank = -1
  private var lastTime: Int64 = 0
  private var previousTickTime: Int64?
  /// Smoothed time between ticks, in nanoseconds.
  private var period: Double?
  /// Position of each kind in a tick: SpO2, PPG, accelerometer.
  private var rank: InlineArray<3, Int> = [0, 1, 2]
  /// Number of times each kind arrived after a pause.
  private var pauses: InlineArray<3, Int> = [0, 0, 0]
  /// Number of times each kind followed another kind: index `3 * first + second`.
  private var followers: InlineArray<9, Int> = .init(repeating: 0)
  private var lastKind: Int?
  private var firstKind: Int?
  private(set) var load = EventLoad()
  private var seen = 0
  private var nextLook = Self.learningFrames

  public init() {}

  /// Processes the next frame, in the order of arrival.
  ///
  /// - Parameters:
  ///   - sample: the frame.
  ///   - time: time at which the frame was received.
  ///   - offset: `ClockSetting.offset` of `time`, in nanoseconds.
  /// - Returns: the previous tick, if this frame starts another tick. Frames of unknown subtypes are ignored.
  public mutating func take(_ sample: RingRawSample, at time: ReceiveTime, offset: Int64 = 0) -> RingTick? {
    guard let kind = sample.part?.rawValue else { return nil }
    let now = time.nanoseconds &- offset
    learn(kind, now)
    let startsTick = startsTick(kind, now)
    let finished = startsTick ? finish() : nil
    if startsTick {
      if let before = previousTickTime { smooth(Double(now &- before)) }
      previousTickTime = now
      tick = RingTick(time: time)
      tick?.clockOffset = offset
    }
    tick?.take(sample, at: time, offset: offset)
    present |= 1 << UInt8(kind)
    lastRank = rank[kind]
    lastTime = now
    return finished
  }

  /// Returns the last tick at the end of the stream.
  public mutating func finish() -> RingTick? {
    defer {
      tick = nil
      present = 0
      lastRank = -1
    }
    return tick
  }

  /// Starts another link, whose stream begins with a new tick.
  ///
  /// - Returns: the last tick of the previous link.
  mutating func beginLink() -> RingTick? {
    (lastKind, previousTickTime) = (nil, nil)
    return finish()
  }

  private func startsTick(_ kind: Int, _ now: Int64) -> Bool {
    guard tick != nil, present & (1 << UInt8(kind)) == 0, rank[kind] > lastRank else { return true }
    guard let period, period >= Self.slowPeriod else { return false }
    return Double(now &- lastTime) > 0.6 * period
  }

  private mutating func smooth(_ interval: Double) {
    // Ignore backward steps of the wall clock, which would make the period diverge, and limit pauses of the
    // stream.
    guard interval >= 0 else { return }
    guard let period else { return self.period = interval }
    self.period = period + 0.1 * (min(interval, 2 * period) - period)
  }

  // MARK: Order

  private mutating func learn(_ kind: Int, _ now: Int64) {
    load.take(now)
    if let lastKind {
      if now &- lastTime > Self.pause { pauses[kind] += 1 }
      followers[lastKind * Self.kinds + kind] += 1
    } else {
      firstKind = kind
    }
    lastKind = kind
    guard seen < Self.lastLearningFrames else { return }
    seen += 1
    guard seen == nextLook else { return }
    nextLook *= 2
    readOrder()
  }

  /// Changes the order if the pauses are unambiguous.
  private mutating func readOrder() {
    var first = 0
    for kind in 1..<Self.kinds where pauses[kind] > pauses[first] { first = kind }
    for kind in 0..<Self.kinds where kind != first {
      guard pauses[first] >= max(Self.leastPauses, Self.pauseLead * pauses[kind]) else { return }
    }
    guard first == firstKind || load.hasRoom else { return }
    let (a, b) = ((first + 1) % Self.kinds, (first + 2) % Self.kinds)
    let aFollows = followers[first * Self.kinds + a] >= followers[first * Self.kinds + b]
    rank[first] = 0
    rank[a] = aFollows ? 1 : 2
    rank[b] = aFollows ? 2 : 1
    lastRank = -1
    for kind in 0..<Self.kinds where present & (1 << UInt8(kind)) != 0 {
      lastRank = max(lastRank, rank[kind])
    }
  }
}
