import BLEStack
import BLEWire
import TestKit
import Testing

/// A manually driven controller: packets in hexadecimal with their H4 type. Time advances only when the test
/// advances it.
final class HCIHostBench {
  var host = HCIHost()
  private(set) var now = MonotonicTime(nanoseconds: 1_000_000_000)
  /// ATT PDUs in hexadecimal, each after its link.
  var attributes: [String] = []
  var reports: [String] = []
  /// Peer address of each `connect`.
  static let peer = "f5f4f3f2f1f0"

  /// Return parameters of a controller with two LE buffers of 27 bytes, by opcode in transmission order.
  static let answers = [
    "030c": "00", "0110": "00 0d 0000 0d f105 0000", "0210": "00" + String(repeating: "ff", count: 64),
    "0310": "00 0000000060000000", "0910": "00 0153005e0000", "010c": "00", "0120": "00",
    "0320": "00 2301000000000000", "0220": "00 1b00 02",
  ]

  /// Resets the host and completes its commands until it is ready.
  func setUp(_ answers: [String: String] = HCIHostBench.answers) throws {
    host.start()
    while let packet = host.nextPacket(now: now) {
      let opcode = hexOf(packet[1...2])
      try receive(event("0e", "01" + opcode + (answers[opcode] ?? "01")))
    }
  }

  /// Makes a link that the owner requested.
  func connect(_ handle: String = "4000") throws {
    let peer = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)
    _ = host.submit(LECreateConnection(to: peer, ownType: .public, parameters: .default))
    #expect(sent() == ["010d2019600060000001" + Self.peer + "001800280000002a0000000000"])
    try receive("040f0400010d20")
    try receive("043e1301 00" + handle + "0001" + Self.peer + "2800 0000 2a00 00")
  }

  /// A host in state ready, with a link of handle 0x0040 and no pending events.
  static func linked() throws -> HCIHostBench {
    let bench = HCIHostBench()
    try bench.setUp()
    try bench.connect()
    _ = bench.events()
    return bench
  }

  func submit(_ command: some HCICommand) throws -> CommandID {
    let id = host.submit(command)
    return try #require(id)
  }

  func receive(_ hex: String) throws(WireError) { try receive(octetsOf(hex)) }

  func receive(_ packet: [UInt8]) throws(WireError) {
    try host.receive(packet.span, now: now) { report in
      let data = report.data.indices.map { report.data[$0] }
      reports.append("\(report.address) \(String(report.properties.bits, radix: 16)) \(hexOf(data))")
    } attribute: { handle, pdu in
      attributes.append(String(handle.rawValue, radix: 16) + ":" + hexOf(pdu.indices.map { pdu[$0] }))
    }
  }

  /// Returns the packets that the host sends now, without replying to them.
  func sent() -> [String] {
    var packets: [String] = []
    while let packet = host.nextPacket(now: now) { packets.append(hexOf(packet)) }
    return packets
  }

  func events() -> [HCIHostEvent] { host.takeEvents() }

  func wait(_ duration: Duration) {
    now = now.advanced(by: duration)
    host.expire(now: now)
  }

  func event(_ code: String, _ parameters: String) -> String {
    let octets = octetsOf(parameters)
    return "04" + code + hexOf([UInt8(octets.count)] + octets)
  }

  /// An L2CAP frame in one ACL packet from the controller.
  func frame(_ channelID: String, _ payload: String, handle: String = "4020") -> String {
    let count = octetsOf(payload).count
    return "02" + handle + hexOf([UInt8((count + 4) & 0xFF), UInt8((count + 4) >> 8)])
      + hexOf([UInt8(count & 0xFF), UInt8(count >> 8)]) + channelID + payload
  }
}
