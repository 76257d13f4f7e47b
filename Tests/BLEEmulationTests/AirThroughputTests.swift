import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Reference `linux-bluetooth-kernel.md`, section 17: maximum throughput. Time is virtual, so the figures are
/// exact.
@Suite struct AirThroughputTests {
  enum PHY { case le1M, le2M }
  enum DataLength { case short, long }

  /// A source on a link whose PHY and data length have been set.
  private func bench(
    _ phy: PHY, _ length: DataLength, byteCount: Int, interval: UInt16
  ) throws -> AirBench {
    let bench = AirBench([AirBench.source(byteCount)])
    _ = try bench.connect(interval: interval)
    if length == .long {
      bench.send("01222006 4000 fb00 4808")
      let change = try #require(bench.wait(for: "043e0b07"))
      #expect(change.text == "043e0b074000fb004808fb004808")
    }
    if phy == .le2M {
      bench.send("01322007 4000 00 02 02 0000")
      let change = try #require(bench.wait(for: "043e060c"))
      #expect(change.text == "043e060c0040000202")
    }
    try bench.subscribe()
    // The queue fills, and the write gets its response.
    bench.wait(.seconds(2))
    bench.forget()
    return bench
  }

  /// PHY, data length, bytes of value, notifications per second, kB per second.
  struct Row: CustomTestStringConvertible {
    let phy: PHY
    let length: DataLength
    let byteCount: Int
    let rate: Double
    let kilobytes: Double
    var testDescription: String { "\(phy), \(length), \(byteCount) B" }
  }

  @Test(
    "what one direction of a link carries",
    arguments: [
      Row(phy: .le1M, length: .short, byteCount: 20, rate: 1479, kilobytes: 29.6),
      Row(phy: .le1M, length: .long, byteCount: 244, rate: 405, kilobytes: 98.9),
      Row(phy: .le2M, length: .short, byteCount: 20, rate: 2016, kilobytes: 40.3),
      Row(phy: .le2M, length: .long, byteCount: 244, rate: 718, kilobytes: 175.3),
      Row(phy: .le1M, length: .long, byteCount: 16, rate: 1553, kilobytes: 24.8),
      Row(phy: .le2M, length: .long, byteCount: 16, rate: 2083, kilobytes: 33.3),
    ])
  func rate(_ row: Row) throws {
    // 400 ms.
    let bench = try bench(row.phy, row.length, byteCount: row.byteCount, interval: 320)
    bench.wait(.seconds(4))
    let values = bench.host.all(AirBench.dataStart).map { $0.octets.dropFirst(12) }
    let seconds = 4.0
    #expect(abs(Double(values.count) / seconds / row.rate - 1) < 0.01)
    let octets = values.reduce(0) { $0 + $1.count }
    #expect(abs(Double(octets) / seconds / 1000 / row.kilobytes - 1) < 0.01)
    // Each sequence number once, in order.
    let numbers = values.map { Int($0[12]) | Int($0[13]) << 8 | Int($0[14]) << 16 }
    #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $1 == $0 + 1 })
  }

  /// A cycle of 1392 µs, as in the table, fits five times into 7500 µs: the last 540 µs of each event are
  /// unused.
  @Test("at 7.5 ms, 2M and 251 octets five notifications fit an event: 666.7 a second instead of 718")
  func border() throws {
    let bench = try bench(.le2M, .long, byteCount: 244, interval: 6)
    // 400 events.
    bench.wait(.seconds(3))
    let packets = bench.host.all(AirBench.dataStart)
    #expect(packets.count == 2000)
    let gaps = zip(packets, packets.dropFirst()).map { $0.time.duration(to: $1.time) }
    // Four cycles, then the rest of the interval.
    #expect(gaps.filter { $0 == .microseconds(1392) }.count >= 1599)
    #expect(gaps.filter { $0 == .microseconds(7500 - 4 * 1392) }.count >= 399)
    #expect(Set(gaps).count == 2)
  }

  @Test("a loop that comes late gets the same packets")
  func lateness() throws {
    let exact = try bench(.le2M, .long, byteCount: 244, interval: 24)
    exact.wait(.seconds(2))
    let late = try bench(.le2M, .long, byteCount: 244, interval: 24)
    for milliseconds in [1, 700, 3, 96, 1200] { late.oversleep(.milliseconds(milliseconds)) }
    #expect(late.host.packets.count > 1300)
    #expect(late.host.packets.map(\.octets) == exact.host.packets.map(\.octets))
  }

  /// A value of 244 bytes, with 7 bytes of ATT and L2CAP, goes in ten packets of at most 27 bytes: nine take
  /// 296 + 80 + 300 µs, the last with 8 bytes 144 + 80 + 300 µs; 6608 µs in total.
  @Test("a frame longer than the data length goes in several packets, as ACL fragments")
  func fragments() throws {
    let bench = try bench(.le1M, .short, byteCount: 244, interval: 320)
    bench.wait(.seconds(10))
    let starts = bench.host.all(AirBench.dataStart)
    let parts = bench.host.all("024010")
    let busy = Double(starts.count) / 10 * 6608e-6
    #expect(abs(busy - 1) < 0.01)
    #expect(abs(parts.count - 9 * starts.count) < 10)
    #expect(starts.allSatisfy { $0.octets.count == 5 + 27 })
    #expect(Set(parts.map(\.octets.count)) == [5 + 27, 5 + 8])
  }
}
