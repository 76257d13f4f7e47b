import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Several controllers in one air.
@Suite struct VirtualAirTests {
  private static let first = VirtualController.Configuration()
  private static let second = VirtualController.Configuration(
    address: DeviceAddress(bits: 0x0000_5E00_5302, type: .public))
  private static let secondExtended = VirtualController.Configuration(
    address: DeviceAddress(bits: 0x0000_5E00_5302, type: .public), commandSet: .extended)
  private static let secondAddress = "0253005e0000"

  private func bench(
    _ pace: VirtualAir.Pace, _ peripherals: [any VirtualPeripheral] = [],
    _ controllers: [VirtualController.Configuration] = [first, second]
  ) -> AirBench {
    let bench = AirBench(peripherals, .init(pace: pace), controllers: controllers)
    for port in bench.ports.indices { bench.setUp(port) }
    return bench
  }

  private static func create(_ address: String) -> String {
    "010d2019 6000 6000 00 00" + address + "00 1800 1800 0000 6400 00000000"
  }

  @Test(
    "a peripheral that is connected to one does not advertise to the other",
    arguments: [
      VirtualAir.Pace.immediate, .air,
    ])
  func sharedPeripheral(_ pace: VirtualAir.Pace) throws {
    let bench = bench(pace, [AirBench.source(20)])
    bench.send("010b2007 00 6000 6000 00 00", to: 1)
    bench.send("010c2002 0100", to: 1)
    bench.wait(.seconds(1))
    let before = bench.ports[1].all("043e1f02").count
    #expect(before >= 9)
    bench.send(Self.create(AirBench.sourceAddress))
    _ = try #require(bench.wait(for: "043e1301004000"))
    let connected = bench.ports[1].all("043e1f02").count
    bench.wait(.seconds(1))
    #expect(bench.ports[1].all("043e1f02").count == connected)
    bench.send("01060403 4000 13")
    bench.wait(.seconds(1))
    #expect(bench.ports[1].all("043e1f02").count >= connected + 8)
    // Now the other one connects to it, with its own link of the same number.
    bench.send("010c2002 0000", to: 1)
    bench.send(Self.create(AirBench.sourceAddress), to: 1)
    #expect(bench.wait(for: "043e1301004000", at: 1) != nil)
    #expect(bench.host.all("043e13").count == 1)
  }

  /// Found by fuzzing: a host that was notified of it would have reconnected at once.
  @Test("late by a whole interval, the next advertisement is still to come")
  func lateByAnInterval() throws {
    let bench = ControllerBench()
    _ = bench.send("010b2007 00 6000 6000 00 00")
    _ = bench.send("010c2002 0100")
    let first = try #require(bench.controller.deadline)
    bench.controller.advance(to: first)
    let second = try #require(bench.controller.deadline)
    let late = second.advanced(by: first.duration(to: second))
    bench.controller.advance(to: late)
    #expect(try #require(bench.controller.deadline) > late)
  }

  /// Advertises with legacy commands and connects the first to the second.
  private func connectControllers(_ pace: VirtualAir.Pace) throws -> AirBench {
    let bench = bench(pace)
    // 100 ms, connectable, public address, all channels.
    bench.send("0106200f a000 a000 00 00 00 000000000000 07 00", to: 1)
    bench.send("01082020 05 020106 0141" + String(repeating: "00", count: 26), to: 1)
    bench.send("01092020 03 020941" + String(repeating: "00", count: 28), to: 1)
    bench.send("010a2001 01", to: 1)
    for command in ["06", "08", "09", "0a"] {
      #expect(bench.ports[1].all("040e0401" + command + "2000").count == 1)
    }
    // Not allowed while it advertises.
    bench.send("0106200f a000 a000 00 00 00 000000000000 07 00", to: 1)
    #expect(bench.ports[1].all("040e040106200c").count == 1)
    bench.send("010b2007 01 6000 6000 00 00")
    bench.send("010c2002 0100")
    #expect(
      bench.wait(for: "043e")?.text == "043e1102010000" + Self.secondAddress + "050201060141c9")
    bench.wait(.milliseconds(200))
    #expect(!bench.host.all("043e0f02010400" + Self.secondAddress + "03020941c9").isEmpty)
    bench.send("010c2002 0000")
    bench.send(Self.create(Self.secondAddress))
    // Role 0 on one side, role 1 on the other.
    let central = try #require(bench.wait(for: "043e1301"))
    #expect(central.text == "043e130100400000" + "00" + Self.secondAddress + "18000000640000")
    #expect(
      bench.ports[1].all("043e1301").map(\.text) == [
        "043e130100400001" + "00" + "0153005e0000" + "18000000640000"
      ])
    bench.forget()
    return bench
  }

  @Test(
    "a host that advertises is heard, connected to, and gets data both ways",
    arguments: [
      VirtualAir.Pace.immediate, .air,
    ])
  func twoHosts(_ pace: VirtualAir.Pace) throws {
    let bench = try connectControllers(pace)
    bench.send(ControllerBench.att("020502"))
    bench.wait(.milliseconds(200))
    #expect(bench.ports[1].all("02").map(\.text) == [ControllerBench.att("020502", "20")])
    bench.send(ControllerBench.att("03f400"), to: 1)
    bench.wait(.milliseconds(200))
    #expect(bench.host.all("02").map(\.text) == [ControllerBench.att("03f400", "20")])
    for port in bench.ports { #expect(port.all(ControllerBench.completedPacket).count == 1) }
    // Advertising ends with the connection.
    bench.send("010c2002 0100")
    bench.wait(.seconds(1))
    #expect(bench.host.all("043e").isEmpty)
    bench.forget()
    // Remote User Terminated on the other side, Connection Terminated by Local Host here.
    bench.send("01060403 4000 13", to: 1)
    bench.wait(.milliseconds(200))
    #expect(bench.host.all("0405").map(\.text) == ["04050400400013"])
    #expect(bench.ports[1].all("0405").map(\.text) == ["04050400400016"])
  }

  @Test("the peripheral's host may change PHY and data length, and asks for timing by L2CAP")
  func peripheralProcedures() throws {
    let bench = try connectControllers(.air)
    bench.send("01222006 4000 fb00 4808", to: 1)
    #expect(bench.wait(for: "043e0b074000fb0048081b004801", at: 1) != nil)
    #expect(bench.host.all("043e0b0740001b004801fb004808").count == 1)
    bench.send("01322007 4000 00 02 02 0000", to: 1)
    #expect(bench.wait(for: "043e060c0040000202", at: 1) != nil)
    #expect(bench.host.all("043e060c0040000202").count == 1)
    // Unsupported Remote Feature.
    bench.send("0113200e 4000 1400 2800 0000 f401 0000 0000", to: 1)
    #expect(bench.ports[1].packets.last?.text == "040f041a011320")
    bench.send("0113200e 4000 2800 2800 0000 f401 0000 0000")
    #expect(bench.wait(for: "043e0a0300400028000000f401", at: 1) != nil)
    #expect(bench.host.all("043e0a0300400028000000f401").count == 1)
  }

  @Test("a host that resets is missed after the supervision time-out")
  func reset() throws {
    let bench = try connectControllers(.air)
    bench.wait(.milliseconds(500))
    let start = bench.now
    bench.send("01030c00", to: 1)
    let end = try #require(bench.wait(for: "0405"))
    #expect(end.text == "04050400400008")
    #expect((.milliseconds(970)...Duration.milliseconds(1000)).contains(start.duration(to: end.time)))
    #expect(bench.ports[1].all("0405").isEmpty)
  }

  @Test("extended advertising with a random address, and the end of its set")
  func extended() throws {
    let bench = bench(.air, [], [Self.first, Self.secondExtended])
    bench.send("01362019 07 1300 a00000 a00000 07 01 00 000000000000 00 7f 01 00 01 00 00", to: 1)
    bench.send("01352007 07 0605040302c1", to: 1)
    bench.send("01372009 07 03 00 05 0201060141", to: 1)
    bench.send("01392006 01 01 07 0000 00", to: 1)
    #expect(
      bench.ports[1].packets.suffix(4).map(\.text) == [
        "040e0501362000" + "00", "040e0401352000", "040e0401372000", "040e0401392000",
      ])
    bench.send("010b2007 00 6000 6000 00 00")
    bench.send("010c2002 0100")
    #expect(bench.wait(for: "043e")?.text == "043e11020100010605040302c1050201060141c9")
    bench.send("010c2002 0000")
    bench.send(
      "010d2019 6000 6000 00 01 0605040302c1 00 1800 1800 0000 6400 00000000")
    _ = try #require(bench.wait(for: "043e13010040000001"))
    #expect(bench.ports[1].all("043e06120007400000").count == 1)
    // Data in extended packets is not supported: Unsupported Feature.
    bench.send("01362019 07 0100 a00000 a00000 07 01 00 000000000000 00 7f 01 00 01 00 00", to: 1)
    #expect(bench.ports[1].packets.last?.text == "040e0501362011" + "00")
  }

  @Test("the supervision time-out is seen at both ends of a link between hosts")
  func supervision() throws {
    let bench = try connectControllers(.air)
    bench.wait(.milliseconds(500))
    bench.air.inject(.outOfRange(Self.second.address), now: bench.now)
    bench.wait(.seconds(1.05))
    for port in bench.ports { #expect(port.all("0405").map(\.text) == ["04050400400008"]) }
  }

  /// Two links of 50 ms whose anchors are 25 ms apart: 17 cycles of 1392 µs fit between two anchors.
  @Test("two saturated links share the radio of their central: 17 notifications in turn")
  func sharedRadio() throws {
    let sources = (0..<2).map { number in
      AirBench.source(244) {
        $0.address = DeviceAddress(bits: 0x70CB_0D00_0001 + UInt64(number), type: .public)
      }
    }
    let bench = bench(.air, sources, [Self.first])
    for handle in ["40", "41"] {
      let peer = handle == "40" ? "0100000dcb70" : "0200000dcb70"
      bench.send("010d2019 6000 6000 00 00" + peer + "00 2800 2800 0000 f401 00000000")
      _ = try #require(bench.wait(for: "043e130100" + handle))
      bench.send("01222006 \(handle)00 fb00 4808")
      bench.send("01322007 \(handle)00 00 02 02 0000")
      _ = try #require(bench.wait(for: "043e060c00" + handle))
      for pdu in ["0700 0300 0400 02f700", "0900 0500 0400 120a000100"] {
        bench.send("02\(handle)00" + pdu)
        bench.wait(.milliseconds(200))
      }
    }
    bench.wait(.seconds(1))
    bench.forget()
    bench.wait(.seconds(3))
    // 60 events each.
    for handle in ["40", "41"] {
      #expect((17 * 59...17 * 61).contains(bench.host.all("02\(handle)20").count))
    }
    let handles = bench.host.all("02").map { $0.octets[1] }
    let turns = zip(handles, handles.dropFirst()).count { $0 != $1 }
    #expect((118...122).contains(turns))
  }

  /// A third link every 30 ms inevitably collides with two every 50 ms; each gets its turn.
  @Test("links whose events collide miss some, and none is lost by it")
  func collidingLinks() throws {
    let sources = (0..<3).map { number in
      AirBench.source(244) {
        $0.address = DeviceAddress(bits: 0x70CB_0D00_0001 + UInt64(number), type: .public)
      }
    }
    let bench = bench(.air, sources, [Self.first])
    let intervals: [UInt16] = [40, 40, 24]
    for (number, interval) in intervals.enumerated() {
      let peer = "0\(number + 1)00000dcb70"
      let timing = [interval, interval, 0, 50].map(AirBench.word).joined()
      bench.send("010d2019 6000 6000 00 00" + peer + "00" + timing + "00000000")
      _ = try #require(bench.wait(for: "043e1301004\(number)"))
      for pdu in ["0700 0300 0400 02f700", "0900 0500 0400 120a000100"] {
        bench.send("024\(number)00" + pdu)
        bench.wait(.milliseconds(200))
      }
    }
    bench.forget()
    bench.wait(.seconds(10))
    #expect(bench.host.all("0405").isEmpty)
    for number in 0..<3 { #expect(bench.host.all("024\(number)20").count > 100) }
    #expect(bench.host.all("02").count > 1000)
  }
}
