package import BLECore
package import ColmiRing

/// A ring's frames over a radio link that loses packets and none of what they carry: each frame waits for a connection
/// event in which it gets through, in the order of sending. Seeded; nothing here uses the code under test.
package struct LossyLink: Sendable {
  package enum Loss: String, Sendable { case events, packets }

  /// Ticks a second, by the ring's clock.
  package var rate: Double
  /// Seconds between connection events.
  package var interval: Double
  /// Events that the ring sleeps through when it had nothing left to send.
  package var latency = 0
  /// The share of events, or of packets, that fail. A second broken exchange in a row closes an event (Core 5.4, Vol 6,
  /// Part B, 4.5.1).
  package var loss = 0.0
  package var kind = Loss.packets
  package var seconds = 600.0
  /// For four seconds nothing gets through, each 97 s.
  package var hasStalls = false
  /// By how much the ring's clock is slow against the host's: parts per million.
  package var slow = 0.0
  /// How many of a thousand ticks the ring drops.
  package var droppedPerMille = 0
  package var seed: UInt64 = 1

  package init(rate: Double, interval: Double) {
    self.rate = rate
    self.interval = interval
  }

  package static let epoch: Int64 = 1_700_000_000_000_000_000
  /// Of an empty packet, a notification of 16 octets and two pauses, at 1 Mbit/s: seconds.
  private static let exchange = 0.000_68

  package struct Frame {
    /// Of the ring: dropped ones count.
    package var tick: Int
    package var sample: RingRawSample
    package var time: ReceiveTime
  }

  package var ticks: Int { Int(seconds * rate) }

  /// When the ring measured a tick: seconds by the host's clock.
  package func sensorTime(of tick: Int) -> Double { (Double(tick) + 0.37) / rate * (1 + slow * 1e-6) }

  package func isDropped(_ tick: Int) -> Bool {
    // Spread as a hash spreads them, so that a tick's fate does not depend on the link.
    let hash = (UInt64(tick) &+ 77) &* 0x9E37_79B9_7F4A_7C15
    return Int((hash >> 33) % 1_000) < droppedPerMille
  }

  /// Gives all frames as they arrive.
  ///
  /// - Returns: how many seconds later than sent the last frame came.
  package func run(_ body: (Frame) -> Void) -> Double {
    var random = seed &* 0x2545_F491_4F6C_DD1D | 1
    func chance() -> Double {
      random ^= random >> 12
      random ^= random << 25
      random ^= random >> 27
      return Double((random &* 0x2545_F491_4F6C_DD1D) >> 11) * 0x1p-53
    }
    // Frame n is part n % 3 of tick n / 3.
    var next = 0
    var event = 0
    var last = 0.0
    while next < 3 * ticks {
      if isDropped(next / 3) {
        next += 3
        continue
      }
      // The first event after the frame was made at which the ring listens.
      let due = Int((sensorTime(of: next / 3) / interval).rounded(.up))
      if due > event { event = max(event, (due + latency) / (latency + 1) * (latency + 1)) }
      let start = Double(event) * interval
      let isStalled = hasStalls && start > 20 && (start - 20).truncatingRemainder(dividingBy: 97) < 4
      var now = start
      var failures = isStalled || (kind == .events && chance() < loss) ? 2 : 0
      while failures < 2, next < 3 * ticks, now + Self.exchange < start + interval {
        if isDropped(next / 3) {
          next += 3
          continue
        }
        guard sensorTime(of: next / 3) <= start else { break }
        now += Self.exchange
        if kind == .packets, loss > 0, chance() < loss || chance() < loss {
          failures += 1
          continue
        }
        failures = 0
        let stamp = now + 0.000_05 + 0.000_1 * chance()
        last = max(last + 0.000_001, stamp)
        let tick = next / 3
        let value = UInt16(truncatingIfNeeded: tick)
        let sample: RingRawSample =
          switch next % 3 {
          case 0: .spO2(SpO2RawSample(value: value, max: 0, min: 0, diff: 0))
          case 1: .ppg(PPGRawSample(value: value, max: 0, min: 0, diff: 0))
          default: .accelerometer(AccelerometerSample(x: Int16(truncatingIfNeeded: tick), y: 0, z: 0))
          }
        let time = ReceiveTime(nanoseconds: Self.epoch + Int64(last * 1e9))
        body(Frame(tick: tick, sample: sample, time: time))
        next += 1
      }
      event += 1
    }
    return last - sensorTime(of: ticks - 1)
  }
}
