public import BLEWire

/// What the ring sent at one tick of its timer: a frame of each subtype, or those of them that came.
///
/// The ring sends the three frames back to back (reference `colmi-ring-protocol.md`, 5.3). Nothing in a frame
/// says which belong together; `RingTickGrouper` decides.
@frozen public struct RingTick: Hashable, Sendable, BitwiseCopyable {
  /// What a tick has one frame of each of, in the order of sending.
  @frozen public enum Part: Int, CaseIterable, Sendable { case spO2, ppg, accelerometer }

  /// The kernel's stamp of the first of its frames.
  public var time: ReceiveTime
  public var spO2: SpO2RawSample?
  public var ppg: PPGRawSample?
  public var accelerometer: AccelerometerSample?
  /// The kernel's stamps of the single frames; `nil` for those that did not come.
  public var spO2Time: ReceiveTime?
  public var ppgTime: ReceiveTime?
  public var accelerometerTime: ReceiveTime?
  /// By how much the kernel's clock had been set before the first of its frames came, and by how much before those in `laterParts`,
  /// if it was set between two of them: nanoseconds. See `ClockSetting.offset`.
  @usableFromInline var (clockOffset, laterOffset): (Int64, Int64) = (0, 0)
  /// Bits of `Part`.
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

  /// The kernel's stamp of one of its frames; `nil` where that did not come.
  public func time(of part: Part) -> ReceiveTime? {
    switch part {
    case .spO2: spO2Time
    case .ppg: ppgTime
    case .accelerometer: accelerometerTime
    }
  }

  /// When the first of its frames came, by the clock as it was at the start of the stream: nanoseconds.
  var steadyTime: Int64 { time.nanoseconds &- clockOffset }

  /// The same of one of its frames; `nil` if that did not come.
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
  /// Its place in a tick; `nil` for a subtype that nobody knows.
  public var part: RingTick.Part? {
    switch self {
    case .spO2: .spO2
    case .ppg: .ppg
    case .accelerometer: .accelerometer
    case .unknown: nil
    }
  }
}

/// Groups the frames of the raw stream into ticks, by their order. Fixed memory, allocated at the start; one tick of it.
///
/// A tick ends where a subtype comes that it has already, or that is sent before one that it has. So a lost frame
/// leaves its place empty and does not shift the others. Time says nothing: a link that loses packets may hold back a
/// part of a tick for seconds, and loses none of it. Only where ticks are half a second apart or more does a pause of six
/// tenths of a tick part them, for the case that all frames in between were lost by the ring.
///
/// The order is 1, 2, 3 (SpO2, PPG, accelerometer) until the stream shows another: the ring sends a tick at once, so
/// the frame that usually comes first after a pause is the first of a tick. A link that is full pauses anywhere in a tick.
/// So another order is believed only if the stream began with it, or if events show that the link has room.
public struct RingTickGrouper: Sendable {
  private static let kinds = 3
  /// Frames after which the order is read from the pauses; then after each doubling, up to the last.
  private static let learningFrames = 48
  private static let lastLearningFrames = 3_072
  /// A frame after such a pause may be the first of a tick: nanoseconds.
  private static let pause: Int64 = 5_000_000
  /// How often the first of a tick must have come after a pause to be believed, and so many times as often as others.
  private static let leastPauses = 12
  private static let pauseLead = 3
  /// Ticks that are so far apart, or more, are parted by a pause: nanoseconds.
  private static let slowPeriod = 500_000_000.0

  private var tick: RingTick?
  /// Bits of the kinds that `tick` has.
  private var present: UInt8 = 0
  private var lastRank = -1
  private var lastTime: Int64 = 0
  private var previousTickTime: Int64?
  /// From tick to tick, smoothed: nanoseconds.
  private var period: Double?
  /// Place of each kind in a tick: SpO2, PPG, accelerometer.
  private var rank: InlineArray<3, Int> = [0, 1, 2]
  /// How often each kind came after a pause.
  private var pauses: InlineArray<3, Int> = [0, 0, 0]
  /// How often the kind of the second index followed that of the first.
  private var followers: InlineArray<9, Int> = .init(repeating: 0)
  private var lastKind: Int?
  private var firstKind: Int?
  private(set) var load = EventLoad()
  private var seen = 0
  private var nextLook = Self.learningFrames

  public init() {}

  /// Takes the next frame, in the order of arrival.
  ///
  /// - Parameter offset: by how much the clock of `time` had been set since the start: nanoseconds.
  /// - Returns: the tick before, if this frame starts another. A subtype that nobody knows belongs to no tick.
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

  /// The last tick, at the end of the stream.
  public mutating func finish() -> RingTick? {
    defer {
      tick = nil
      present = 0
      lastRank = -1
    }
    return tick
  }

  /// Begins with another link: its stream begins with a tick of its own.
  ///
  /// - Returns: the last tick of the link before.
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
    // A wall clock that was set back says nothing about the period, which would run away; nor does a pause of the stream.
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

  /// Takes another order only where the pauses leave no doubt.
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
