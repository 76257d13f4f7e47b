import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Core 5.4, Vol 6, Part B, 4.4.2.2.1 (advDelay) and 4.4.3 (scan window).
@Suite struct AirAdvertisingTests {
  private func bench() -> AirBench {
    let bench = AirBench([AirBench.source(20)])
    bench.setUp()
    return bench
  }

  private static let report = "043e1f02010000" + AirBench.sourceAddress

  /// Starts a passive scan. Interval and window in units of 0.625 ms.
  private func scan(_ bench: AirBench, _ interval: UInt16, _ window: UInt16) {
    bench.send("010b2007 00 " + AirBench.word(interval) + AirBench.word(window) + "00 00")
    bench.send("010c2002 0100")
  }

  @Test("interval and 0 to 10 ms by chance, the same in each run")
  func delay() {
    func gaps() -> [Duration] {
      let bench = bench()
      scan(bench, 0x60, 0x60)
      bench.wait(.seconds(30))
      let times = bench.host.all(Self.report).map(\.time)
      return zip(times, times.dropFirst()).map { $0.duration(to: $1) }
    }
    let found = gaps()
    #expect(found.count > 270)
    #expect(found.allSatisfy { (.milliseconds(100)...Duration.milliseconds(110)).contains($0) })
    #expect(Set(found).count > 200)
    let average = found.reduce(.zero, +) / found.count
    #expect((.milliseconds(104)...Duration.milliseconds(106)).contains(average))
    #expect(gaps() == found)
  }

  @Test("a scanner hears what comes inside its window")
  func window() throws {
    let bench = bench()
    let start = bench.now
    // 30 ms of every 100 ms.
    scan(bench, 160, 48)
    bench.wait(.seconds(60))
    let reports = bench.host.all(Self.report)
    let phases = reports.map { start.duration(to: $0.time) }.map { Int($0 / .microseconds(1)) % 100_000 }
    #expect(phases.allSatisfy { $0 < 30_000 })
    // About 571 advertisements, 30 % of them.
    #expect((120...220).contains(reports.count))
  }

  @Test("an initiator connects inside its window")
  func initiator() throws {
    let bench = bench()
    let start = bench.now
    // 10 ms of every 1000 ms.
    bench.send("010d2019 4006 1000 00 00" + AirBench.sourceAddress + "00 2800 2800 0000 f401 00000000")
    let connected = try #require(bench.wait(for: "043e1301004000"))
    #expect(Int(start.duration(to: connected.time) / .microseconds(1)) % 1_000_000 < 10_000)
  }

  @Test("broken advertisements are not heard")
  func packetErrors() {
    let bench = bench()
    bench.air.inject(.packetErrorRate(0.5), now: bench.now)
    scan(bench, 0x60, 0x60)
    bench.wait(.seconds(60))
    #expect((230...340).contains(bench.host.all(Self.report).count))
  }
}
