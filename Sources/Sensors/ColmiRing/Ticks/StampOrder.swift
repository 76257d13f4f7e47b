import BLEWire

/// Puts frames with one and the same stamp in the order of a ring: what came on the link and what stands in the tables
/// of a capture then make the same ticks. Fixed memory.
///
/// The table of each subtype keeps its own order, but not which frame of another came between two with one stamp. So
/// frames with the same stamp are held back until another stamp comes, and then follow each other as the ring sends
/// them, from the one after the last frame before. More than `capacity` of one subtype with one stamp are let go.
struct StampOrder: Sendable {
  static let capacity = 64
  private static let parts = RingTick.Part.allCases.count

  /// A row of `capacity` for each part.
  private var waiting: [RingRawSample]
  private var taken: InlineArray<3, Int> = [0, 0, 0]
  private var held: InlineArray<3, Int> = [0, 0, 0]
  private var time = ReceiveTime(nanoseconds: .min)
  private var link = 0
  private var clock = ClockSetting()
  private var lastPart = Self.parts - 1
  /// What came with the next stamp, or found no room.
  private var next: (sample: RingRawSample, time: ReceiveTime, link: Int, clock: ClockSetting)?
  private var isLettingGo = false

  init() {
    let none = RingRawSample.accelerometer(AccelerometerSample(x: 0, y: 0, z: 0))
    waiting = [RingRawSample](repeating: none, count: Self.parts * Self.capacity)
  }

  /// Takes the next frame. Call `pop` until it gives nothing before the next `take`.
  mutating func take(_ sample: RingRawSample, at time: ReceiveTime, link: Int, _ clock: ClockSetting) {
    guard let part = sample.part?.rawValue else { return }
    if time == self.time, link == self.link, clock == self.clock, held[part] < Self.capacity {
      return hold(sample, part)
    }
    next = (sample, time, link, clock)
    isLettingGo = true
  }

  /// Nothing more comes.
  mutating func finish() { isLettingGo = true }

  /// The next frame in order, or `nil` until more are known.
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
