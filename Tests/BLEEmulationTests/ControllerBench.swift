import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

/// A manually driven host: packets and replies in hexadecimal with their H4 type. Time advances only when the
/// test advances it.
final class ControllerBench {
  let controller: VirtualController
  private(set) var now = MonotonicTime(nanoseconds: 1_000_000_000)

  init(
    _ configuration: VirtualController.Configuration = VirtualController.Configuration(),
    _ peripherals: [any VirtualPeripheral] = [EmulatedRing(ControllerBench.quietRing)]
  ) {
    controller = VirtualController(configuration, peripherals: peripherals)
  }

  /// A ring that sends nothing unsolicited.
  static var quietRing: EmulatedRing.Configuration {
    var ring = EmulatedRing.Configuration()
    ring.behaviour = .quiet
    return ring
  }

  func send(_ packet: String) -> [String] {
    let packet = octetsOf(packet)
    controller.receive(packet.span, now: now)
    return drain()
  }

  /// Advances the time, stopping at each deadline.
  func wait(milliseconds: Int) -> [String] {
    let end = now.advanced(by: .milliseconds(milliseconds))
    var packets: [String] = []
    while let deadline = controller.deadline, deadline <= end {
      now = max(now, deadline)
      controller.advance(to: now)
      packets += drain()
    }
    now = end
    return packets
  }

  private func drain() -> [String] {
    var packets: [String] = []
    controller.drain { packet in packets.append(hexOf(packet.indices.map { packet[$0] })) }
    return packets
  }

  /// Sends Reset, and event masks that enable all events.
  func setUp() {
    #expect(send("01030c00") == ["040e0401030c00"])
    #expect(send("01010c08 ffffffffffffff3f") == ["040e0401010c00"])
    #expect(send("01012008 1f00000000000000") == ["040e0401012000"])
  }

  /// Connects to the default ring by its address; the link has handle 0x0040.
  func connect() {
    setUp()
    #expect(send(Self.createConnection) == ["040f0400010d20"])
    #expect(wait(milliseconds: 200) == [Self.connected])
  }

  /// Interval 30 … 50 ms, latency 0, timeout 420 ms: the kernel's defaults.
  static let createConnection = "010d2019 60006000 00 00 b2a1000dcb70 00 1800 2800 0000 2a00 0000 0000"
  static let connected = "043e13010040000000b2a1000dcb70280000002a0000"
  static let completedPacket = "0413050140000100"

  /// An ATT PDU in one ACL packet on handle 0x0040.
  static func att(_ pdu: String, _ flags: String = "00") -> String {
    let count = octetsOf(pdu).count
    return "0240" + flags + hexOf([UInt8(count + 4), 0, UInt8(count), 0, 4, 0]) + hexOf(octetsOf(pdu))
  }

  /// Sends a request and returns the response PDU, after checking its header.
  func request(_ pdu: String) -> String {
    let answers = send(Self.att(pdu))
    #expect(answers.first == Self.completedPacket)
    return answers.dropFirst().map { String($0.dropFirst(18)) }.joined(separator: " ")
  }
}
