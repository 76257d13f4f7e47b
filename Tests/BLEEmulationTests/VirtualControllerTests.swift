import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

/// Events are laid out by Core 5.4, Vol 4, Part E, 7.7 and 7.8.
@Suite struct VirtualControllerTests {
  @Test(
    "what a host asks at the start",
    arguments: [
      ("01030c00", "040e0401030c00"),
      ("01011000", "040e0c010110000d00000dffff0000"),
      // BR/EDR Not Supported, LE Supported: bits 37 and 38.
      ("01031000", "040e0c010310000000000060000000"),
      ("01091000", "040e0a010910000153005e0000"),
      ("01022000", "040e0701022000fb0008"),
      ("01032000", "040e0c010320002101000000000000"),
      ("010f2000", "040e05010f200010"),
      ("01102000", "040e0401102000"),
      ("012f2000", "040e0c012f2000fb004808fb004808"),
      // LE Read Local P-256 Public Key, LE Set Extended Scan Enable, a vendor command: unknown here.
      ("01252000", "040e0401252001"),
      ("01422006000000000000", "040e0401422001"),
      ("0101fc00", "040e040101fc01"),
      // A wrong length.
      ("010c200101", "040e04010c2012"),
    ])
  func information(command: String, event: String) {
    #expect(ControllerBench().send(command) == [event])
  }

  @Test("supported commands say which command set there is (octet 37, bits 5 to 7)")
  func supportedCommands() {
    func commands(_ set: VirtualController.Configuration.CommandSet) -> [UInt8] {
      let bench = ControllerBench(VirtualController.Configuration(commandSet: set))
      let event = octetsOf(bench.send("01021000").joined())
      #expect(event.count == 3 + 4 + 64)
      return Array(event.dropFirst(7))
    }
    let legacy = commands(.legacy)
    #expect(legacy[37] & 0xE0 == 0)
    // LE Set Scan Enable, LE Create Connection, Disconnect, Reset.
    #expect(legacy[26] & 0x18 == 0x18)
    #expect(legacy[0] & 0x20 != 0)
    #expect(legacy[5] & 0x80 != 0)
    #expect(commands(.extended)[37] & 0xE0 == 0xE0)
    let bench = ControllerBench(VirtualController.Configuration(commandSet: .extended))
    #expect(bench.send("01032000") == ["040e0c010320002111000000000000"])
  }

  static let report = "043e1902010000b2a1000dcb700d02010609095230325f41314232c9"
  static let scanResponse = "043e0c02010400b2a1000dcb7000c9"

  @Test("an active scan sees advertisement and scan response at each interval")
  func activeScan() {
    let bench = ControllerBench()
    bench.setUp()
    #expect(bench.send("010b2007 01 6000 6000 00 00") == ["040e04010b2000"])
    #expect(bench.wait(milliseconds: 1000) == [])
    #expect(bench.send("010c2002 0100") == ["040e04010c2000"])
    let seen = bench.wait(milliseconds: 1000)
    #expect(seen == (0..<10).flatMap { _ in [Self.report, Self.scanResponse] })
    #expect(bench.send("010c2002 0000") == ["040e04010c2000"])
    #expect(bench.wait(milliseconds: 1000) == [])
    #expect(bench.controller.deadline == nil)
  }

  @Test("the duplicates filter lets each advertiser through once per enabling")
  func duplicates() {
    let bench = ControllerBench()
    bench.setUp()
    _ = bench.send("010b2007 00 6000 6000 00 00")
    for _ in 0..<2 {
      _ = bench.send("010c2002 0101")
      #expect(bench.wait(milliseconds: 1000) == [Self.report])
    }
    // Parameters cannot be set in the meantime.
    #expect(bench.send("010b2007 00 6000 6000 00 00") == ["040e04010b200c"])
  }

  @Test("the accept list decides where the policy says so")
  func acceptList() {
    let bench = ControllerBench()
    bench.setUp()
    _ = bench.send("010b2007 00 6000 6000 00 01")
    _ = bench.send("010c2002 0101")
    #expect(bench.wait(milliseconds: 1000) == [])
    #expect(bench.send("01112007 00b2a1000dcb70") == ["040e040111200c"])
    _ = bench.send("010c2002 0000")
    #expect(bench.send("01112007 00b2a1000dcb70") == ["040e0401112000"])
    _ = bench.send("010c2002 0101")
    #expect(bench.wait(milliseconds: 1000) == [Self.report])
  }

  @Test("masked events stay away: LE Meta is off after a reset")
  func masks() {
    let bench = ControllerBench()
    _ = bench.send("01030c00")
    _ = bench.send("010b2007 00 6000 6000 00 00")
    _ = bench.send("010c2002 0100")
    #expect(bench.wait(milliseconds: 1000) == [])
    _ = bench.send("01010c08 ffffffffffffff3f")
    #expect(bench.wait(milliseconds: 100) == [Self.report])
    _ = bench.send("01012008 1d00000000000000")
    #expect(bench.wait(milliseconds: 1000) == [])
  }

  @Test("the extended set reports the same advertiser, and the two sets do not mix")
  func extendedScan() {
    let bench = ControllerBench(VirtualController.Configuration(commandSet: .extended))
    bench.setUp()
    _ = bench.send("01012008 1f12000000000000")
    #expect(bench.send("01412008 00 00 01 00 6000 6000") == ["040e0401412000"])
    #expect(bench.send("01422006 0101 0000 0000") == ["040e0401422000"])
    #expect(
      bench.wait(milliseconds: 1000) == [
        "043e270d01130000b2a1000dcb700100ff7fc90000000000000000000d02010609095230325f41314232"
      ])
    #expect(bench.send("010c2002 0000") == ["040e04010c200c"])
    _ = bench.send("01030c00")
    #expect(bench.send("010c2002 0000") == ["040e04010c2000"])
    #expect(bench.send("01422006 0000 0000 0000") == ["040e040142200c"])
  }

  @Test("connection, remote features, update, disconnection")
  func connection() {
    let bench = ControllerBench()
    bench.connect()
    #expect(bench.send("01162002 4000") == ["040f0400011620", "043e0c040040002101000000000000"])
    #expect(bench.send("011d0402 4000") == ["040f0400011d04", "040c0800400009ffff0000"])
    #expect(
      bench.send("0113200e 4000 1400 2800 0400 f401 0000 0000")
        == ["040f0400011320", "043e0a0300400028000400f401"])
    #expect(bench.send("01302002 4000") == ["040e080130200040000101"])
    #expect(bench.send(ControllerBench.createConnection) == ["040f040b010d20"])
    #expect(bench.send("01060403 4000 13") == ["040f0400010604", "04050400400016"])
    #expect(bench.send("01060403 4000 13") == ["040f0402010604"])
    #expect(bench.send("01162002 4000") == ["040f0402011620"])
    // It advertises again.
    #expect(bench.send(ControllerBench.createConnection) == ["040f0400010d20"])
    #expect(bench.wait(milliseconds: 200) == [ControllerBench.connected])
  }

  @Test("a connection without an answer can be cancelled")
  func cancel() {
    let bench = ControllerBench()
    bench.setUp()
    #expect(bench.send("010e2000") == ["040e04010e200c"])
    let elsewhere = ControllerBench.createConnection.replacing("b2a1000dcb70", with: "010203040506")
    #expect(bench.send(elsewhere) == ["040f0400010d20"])
    #expect(bench.send(elsewhere) == ["040f040c010d20"])
    #expect(bench.wait(milliseconds: 1000) == [])
    #expect(
      bench.send("010e2000") == [
        "040e04010e2000", "043e1301020000000000000000000000000000000000",
      ])
  }

  @Test("extended creation and the enhanced event")
  func extendedConnection() {
    let bench = ControllerBench(VirtualController.Configuration(commandSet: .extended))
    bench.setUp()
    _ = bench.send("01012008 1f02000000000000")
    #expect(
      bench.send(
        "0143201a 00 00 00 b2a1000dcb70 01 6000 6000 1800 2800 0000 2a00 0000 0000")
        == ["040f0400014320"])
    #expect(
      bench.wait(milliseconds: 200) == [
        "043e1f0a0040000000b2a1000dcb70" + String(repeating: "00", count: 12)
          + "280000002a0000"
      ])
  }

  @Test("two peripherals: each its own address, handle and rhythm; nothing is lost between them")
  func twoPeripherals() {
    var second = ControllerBench.quietRing
    second.name = "R06_0001"
    second.address = DeviceAddress(bits: 0xC011_2233_4455, type: .random)
    second.advertisingInterval = .milliseconds(250)
    let bench = ControllerBench(
      VirtualController.Configuration(),
      [EmulatedRing(ControllerBench.quietRing), EmulatedRing(second)])
    bench.setUp()
    _ = bench.send("010b2007 00 6000 6000 00 00")
    _ = bench.send("010c2002 0100")
    let seen = bench.wait(milliseconds: 1000)
    #expect(seen.filter { $0.contains("00b2a1000dcb70") }.count == 10)
    #expect(seen.filter { $0.contains("015544332211c0") }.count == 4)
    _ = bench.send("010c2002 0000")
    _ = bench.send("010d2019 60006000 00 01 5544332211c0 00 1800 2800 0000 2a00 0000 0000")
    #expect(bench.wait(milliseconds: 300) == ["043e130100410000015544332211c0280000002a0000"])
    // Data for an unknown link is dropped and counted, and returns no buffer.
    #expect(bench.send(ControllerBench.att("0a0300")) == [])
    #expect(bench.controller.faults == 1)
  }
}
