import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

/// L2CAP and ATT at the peripheral. Core 5.4, Vol 3, Part A, 3.1 and 4; Vol 4, Part E, 5.4.2.
@Suite struct PeripheralLinkTests {
  @Test("each packet from the host gives its buffer back, then is answered")
  func flowControl() {
    let bench = ControllerBench()
    bench.connect()
    #expect(
      bench.send(ControllerBench.att("020502")) == [
        ControllerBench.completedPacket, ControllerBench.att("03f400", "20"),
      ])
    // A frame in two fragments gets its response after the second.
    #expect(bench.send("0240000600050004001213") == [ControllerBench.completedPacket])
    #expect(
      bench.send("0240100300000100") == [
        ControllerBench.completedPacket, ControllerBench.att("13", "20"),
      ])
  }

  @Test("signalling and pairing are refused as specified")
  func otherChannels() {
    let bench = ControllerBench()
    bench.connect()
    // Information Request: Command Reject, not understood.
    #expect(
      bench.send("0240000a00 06000500 0a0502000200") == [
        ControllerBench.completedPacket, "0240200a0006000500010502000000",
      ])
    // Pairing Request: Pairing Failed, not supported.
    #expect(
      bench.send("0240000b00 07000600 01030001100000") == [
        ControllerBench.completedPacket, "0240200600020006000505",
      ])
    // An indication is confirmed whatever its handle.
    #expect(bench.request("1d0300aa") == "1e")
  }

  /// Sends one long value when the command arrives.
  final class Talker: VirtualPeripheral {
    static let valueHandle = AttributeHandle(3)
    let advertisement: Advertisement? = Advertisement(
      address: DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public), data: [2, 1, 6])
    let services = [
      GATTServiceDescription(
        .heartRate,
        characteristics: [GATTCharacteristicDescription(BluetoothUUID(0x2A37), [.notify, .write])])
    ]

    func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
      guard handle == Self.valueHandle else { return }
      let value = [UInt8](0..<60)
      link.push(of: Self.valueHandle, value: value.span)
    }
  }

  @Test("a frame longer than the controller's buffer goes out in fragments")
  func fragments() {
    let bench = ControllerBench(VirtualController.Configuration(aclByteCount: 27), [Talker()])
    bench.connect()
    #expect(bench.request("02f700") == "030502")
    #expect(bench.request("1204000100") == "13")
    let pushed = bench.send(ControllerBench.att("12030001")).dropFirst(2)
    let value = (0..<60).map { UInt8($0) }
    #expect(
      Array(pushed) == [
        "0240201b003f0004001b0300" + hexOf(value[..<20]),
        "0240101b00" + hexOf(value[20..<47]),
        "0240100d00" + hexOf(value[47...]),
      ])
  }
}
