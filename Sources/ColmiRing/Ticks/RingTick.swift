public import BLECore

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

  mutating func take(_ sample: RingRawSample, at time: ReceiveTime) {
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

/// Groups the frames of the raw stream into ticks. No allocation; one tick of memory.
///
/// A tick ends where a subtype comes that it has already, or that is sent before one that it has. So a lost frame
/// leaves its place empty and does not shift the others. What order cannot tell, time does: where the frames of
/// two ticks would fit together because several in between were lost, a pause of more than six tenths of a tick
/// parts them, but no shorter one than 60 ms, since a retransmission may hold back a part of a tick.
///
/// The order is 1, 2, 3 (SpO2, PPG, accelerometer) until the stream shows another: the longest pause on average
/// is the one before a tick's first frame.
public struct RingTickGrouper: Sendable {
  private static let kinds = 3
  /// Ticks after which the order is read from the pauses.
  private static let learningFrames = 48
  /// A pause that parts whatever the order allows, at least: nanoseconds.
  private static let minimumSplit: Int64 = 60_000_000

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
  private var pauses: InlineArray<3, Double> = [0, 0, 0]
  private var frames: InlineArray<3, Int> = [0, 0, 0]
  /// How often the kind of the second index followed that of the first.
  private var followers: InlineArray<9, Int> = .init(repeating: 0)
  private var lastKind: Int?
  private var seen = 0

  public init() {}

  /// Takes the next frame, in the order of arrival.
  ///
  /// - Returns: the tick before, if this frame starts another. A subtype that nobody knows belongs to no tick.
  public mutating func take(_ sample: RingRawSample, at time: ReceiveTime) -> RingTick? {
    guard let kind = sample.part?.rawValue else { return nil }
    let now = time.nanoseconds
    learn(kind, now)
    let startsTick = startsTick(kind, now)
    let finished = startsTick ? finish() : nil
    if startsTick {
      if let before = previousTickTime { smooth(Double(now - before)) }
      previousTickTime = now
      tick = RingTick(time: time)
    }
    tick?.take(sample, at: time)
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

  private func startsTick(_ kind: Int, _ now: Int64) -> Bool {
    guard tick != nil, present & (1 << UInt8(kind)) == 0, rank[kind] > lastRank else { return true }
    let split = max(Self.minimumSplit, Int64(0.6 * (period ?? 0)))
    return now - lastTime > split
  }

  private mutating func smooth(_ interval: Double) {
    // A wall clock that was set back says nothing about the period, which would run away; nor does a pause of the stream.
    guard interval >= 0 else { return }
    guard let period else { return self.period = interval }
    self.period = period + 0.1 * (min(interval, 2 * period) - period)
  }

  // MARK: Order

  private mutating func learn(_ kind: Int, _ now: Int64) {
    if let lastKind {
      // No retransmission takes longer than this and no stock ring pauses longer than that: it does not count more.
      pauses[kind] += Double(min(max(0, now - lastTime), 1_000_000_000))
      frames[kind] += 1
      followers[lastKind * Self.kinds + kind] += 1
    }
    lastKind = kind
    seen += 1
    if seen == Self.learningFrames { readOrder() }
  }

  /// Takes another order only where the pauses leave no doubt.
  private mutating func readOrder() {
    var first: Int?
    var longest = 0.0
    var second = 0.0
    for kind in 0..<Self.kinds where frames[kind] > 0 {
      let pause = pauses[kind] / Double(frames[kind])
      if pause > longest {
        (second, longest, first) = (longest, pause, kind)
      } else if pause > second {
        second = pause
      }
    }
    guard let first, longest > 3 * second else { return }
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
