import BLEWire

/// Puts frames with the same timestamp into the ring's order, so that a live link and the tables of its
/// capture give the same ticks. Fixed memory.
///
/// The table of each subtype keeps its own order, but not the order of frames of different subtypes with the
/// same timestamp. Frames with the same timestamp are therefore held until another timestamp arrives. They
/// are then released in the ring's order, continuing after the last frame before. If a subtype has more than
/// `capacity` frames with one timestamp, the held frames are released early.
struct StampOrder: Sendable {
  static let capacity = 64
  private static let parts = RingTick.Part.allCases.count

  /// `capacity` elements for each part.
  private var waiting: [RingRawSample]
  private var taken: InlineArray<3, Int> = [0, 0, 0]
  private var held: InlineArray<3, Int> = [0, 0, 0]
  private var time = ReceiveTime(nanoseconds: .min)
  private var link = 0
  private var clock = ClockSetting()
  private var lastPart = Self.parts - 1
  /// The frame that did not fit: it has the next timestamp, or there was no room for it.
  private var next: (sample: RingRawSample, time: ReceiveTime, link: Int, clock: ClockSetting)?
  private var isLettingGo = false

  init() {
    let none = RingRawSample.accelerometer(AccelerometerSample(x: 0, y: 0, z: 0))
    waiting = [RingRawSample](repeating: none, count: Self.parts * Self.capacity)
  }

  /// Takes the next frame. Call `pop` until it returns `nil` before the next `take`.
  mutating func take(_ sample: RingRawSample, at time: ReceiveTime, link: Int, _ clock: ClockSetting) {
    guard let part = sample.part?.rawValue else { return }
    if time == self.time, link == self.link, clock == self.clock, held[part] < Self.capacity {
      return hold(sample, part)
    }
    next = (sample, time, link, clock)
    isLettingGo = true
  }

  /// Ends the input.
  mutating func finish() { isLettingGo = true }

  /// Returns the next frame in order; `nil` if more input is needed.
  mutating func pop() -> (sample: RingRawSample, time: ReceiveTime, link: Int, clock: ClockSetting)? {
    guard isLettingGo else { return nil }
    for step in 1...Self.parts {
      let part = (lastPart + step) % Self.parts
      guard taken[part] < held[part] else { continue }
      defer { taken[part] += 1 }
      lastPart = part
      return (waiting[part * Self.capacity + taken[part]], time, link, clock)
    }
    isLettingGo = false
    for part in 0..<Self.parts { (taken[part], held[part]) = (0, 0) }
    if let (sample, time, link, clock) = next, let part = sample.part?.rawValue {
      (self.time, self.link, self.clock) = (time, link, clock)
      hold(sample, part)
    }
    next = nil
    return nil
  }

  private mutating func hold(_ sample: RingRawSample, _ part: Int) {
    waiting[part * Self.capacity + held[part]] = sample
    held[part] += 1
  }
}
