import BLEPacketLog
import BLEWire
import TestKit

package func contains(_ octets: [UInt8], _ sequence: [UInt8]) -> Bool {
  octets.indices.contains { octets[$0] == sequence[0] && octets[$0...].starts(with: sequence) }
}

/// A log with addresses, a name and keys in each place where HCI, SMP and ATT can contain them.
package enum SecretLog {
  /// In transmission order.
  package static let peer = octetsOf("b2a1000dcb70")
  package static let own = octetsOf("0605040302c1")
  package static let resolvable = octetsOf("665544332251")
  package static let name = Array("Anna's ring".utf8)
  package static let ltk = octetsOf("00112233445566778899aabbccddeeff")
  package static let irk = octetsOf("f0e1d2c3b4a5968778695a4b3c2d1e0f")
  package static let confirm = octetsOf("a0a1a2a3a4a5a6a7a8a9aaabacadaeaf")
  package static let publicKey = (0..<64).map { UInt8($0 * 3 + 1) }

  private static func command(_ opcode: UInt16, _ parameters: [UInt8]) -> LoggedPacket {
    LoggedPacket(
      type: .command, direction: .hostToController,
      octets: octets(opcode, .little) + [UInt8(parameters.count)] + parameters)
  }

  private static func event(_ code: UInt8, _ parameters: [UInt8]) -> LoggedPacket {
    LoggedPacket(
      type: .event, direction: .controllerToHost, octets: [code, UInt8(parameters.count)] + parameters)
  }

  /// Makes an L2CAP frame on handle 0x0040, in packets of at most 27 bytes of data.
  private static func frame(_ channel: UInt16, _ payload: [UInt8], _ direction: HCIDirection)
    -> [LoggedPacket]
  {
    var rest = octets(UInt16(payload.count), .little) + octets(channel, .little) + payload
    var packets: [LoggedPacket] = []
    while !rest.isEmpty {
      let part = Array(rest.prefix(27))
      rest.removeFirst(part.count)
      let boundary: UInt16 = packets.isEmpty ? (direction == .hostToController ? 0 : 0x2000) : 0x1000
      packets.append(
        LoggedPacket(
          type: .acl, direction: direction,
          octets: octets(0x0040 | boundary, .little) + octets(UInt16(part.count), .little) + part))
    }
    return packets
  }

  package static let packets: [LoggedPacket] = {
    let advertising = octetsOf("020106") + [UInt8(name.count + 1), 0x09] + name
    var packets = [
      command(0x2005, own), command(0x0C13, name + [UInt8](repeating: 0, count: 248 - name.count)),
      event(0x0E, octetsOf("01 0910 00") + own),
      event(
        0x3E, octetsOf("02 01 00 00") + peer + [UInt8(advertising.count)] + advertising + octetsOf("c5")),
      // Vendor data with the address in reverse order, before and after it is known.
      event(
        0x3E,
        octetsOf("02 01 04 00") + octetsOf("111111111141") + octetsOf("0a 09ff3412") + peer.reversed()
          + octetsOf("c5")),
      command(0x2011, [0] + peer), command(0x2027, [0] + peer + irk + confirm),
      command(0x200D, octetsOf("6000 3000 00 00") + peer + octetsOf("00 1800 2800 0000 2a00 0000 0000")),
      event(0x3E, octetsOf("0a 00 4000 00 00") + peer + own + resolvable + octetsOf("1800 0000 2a00 00")),
    ]
    packets += frame(6, [0x0C] + publicKey, .hostToController)
    packets += frame(6, [0x03] + confirm, .controllerToHost)
    packets += frame(6, [0x06] + ltk, .controllerToHost)
    packets += frame(6, [0x08] + irk, .controllerToHost)
    packets += frame(6, [0x09, 0x00] + peer, .controllerToHost)
    packets.append(command(0x2019, octetsOf("4000 0102030405060708 3412") + ltk))
    packets += frame(4, octetsOf("08 0100 ffff 002a"), .hostToController)
    packets += frame(4, [0x09, UInt8(name.count + 2), 0x03, 0x00] + name, .controllerToHost)
    packets += frame(4, octetsOf("0a 0300"), .hostToController)
    packets += frame(4, [0x0B] + name, .controllerToHost)
    packets += frame(4, octetsOf("1b 1200 2142 "), .controllerToHost)
    // The ring's reply with its name and its address, in two packets.
    packets += frame(
      4, octetsOf("1b 1200") + [UInt8](repeating: 0x20, count: 12) + name + peer, .controllerToHost)
    packets.append(event(0x18, peer + ltk + [4]))
    packets.append(event(0x05, octetsOf("00 4000 13")))
    return packets
  }()

  package static let secrets = [peer, own, resolvable, name, ltk, irk, confirm, publicKey]

  /// Contents of the packets, with fragments combined to frames.
  package static func payload(of packets: [LoggedPacket]) -> [UInt8] {
    packets.flatMap { $0.type == .acl ? Array($0.octets[4...]) : $0.octets }
  }
}
