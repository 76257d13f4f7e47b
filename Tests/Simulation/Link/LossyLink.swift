package import BLEWire
package import ColmiRing

/// A ring's frames over a radio link that loses packets but does not damage them: each frame waits for a
/// connection event that delivers it, in the order of sending. Seeded, and independent of the code under
/// test.
package struct LossyLink: Sendable {
  package enum Loss: String, Sendable { case events, packets }

  /// The unit that a ring drops if its queue has no room for a tick.
  package enum Overflow: String, Sendable { case frames, ticks }

  /// Ticks per second, by the ring's clock.
  package var rate: Double
  /// Seconds between connection events, by the controller's clock.
  package var interval: Double
  /// Number of events that the ring skips when it has no data.
  package var latency = 0
  /// Fraction of events, or of packets, that fail. Two consecutive failed exchanges close an event (Core 5.4,
  /// Vol 6, Part B, 4.5.1).
  package var loss = 0.0
  package var kind = Loss.packets
  package var seconds = 600.0
  /// Whether no packet is delivered for four seconds in every 97 s.
  package var hasStalls = false
  /// Rate by which the ring's clock is slow relative to the host's, in parts per million.
  package var slow = 0.0
  /// Rate by which the controller's clock, which times the connection events, is slow relative to the host's,
  /// in parts per million.
  package var controllerSlow = 0.0
  /// Number of ticks that the ring drops, per thousand.
  package var droppedPerMille = 0
  /// Whether the distances between dropped ticks are random instead of almost equal.
  package var dropsAtRandom = false
  /// Maximum number of frames in a connection event.
  package var framesPerEvent = Int.max
  /// Maximum number of frames in the ring's queue.
  package var queueLimit = Int.max
  package var overflow = Overflow.ticks
  /// Periods in which the ring makes no ticks: start and end in seconds by its own clock.
  package var pauses: [(start: Double, end: Double)] = []
  /// Times at which the link is lost, by the host's clock, and delays after which the ring restarts its
  /// timer, in seconds.
  package var reconnects: [(at: Double, after: Double)] = []
  /// Step of the ring's timer, in seconds: it fires at whole multiples of the step; 0 for any time.
  package var timerStep = 0.0
  /// Maximum delay from the timer to the tick, in seconds.
  package var timerJitter = 0.0
  /// Mean delay until the host's kernel receives an event, in seconds. Ten times as long for one event in 50.
  package var hostJitter = 0.0
  /// Periods in which the host is late: start and end, and the minimum and maximum delay of each event's
  /// timestamp, in seconds.
  package var lateSpells: [(start: Double, end: Double, least: Double, most: Double)] = []
  /// Offset of the connection events from the host's epoch, as a fraction of an interval.
  package var phase = 0.0
  package var seed: UInt64 = 1

  package init(rate: Double, interval: Double) {
    self.rate = rate
    self.interval = interval
  }

  package static let epoch: Int64 = 1_700_000_000_000_000_000
  /// Duration of an empty packet, a notification of 16 bytes and two pauses, at 1 Mbit/s, in seconds.
  private static let exchange = 0.000_68

  package struct Frame {
    /// Number of the ring's tick; dropped ticks are included in the count.
    package var tick: Int
    package var sample: RingRawSample
    package var time: ReceiveTime
    package var link: Int
  }

  package var ticks: Int { Int(seconds * rate) }

  /// Ticks per second by the host's clock.
  package var trueRate: Double { rate / (1 + slow * 1e-6) }

  /// First tick of each run of the ring's timer, and the time at which the timer was started, in seconds by
  /// the host's clock.
  private var starts: [(tick: Int, at: Double)] {
    var starts = [(tick: 0, at: 0.0)]
    for link in reconnects {
      let last = starts[starts.count - 1]
      let tick = last.tick + max(0, Int((link.at - last.at) * trueRate))
      starts.append((tick, link.at + link.after))
    }
    return starts
  }

  /// Time at which the ring's timer was due for a tick, in seconds by the host's clock.
  package func sensorTime(of tick: Int) -> Double { sensorTime(of: tick, starts) }

  private func sensorTime(of tick: Int, _ starts: [(tick: Int, at: Double)]) -> Double {
    var place = starts.count - 1
    while place > 0, starts[place].tick > tick { place -= 1 }
    return starts[place].at + (Double(tick - starts[place].tick) + 0.37) / trueRate
  }

  /// Time at which the tick was made.
  private func made(_ tick: Int, _ starts: [(tick: Int, at: Double)]) -> Double {
    var time = sensorTime(of: tick, starts)
    if timerStep > 0 {
      let step = timerStep * (1 + slow * 1e-6)
      time = (time / step).rounded(.up) * step
    }
    if timerJitter > 0 {
      let hash = (UInt64(tick) &+ 1) &* 0xD134_2543_DE82_EF95 ^ seed &* 0x9E37_79B9_7F4A_7C15
      time += timerJitter * Double((hash &* 0x2545_F491_4F6C_DD1D) >> 11) * 0x1p-53
    }
    return time
  }

  package func isDropped(_ tick: Int) -> Bool {
    let time = Double(tick) / rate
    if pauses.contains(where: { $0.start <= time && time < $0.end }) { return true }
    // From the tick's number, so that a tick's drop does not depend on the link. The multiples of an
    // irrational number are spread almost evenly.
    var hash = (UInt64(tick) &+ 77) &* 0x9E37_79B9_7F4A_7C15
    if dropsAtRandom {
      hash = (hash ^ seed ^ (hash >> 30)) &* 0xBF58_476D_1CE4_E5B9
      hash = (hash ^ (hash >> 27)) &* 0x94D0_49BB_1331_11EB
      hash ^= hash >> 31
    }
    return Int((hash >> 33) % 1_000) < droppedPerMille
  }

  /// Calls `body` with all frames in order of arrival.
  ///
  /// - Returns: delay of the last frame in seconds.
  package func run(_ body: (Frame) -> Void) -> Double {
    var air = Air(self)
    while air.waitForEvent(of: self) { air.event(of: self, body) }
    return air.last - sensorTime(of: air.lastTick, air.starts)
  }

  /// State of ring and link at a connection event.
  private struct Air {
    let starts: [(tick: Int, at: Double)]
    let interval: Double
    let grid: Double
    private var random: UInt64
    /// Queued frames, by tick and part; `head` is the next one to send.
    private var queue: [(tick: Int, part: Int)] = []
    private var head = 0
    private var tick = 0
    private var link = 0
    private var due: Double
    private var number = 0
    var (last, lastTick) = (0.0, 0)

    init(_ lossy: LossyLink) {
      starts = lossy.starts
      interval = lossy.interval * (1 + lossy.controllerSlow * 1e-6)
      grid = lossy.phase * interval
      random = lossy.seed &* 0x2545_F491_4F6C_DD1D | 1
      due = lossy.made(0, starts)
    }

    private mutating func chance() -> Double {
      random ^= random >> 12
      random ^= random << 25
      random ^= random >> 27
      return Double((random &* 0x2545_F491_4F6C_DD1D) >> 11) * 0x1p-53
    }

    private mutating func makeNext(_ lossy: LossyLink) {
      tick += 1
      due = lossy.made(tick, starts)
    }

    private mutating func make(_ lossy: LossyLink) {
      let hasRoom = lossy.overflow == .frames || queue.count - head <= lossy.queueLimit - 3
      if !lossy.isDropped(tick), hasRoom {
        for part in 0..<3 where queue.count - head < lossy.queueLimit { queue.append((tick, part)) }
      }
      makeNext(lossy)
    }

    private var start: Double { grid + Double(number) * interval }

    private func isLost(_ lossy: LossyLink) -> Bool {
      link < lossy.reconnects.count && start >= lossy.reconnects[link].at
    }

    /// Advances to the next event at which the ring listens and has data.
    ///
    /// - Returns: Whether there is one.
    mutating func waitForEvent(of lossy: LossyLink) -> Bool {
      while tick < lossy.ticks || head < queue.count {
        // A lost link discards the queued frames.
        while isLost(lossy) {
          while tick < starts[link + 1].tick { makeNext(lossy) }
          (head, queue) = (0, [])
          number = max(number, Int(((due - grid) / interval).rounded(.up)))
          link += 1
        }
        guard head == queue.count else { return true }
        queue.removeAll(keepingCapacity: true)
        head = 0
        while tick < lossy.ticks, lossy.isDropped(tick) { makeNext(lossy) }
        guard tick < lossy.ticks else { return false }
        let first = Int(((due - grid) / interval).rounded(.up))
        let listens = lossy.latency + 1
        if first > number { number = max(number, (first + lossy.latency) / listens * listens) }
        if !isLost(lossy) { return true }
      }
      return false
    }

    mutating func event(of lossy: LossyLink, _ body: (Frame) -> Void) {
      let start = start
      while tick < lossy.ticks, due <= start { make(lossy) }
      let isStalled = lossy.hasStalls && start > 20 && (start - 20).truncatingRemainder(dividingBy: 97) < 4
      var now = start
      var failures = isStalled || (lossy.kind == .events && chance() < lossy.loss) ? 2 : 0
      var sent = 0
      var wait = lossy.hostJitter > 0 ? lossy.hostWait(chance(), chance()) : 0
      for spell in lossy.lateSpells where spell.start <= start && start < spell.end {
        wait += spell.least + (spell.most - spell.least) * chance()
      }
      while failures < 2, head < queue.count, sent < lossy.framesPerEvent,
        now + LossyLink.exchange < start + interval
      {
        now += LossyLink.exchange
        if lossy.kind == .packets, lossy.loss > 0, chance() < lossy.loss || chance() < lossy.loss {
          failures += 1
          continue
        }
        failures = 0
        last = max(last + 0.000_001, now + 0.000_05 + 0.000_1 * chance() + wait)
        lastTick = queue[head].tick
        body(lossy.frame(lastTick, queue[head].part, last, link))
        head += 1
        sent += 1
      }
      number += 1
    }
  }

  /// Draws an approximately exponential delay from two random numbers. A logarithm would need a C library.
  private func hostWait(_ first: Double, _ second: Double) -> Double {
    let wait = hostJitter * first / max(0.05, 1 - first)
    return second < 0.02 ? 10 * wait : wait
  }

  private func frame(_ tick: Int, _ part: Int, _ seconds: Double, _ link: Int) -> Frame {
    let value = UInt16(truncatingIfNeeded: tick)
    let sample: RingRawSample =
      switch part {
      case 0: .spO2(SpO2RawSample(value: value, max: 0, min: 0, diff: 0))
      case 1: .ppg(PPGRawSample(value: value, max: 0, min: 0, diff: 0))
      default: .accelerometer(AccelerometerSample(x: Int16(truncatingIfNeeded: tick), y: 0, z: 0))
      }
    let time = ReceiveTime(nanoseconds: Self.epoch + Int64(seconds * 1e9))
    return Frame(tick: tick, sample: sample, time: time, link: link)
  }
}
