import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Connection events and link layer procedures, Core 5.4, Vol 6, Part B, 4.5 and 5.1: times computed by hand.
@Suite struct AirLinkTests {
  /// From the report of the connection to the first anchor: ADV_IND with 25 bytes, T_IFS, CONNECT_IND with
  /// 34, and 1.25 ms: 280 + 150 + 352 + 1250 µs.
  private static let toFirstAnchor = Duration.microseconds(2032)

  private func bench(
    interval: UInt16 = 40, latency: UInt16 = 0, _ configuration: VirtualController.Configuration = .init()
  ) throws -> (AirBench, anchor: MonotonicTime) {
    let bench = AirBench([AirBench.source(20)], controllers: [configuration])
    let connected = try bench.connect(interval: interval, latency: latency)
    return (bench, connected.time.advanced(by: Self.toFirstAnchor))
  }

  private func microseconds(_ start: MonotonicTime, _ packet: AirBench.Packet) -> Int {
    Int(packet.time.nanoseconds - start.nanoseconds) / 1000
  }

  private static let mtuRequest = ControllerBench.att("02f700")
  private static let mtuResponse = ControllerBench.att("030502", "20")

  /// A packet of 7 bytes takes 136 µs, an empty one 80 µs.
  @Test("a request goes out at the anchor, and is answered at the next")
  func request() throws {
    let (bench, anchor) = try bench()
    bench.send(Self.mtuRequest)
    let completed = try #require(bench.wait(for: ControllerBench.completedPacket))
    #expect(microseconds(anchor, completed) == 136 + 150 + 80)
    let answer = try #require(bench.wait(for: Self.mtuResponse))
    #expect(microseconds(anchor, answer) == 50_000 + 80 + 150 + 136)
  }

  /// Reference, section 17: Silicon Labs measures about 16.6 kB/s with acknowledged writes at 7.5 ms, MTU 250.
  @Test("acknowledged requests take two intervals each: 66.7 a second at 7.5 ms")
  func acknowledgedRequests() throws {
    let (bench, anchor) = try bench(interval: 6)
    for number in 0..<100 {
      bench.send(Self.mtuRequest)
      let answer = try #require(bench.wait(for: Self.mtuResponse))
      #expect(microseconds(anchor, answer) == 7500 * (2 * number + 1) + 366)
    }
  }

  @Test("other timing is in force six events after it was announced, and told then")
  func update() throws {
    let (bench, anchor) = try bench()
    // Events 0 to 2 have passed; event 3 announces the update, event 9 is the instant.
    bench.wait(.milliseconds(120))
    bench.send("0113200e 4000 1000 1000 0000 f401 0000 0000")
    #expect(bench.host.packets.last?.text == "040f0400011320")
    let change = try #require(bench.wait(for: "043e0a03"))
    #expect(change.text == "043e0a0300400010000000f401")
    #expect(microseconds(anchor, change) == 1000 * (9 * 50))
    bench.wait(.milliseconds(205))
    bench.send(Self.mtuRequest)
    let completed = try #require(bench.wait(for: ControllerBench.completedPacket))
    #expect(microseconds(anchor, completed) == 450_000 + 11 * 20_000 + 366)
  }

  /// The second update is announced when the first is in force.
  @Test("two updates at once are made in order")
  func twoUpdates() throws {
    let (bench, anchor) = try bench()
    bench.send("0113200e 4000 1000 1000 0000 f401 0000 0000")
    bench.send("0113200e 4000 2000 2000 0000 f401 0000 0000")
    let first = try #require(bench.wait(for: "043e0a030040001000"))
    #expect(microseconds(anchor, first) == 1000 * (6 * 50))
    let second = try #require(bench.wait(for: "043e0a030040002000"))
    #expect(microseconds(anchor, second) == 1000 * (6 * 50 + 6 * 20))
  }

  @Test(
    "each direction has its PHY; one that is in use already is told too",
    arguments: [
      ("00 02 01", "0201"), ("00 01 02", "0102"), ("03 00 00", "0202"), ("00 01 01", "0101"),
    ])
  func phy(wish: String, result: String) throws {
    let (bench, _) = try bench()
    bench.send("01322007 4000 " + wish + " 0000")
    #expect(bench.host.packets.last?.text == "040f0400013220")
    let change = try #require(bench.wait(for: "043e060c"))
    #expect(change.text == "043e060c004000" + result)
    bench.send("01302002 4000")
    #expect(bench.host.packets.last?.text == "040e0801302000" + "4000" + result)
    // The coded PHY is not supported: Unsupported Feature or Parameter Value.
    bench.send("01322007 4000 00 04 04 0000")
    #expect(bench.host.packets.last?.text == "040f0411013220")
  }

  @Test(
    "longer packets to the peripheral take their time: its request is one, and nothing changes for nothing")
  func dataLength() throws {
    let (bench, _) = try bench()
    bench.send("01222006 4000 6400 4808")
    #expect(bench.host.packets.last?.text == "040e06012220004000")
    let change = try #require(bench.wait(for: "043e0b07"))
    // 100 bytes from here, 251 from the peripheral.
    #expect(change.text == "043e0b07400064004808fb004808")
    bench.forget()
    bench.send("01222006 4000 6400 4808")
    bench.wait(.seconds(1))
    #expect(bench.host.packets.map(\.text) == ["040e06012220004000"])
  }

  @Test("a default data length is asked for without being told to")
  func defaultDataLength() throws {
    let bench = AirBench([AirBench.source(20)])
    bench.send("01242004 fb00 4808")
    // A reset would clear it, so the connection is made by hand.
    bench.send("01010c08 ffffffffffffff3f")
    bench.send("01012008 ff190a0000000000")
    bench.send(
      "010d2019 6000 6000 00 00" + AirBench.sourceAddress + "00 2800 2800 0000 f401 00000000")
    _ = try #require(bench.wait(for: "043e1301004000"))
    let change = try #require(bench.wait(for: "043e0b07"))
    #expect(change.text == "043e0b074000fb004808fb004808")
  }

  /// Terminate has 2 bytes, 96 µs.
  @Test("the host ends the link: told when the peripheral has acknowledged it")
  func disconnect() throws {
    let (bench, anchor) = try bench()
    bench.wait(.milliseconds(120))
    bench.send("01060403 4000 13")
    #expect(bench.host.packets.last?.text == "040f0400010604")
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400016")
    #expect(microseconds(anchor, end) == 150_000 + 96 + 150 + 80)
    bench.send(Self.mtuRequest)
    #expect(bench.host.controller.faults == 1)
  }

  /// Empty, terminate, empty: 80 + 150 + 96 + 150 + 80 µs.
  @Test("the peripheral ends the link: told when its word is acknowledged")
  func remoteDisconnect() throws {
    let (bench, anchor) = try bench()
    bench.wait(.milliseconds(120))
    bench.air.inject(
      .disconnect(EmulatedSource.Configuration().address, .remoteUserTerminated), now: bench.now)
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400013")
    #expect(microseconds(anchor, end) == 150_000 + 556)
    // It advertises again.
    bench.send("010d2019 6000 6000 00 00" + AirBench.sourceAddress + "00 2800 2800 0000 f401 00000000")
    #expect(bench.wait(for: "043e1301004000") != nil)
  }

  /// After event 0 the peripheral skips four events and listens to events 5, 10, 15 …
  @Test("latency: a peripheral with nothing to say hears each fifth event")
  func latency() throws {
    let (bench, anchor) = try bench(latency: 4)
    bench.wait(until: anchor.advanced(by: .milliseconds(610)))
    bench.send(Self.mtuRequest)
    let completed = try #require(bench.wait(for: ControllerBench.completedPacket))
    #expect(microseconds(anchor, completed) == 15 * 50_000 + 366)
    // Its response does not have to wait.
    let answer = try #require(bench.wait(for: Self.mtuResponse))
    #expect(microseconds(anchor, answer) == 16 * 50_000 + 366)
  }

  /// The requests have 9 and 6 bytes, the first response 9: 152 + 150 + 80 + 150 + 128 + 150 + 152 µs.
  @Test("remote features and version come by the air")
  func remote() throws {
    let (bench, anchor) = try bench()
    bench.send("01162002 4000")
    bench.send("011d0402 4000")
    let features = try #require(bench.wait(for: "043e0c04"))
    #expect(features.text == "043e0c040040002101000000000000")
    #expect(microseconds(anchor, features) == 962)
    #expect(bench.wait(for: "040c0800400009ffff0000") != nil)
  }

  @Test("more packets than buffers: Data Buffer Overflow")
  func overflow() throws {
    let (bench, _) = try bench(.init(aclPacketCount: 2))
    bench.forget()
    for _ in 0..<3 { bench.send("02400005000100040003") }
    #expect(bench.host.packets.map(\.text) == ["041a0101"])
    bench.wait(.seconds(1))
    #expect(bench.host.all(ControllerBench.completedPacket).count == 2)
  }

  @Test("an idle link wants nothing of the clock")
  func idle() throws {
    let (bench, _) = try bench()
    bench.wait(.seconds(1))
    #expect(bench.air.deadline == nil)
  }
}
