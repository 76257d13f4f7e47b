public import BLECore
public import BLESystem
import BLEWire

/// Copies every ATT PDU of a bearer, as the HCI packet that carries it, into a ring that a log writer drains.
///
/// On the kernel's L2CAP socket the ACL and L2CAP headers are the kernel's own affair; they are rebuilt from
/// the link's handle, so that any reader of packet logs understands the file.
public struct PacketTap: Sendable {
  /// Set when the link is up.
  public var connectionHandle = ConnectionHandle(0)
  private let ring: RecordRing

  public init(_ ring: RecordRing) { self.ring = ring }

  /// H4 type, ACL header, L2CAP header.
  private typealias Prefix = InlineArray<9, UInt8>

  /// The record's tag is the direction's raw value. A full ring drops the record and counts it.
  func log(_ direction: HCIDirection, _ pdu: Span<UInt8>, at time: ReceiveTime) {
    var prefix = Prefix(repeating: 0)
    let boundary: ACLPacket.Boundary =
      direction == .hostToController ? .firstNonFlushable : .firstFlushable
    let handle = connectionHandle.rawValue | UInt16(boundary.rawValue) << 12
    let frameByteCount = UInt16(truncatingIfNeeded: pdu.count)
    prefix[0] = HCIPacketType.acl.rawValue
    Self.put(handle, in: &prefix, at: 1)
    Self.put(frameByteCount &+ UInt16(L2CAPFrame.headerByteCount), in: &prefix, at: 3)
    Self.put(frameByteCount, in: &prefix, at: 5)
    Self.put(ATT.channelID, in: &prefix, at: 7)
    ring.push(tag: UInt32(direction.rawValue), time: time, prefix.span, pdu)
  }

  private static func put(_ value: UInt16, in prefix: inout Prefix, at index: Int) {
    prefix[index] = UInt8(truncatingIfNeeded: value)
    prefix[index + 1] = UInt8(truncatingIfNeeded: value >> 8)
  }
}
