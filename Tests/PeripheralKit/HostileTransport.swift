package import BLEHost
package import BLELinux

/// Modifies the packets that a host sends and receives on the channels of its links.
package final class HostileTransport: PacketTransport, @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  /// Returns the payloads that replace a payload: none, the same, or others. For channel 0, `payload` is a
  /// packet with a part of a longer payload, and the results are packets.
  package typealias Edit = @Sendable (_ channel: UInt16, _ payload: [UInt8]) -> [[UInt8]]

  private let base: any PacketTransport
  private let sending: Edit
  private let receiving: Edit

  package init(
    _ base: any PacketTransport, sending: @escaping Edit = { [$1] }, receiving: @escaping Edit = { [$1] }
  ) {
    self.base = base
    self.sending = sending
    self.receiving = receiving
  }

  private static func edited(_ packet: Span<UInt8>, _ edit: Edit) -> [[UInt8]] {
    let octets = packet.indices.map { packet[$0] }
    // Type, handle, length of the packet, length of the frame, channel.
    guard octets[0] == 0x02 else { return [octets] }
    guard octets.count > 9, octets.count == 9 + Int(octets[5]) + Int(octets[6]) << 8 else {
      return edit(0, octets)
    }
    return edit(UInt16(octets[7]) | UInt16(octets[8]) << 8, Array(octets[9...])).map { payload in
      let (frame, data) = (payload.count, payload.count + 4)
      return octets[..<3] + [UInt8(data & 0xFF), UInt8(data >> 8), UInt8(frame & 0xFF), UInt8(frame >> 8)]
        + octets[7..<9] + payload
    }
  }

  package func open(_ client: TransportClient) throws(SystemError) {
    let receiving = receiving
    try base.open(
      TransportClient(
        received: { packet, time, hasKernelStamp in
          for octets in Self.edited(packet, receiving) { client.received(octets.span, time, hasKernelStamp) }
        }, settled: client.settled, lost: client.lost, deadline: client.deadline, expired: client.expired))
  }

  package func send(_ packet: Span<UInt8>) throws(SystemError) {
    for octets in Self.edited(packet, sending) { try base.send(octets.span) }
  }

  package func close() { base.close() }
  package var kernelQueueDrops: Int { base.kernelQueueDrops }
  package var garbage: Int { base.garbage }
}
