/// Role of a packet in a sequence of requests and responses. Depends only on the packet's first bytes, so
/// truncated or corrupt packets have a role too.
public enum HCIPacketRole: Hashable, Sendable {
  case command(HCIOpcode)
  /// Command Complete or Command Status of this command; opcode 0 if the event only updates the credits.
  case answer(HCIOpcode)
  /// An ATT PDU that starts in this packet.
  case att(ConnectionHandle, ATTOpcode)
  case disconnection(ConnectionHandle)
  case other

  /// - Parameter packet: the packet, preceded by its H4 type byte.
  public init(_ packet: Span<UInt8>) {
    self = .other
    guard packet.count > 3 else { return }
    switch HCIPacketType(rawValue: packet[0]) {
    case .command: self = .command(HCIOpcode(rawValue: packet.u16(at: 1)))
    case .event where packet.count > 6:
      switch HCIEventCode(rawValue: packet[1]) {
      case .commandComplete: self = .answer(HCIOpcode(rawValue: packet.u16(at: 4)))
      case .commandStatus: self = .answer(HCIOpcode(rawValue: packet.u16(at: 5)))
      case .disconnectionComplete: self = .disconnection(ConnectionHandle(packet.u16(at: 4)))
      default: break
      }
    // H4 type, ACL header, L2CAP header, then the PDU. Bits 12 and 13 of the handle are 1 in a continuation.
    case .acl where packet.count > 9 && packet[2] & 0x30 != 0x10 && packet.u16(at: 7) == ATT.channelID:
      self = .att(ConnectionHandle(packet.u16(at: 1)), ATTOpcode(rawValue: packet[9]))
    default: break
    }
  }
}
