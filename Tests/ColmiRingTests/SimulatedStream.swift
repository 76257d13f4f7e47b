import BLEWire
import ColmiRing
import Foundation
import TestKit
import Testing

/// A ring's ticks as a radio link delivers them: known times on the sensor's clock, and delayed arrivals.
///
/// A tick waits for the next connection event, or for several events if it is retransmitted. It never
/// overtakes an earlier tick, and needs up to half a millisecond to reach the kernel. Seeded, and independent
/// of the code under test.
struct SimulatedStream: CustomTestStringConvertible {
  /// Ticks per second.
  var rate: Double
  /// Seconds between connection events.
  var connectionInterval: Double
  var ticks: Int
  /// Numbers of ticks that never arrive.
  var lost: Set<Int> = []
  /// Probability that an event loses all packets.
  var lossOfEvents = 0.02
  /// From this tick on nothing is delivered for the given time. Then all delayed ticks are delivered at once.
  var stall: (tick: Int, seconds: Double)?

  var testDescription: String { "\(rate) Hz, events each \(connectionInterval * 1_000) ms" }

  struct Arrival {
    var number: Int
    /// Time in seconds on the sensor's clock, which equals the host's here, and time of arrival in the
    /// kernel.
    var sensor: Double
    var kernel: ReceiveTime
  }

  static let epoch: Int64 = 1_700_000_000_000_000_000

  var arrivals: [Arrival] {
    var noise = Noise()
    var arrivals: [Arrival] = []
    var event = 0
    for number in 0..<ticks {
      let sensor = (Double(number) + 0.37) / rate
      if lost.contains(number) { continue }
      let needed = Int((sensor / connectionInterval).rounded(.up))
      if needed > event {
        event = needed
        while noise.next() < lossOfEvents { event += 1 }
      }
      if let stall {
        let end = (Double(stall.tick) / rate + stall.seconds) / connectionInterval
        if number >= stall.tick, Double(event) < end { event = Int(end.rounded(.up)) }
      }
      var time = Double(event) * connectionInterval + 0.000_3 + 0.000_5 * noise.next()
      // Packets of one event follow each other.
      if let last = arrivals.last { time = max(time, last.kernelSeconds + 0.000_1) }
      arrivals.append(
        Arrival(
          number: number, sensor: sensor,
          kernel: ReceiveTime(nanoseconds: Self.epoch + Int64(time * 1e9))))
    }
    return arrivals
  }

  /// Places the ticks with the clock.
  func placed(_ clock: inout TickClock) -> [PlacedTick] {
    var placed: [PlacedTick] = []
    for arrival in arrivals {
      clock.take(RingTick(time: arrival.kernel))
      while let tick = clock.next() { placed.append(tick) }
    }
    clock.finish()
    while let tick = clock.next() { placed.append(tick) }
    return placed
  }
}

extension SimulatedStream.Arrival {
  var kernelSeconds: Double { Double(kernel.nanoseconds - SimulatedStream.epoch) / 1e9 }
}
