import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

@Suite struct EmulatedSourceTests {
  private func values(_ bench: AirBench) -> [[UInt8]] {
    let packets: [[UInt8]] = bench.host.packets.map(\.octets)
    return packets.compactMap { packet in packet[0] == 2 && packet[9] == 0x1B ? Array(packet[12...]) : nil }
  }

  private func bench(
    _ byteCount: Int, _ air: VirtualAir.Configuration, interval: UInt16 = 40,
    _ change: (inout EmulatedSource.Configuration) -> Void = { _ in }
  ) throws -> (AirBench, EmulatedSource) {
    let source = AirBench.source(byteCount, change)
    let bench = AirBench([source], air)
    _ = try bench.connect(interval: interval)
    return (bench, source)
  }

  @Test("number, time, and a pattern that shows what is wrong")
  func format() throws {
    let (bench, _) = try bench(16, .init(pace: .air)) { $0.notificationLimit = 300 }
    try bench.subscribe()
    let start = bench.now
    bench.wait(.seconds(2))
    let values = values(bench)
    #expect(values.count == 300)
    for (number, value) in values.enumerated() {
      #expect(value.count == 16)
      #expect(value.prefix(4) == [UInt8(number & 0xFF), UInt8(number >> 8), 0, 0])
      let end = (12..<16).map { (place: Int) -> UInt8 in UInt8((number + place) & 0xFF) }
      #expect(Array(value.suffix(4)) == end)
      let time = value[4..<12].reversed().reduce(Int64(0)) { $0 << 8 | Int64($1) }
      #expect((start.nanoseconds...bench.now.nanoseconds).contains(time))
    }
    let (short, _) = try self.bench(6, .init(pace: .air)) { $0.notificationLimit = 2 }
    try short.subscribe()
    short.wait(.seconds(2))
    #expect(self.values(short) == [[0, 0, 0, 0, 4, 5], [1, 0, 0, 0, 5, 6]])
  }

  @Test("its name, and a service of its own")
  func advertisement() {
    #expect(EmulatedSource.service.description == "7d1a0001-6f2b-4c58-9a3e-52494e475441")
    #expect(EmulatedSource.characteristic.description == "7d1a0002-6f2b-4c58-9a3e-52494e475441")
    let source = EmulatedSource()
    #expect(source.advertisement.map { hexOf($0.data) } == "0201060f09" + hexOf("ringtap source".utf8))
  }

  @Test("a rate is kept, and what the link could not take comes late")
  func rate() throws {
    let (bench, source) = try bench(20, .init(pace: .air)) { $0.notificationsPerSecond = 200 }
    try bench.subscribe()
    bench.wait(.seconds(10))
    let count = values(bench).count
    #expect((1980...2000).contains(count))
    #expect(source.waits == 0)
    // Two seconds without a link are more than the queue can hold.
    bench.air.inject(.outOfRange(source.configuration.address), now: bench.now)
    bench.wait(.seconds(2))
    bench.air.inject(.inRange(source.configuration.address), now: bench.now)
    bench.wait(.seconds(3))
    #expect(source.waits > 0)
    let numbers = values(bench).map { Int($0[0]) | Int($0[1]) << 8 }
    #expect(numbers == Array(0..<numbers.count))
    #expect((2980...3000).contains(numbers.count))
  }

  @Test("it stops without subscribers, and each link starts with 0")
  func unsubscribe() throws {
    let (bench, source) = try bench(20, .init(pace: .air))
    try bench.subscribe()
    bench.wait(.seconds(1))
    bench.att("12 0a00 0000")
    bench.wait(.seconds(1))
    let count = values(bench).count
    #expect(count > 1000)
    bench.wait(.seconds(1))
    #expect(values(bench).count == count)
    #expect(source.sent == count)
    bench.send("01060403 4000 13")
    _ = try #require(bench.wait(for: "0405"))
    bench.forget()
    _ = try bench.connect(interval: 40)
    try bench.subscribe()
    bench.wait(.seconds(1))
    #expect(values(bench).first?.prefix(4) == [0, 0, 0, 0])
  }

  @Test("without a pace: 16 each millisecond, none lost")
  func immediate() throws {
    let (bench, source) = try bench(20, .init())
    bench.att("12 0a00 0100")
    bench.wait(.seconds(1))
    #expect((16_000...16_016).contains(source.sent))
    #expect(values(bench).count == source.sent)
  }

  /// 3,000 frames a second are requested; about 1,553 fit.
  @Test("a ring drops what the link has no room for, and counts it")
  func ringDrops() throws {
    var configuration = ControllerBench.quietRing
    configuration.notificationsPerSecond = 3000
    let ring = EmulatedRing(configuration)
    let bench = AirBench([ring])
    _ = try bench.connect(interval: 40, to: "b2a1000dcb70")
    bench.att("12 1300 0100")
    bench.att("12 1000 a10400000000000000000000000000a5")
    bench.wait(.seconds(5))
    bench.att("12 1000 a10200000000000000000000000000a3")
    bench.wait(.seconds(1))
    let frames = values(bench)
    #expect(ring.droppedByRing > 5000)
    #expect(frames.count == ring.sentRawNotifications)
    #expect(frames.count > 7000 && frames.count < 5 * 1553 + 100)
    #expect(frames.allSatisfy { $0[15] == $0.dropLast().reduce(0, &+) })
  }
}
