import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Faults in the air, and their effects by the specification: Core 5.4, Vol 6, Part B, 4.5.2 and 4.5.9.
@Suite struct AirFaultTests {
  private static let source = EmulatedSource.Configuration().address
  private static let controller = VirtualController.Configuration().address

  /// Interval 50 ms, supervision timeout 1 s.
  private func bench(_ byteCount: Int = 20) throws -> AirBench {
    let bench = AirBench([AirBench.source(byteCount)])
    _ = try bench.connect(interval: 40, timeout: 100)
    return bench
  }

  private func sequence(_ bench: AirBench) -> [Int] {
    bench.host.all(AirBench.dataStart).filter { $0.octets.count > 20 }
      .map { Int($0.octets[12]) | Int($0.octets[13]) << 8 }
  }

  @Test("packet errors make data late, not lost", arguments: [0.01, 0.1, 0.3])
  func packetErrors(rate: Double) throws {
    let bench = try bench()
    bench.air.inject(.packetErrorRate(rate), now: bench.now)
    try bench.subscribe()
    bench.wait(.seconds(5))
    let numbers = sequence(bench)
    #expect(numbers == Array(0..<numbers.count))
    // 1479 a second without faults; each broken packet costs at least one cycle.
    #expect(Double(numbers.count) < 5 * 1479 * (1 - rate))
    #expect(numbers.count > 300)
  }

  @Test("the same seed loses the same packets")
  func deterministic() throws {
    func run() throws -> [AirBench.Packet] {
      let bench = try bench()
      bench.air.inject(.packetErrorRate(0.2), now: bench.now)
      try bench.subscribe()
      bench.wait(.seconds(1))
      return bench.host.packets
    }
    let first = try run()
    let second = try run()
    #expect(first == second)
  }

  @Test("a burst is made up for")
  func burst() throws {
    let bench = try bench()
    try bench.subscribe()
    bench.wait(.seconds(1))
    // Each event ends with its first lost packet: eight intervals without data.
    bench.air.inject(.burst(packets: 8), now: bench.now)
    bench.wait(.seconds(1))
    let numbers = sequence(bench)
    #expect(numbers == Array(0..<numbers.count))
    let packets = bench.host.all(AirBench.dataStart)
    let gap = zip(packets, packets.dropFirst()).map { $0.time.duration(to: $1.time) }.max()
    #expect((.milliseconds(350)...Duration.milliseconds(450)).contains(gap ?? .zero))
  }

  @Test("all packets broken: Connection Timeout")
  func nothingArrives() throws {
    let bench = try bench()
    bench.wait(.milliseconds(400))
    let start = bench.now
    bench.air.inject(.packetErrorRate(1), now: start)
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400008")
    // The last packet arrived in the previous event.
    #expect((.milliseconds(950)...Duration.milliseconds(1000)).contains(start.duration(to: end.time)))
  }

  enum Silence { case muted, deaf, outOfRange, mutedCentral }

  @Test(
    "silence, whichever way, ends the link at both ends",
    arguments: [
      Silence.muted, .deaf, .outOfRange, .mutedCentral,
    ])
  func silence(_ silence: Silence) throws {
    let bench = try bench()
    bench.wait(.milliseconds(400))
    let start = bench.now
    let fault: AirFault =
      switch silence {
      case .muted: .mute(Self.source)
      case .deaf: .deafen(Self.source)
      case .outOfRange: .outOfRange(Self.source)
      case .mutedCentral: .mute(Self.controller)
      }
    bench.air.inject(fault, now: start)
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400008")
    #expect(start.duration(to: end.time) <= .seconds(1))
    // A muted peripheral receives the central's packets until the central leaves, so its own timeout starts
    // then.
    bench.wait(.seconds(1.05))
    #expect(bench.air.deadline == nil)
    bench.air.inject(.inRange(Self.source), now: bench.now)
    bench.air.inject(.inRange(Self.controller), now: bench.now)
    bench.send("010d2019 6000 6000 00 00" + AirBench.sourceAddress + "00 2800 2800 0000 6400 00000000")
    #expect(bench.wait(for: "043e1301004000") != nil)
  }

  @Test("a short silence is survived, and what was sent in it arrives")
  func shortSilence() throws {
    let bench = try bench()
    try bench.subscribe()
    bench.wait(.milliseconds(500))
    bench.air.inject(.outOfRange(Self.source), now: bench.now)
    bench.wait(.milliseconds(800))
    bench.air.inject(.inRange(Self.source), now: bench.now)
    bench.wait(.milliseconds(500))
    #expect(bench.host.all("0405").isEmpty)
    let numbers = sequence(bench)
    #expect(numbers == Array(0..<numbers.count))
    #expect(numbers.count > 1000)
  }

  @Test("out of range there are no advertisements either")
  func noAdvertisements() throws {
    let bench = AirBench([AirBench.source(20)])
    bench.setUp()
    bench.send("010b2007 00 6000 6000 00 00")
    bench.send("010c2002 0100")
    bench.wait(.seconds(1))
    let before = bench.host.all("043e").count
    #expect((9...10).contains(before))
    bench.air.inject(.outOfRange(Self.source), now: bench.now)
    bench.wait(.seconds(1))
    #expect(bench.host.all("043e").count == before)
    bench.air.inject(.inRange(Self.source), now: bench.now)
    bench.wait(.seconds(1))
    #expect((18...20).contains(bench.host.all("043e").count))
  }

  /// Core 5.4, Vol 6, Part B, 4.5.2: six intervals without a packet.
  @Test("a link without a single packet: Connection Failed to be Established")
  func notEstablished() throws {
    let bench = AirBench([AirBench.source(20)])
    bench.air.inject(.deafen(Self.source), now: bench.now)
    let connected = try bench.connect(interval: 40)
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "0405040040003e")
    #expect(connected.time.duration(to: end.time) == .milliseconds(6 * 50))
    // The peripheral has not noticed anything, and still advertises.
    bench.air.inject(.inRange(Self.source), now: bench.now)
    bench.send("010d2019 6000 6000 00 00" + AirBench.sourceAddress + "00 2800 2800 0000 f401 00000000")
    #expect(bench.wait(for: "043e1301004000") != nil)
  }

  /// At the instant only one of the two changes, and they lose each other.
  @Test("an update that the peripheral never hears of ends the link")
  func missedInstant() throws {
    let bench = try bench()
    bench.wait(.milliseconds(400))
    bench.send("0113200e 4000 1000 1000 0000 6400 0000 0000")
    bench.air.inject(.deafen(Self.source), now: bench.now)
    bench.wait(.milliseconds(500))
    bench.air.inject(.inRange(Self.source), now: bench.now)
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400008")
    #expect(bench.host.all("043e0a03").isEmpty)
  }

  @Test("the ring of disconnectAfter goes without a word after its last frame")
  func vanishingRing() throws {
    var ring = ControllerBench.quietRing
    ring.notificationsPerSecond = 300
    ring.disconnectAfter = 20
    let bench = AirBench([EmulatedRing(ring)])
    _ = try bench.connect(interval: 40, timeout: 100, to: "b2a1000dcb70")
    bench.att("12 1300 0100")
    bench.att("12 1000 a10400000000000000000000000000a5")
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400008")
    let frames = bench.host.all("024020170013000400 1b1200")
    #expect(frames.count == 20)
    let silence = try #require(frames.last).time.duration(to: end.time)
    #expect((.milliseconds(950)...Duration.milliseconds(1050)).contains(silence))
  }
}
