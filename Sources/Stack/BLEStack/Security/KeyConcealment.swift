import BLEWire

/// Takes keys out of packets before somebody writes them down.
public enum KeyConcealment {
  /// A copy of an HCI packet with zeros in the place of its keys.
  ///
  /// The keys of the encryption commands, and those that the Security Manager gives away. Such a PDU fits into the first
  /// fragment of its frame, which has 27 octets at least. The key of a legacy pairing itself, the STK, can be found from
  /// what is left; it encrypts nothing but the first link.
  ///
  /// - Parameter packet: H4 type octet first.
  /// - Returns: `nil` for a packet without keys.
  public static func concealed(_ packet: Span<UInt8>) -> [UInt8]? {
    guard let keys = keys(in: packet) else { return nil }
    let range = keys.clamped(to: 0..<packet.count)
    return [UInt8](encoding: packet.count) { output in
      for index in packet.indices { output.append(range.contains(index) ? 0 : packet[index]) }
    }
  }

  /// Where they are.
  private static func keys(in packet: Span<UInt8>) -> Range<Int>? {
    guard packet.count > 9 else { return nil }
    switch HCIPacketType(rawValue: packet[0]) {
    case .command: return keys(of: HCIOpcode(rawValue: packet.u16(at: 1)))
    case .acl:
      // Boundary 1 continues a frame. Length of the frame, channel and code follow the header of four octets.
      guard packet[2] & 0x30 != 0x10, packet.u16(at: 7) == L2CAPFrame.FixedChannel.securityManager else {
        return nil
      }
      switch SecurityManagerCode(rawValue: packet[9]) {
      case .encryptionInformation, .identityInformation, .signingInformation: return 10..<26
      default: return nil
      }
    default: return nil
    }
  }

  /// By the layouts of Core 5.4, Vol 4, Part E, 7.8.22, 7.8.24, 7.8.25 and 7.8.38; four octets go before.
  private static func keys(of opcode: HCIOpcode) -> Range<Int>? {
    switch opcode {
    case .leEncrypt: 4..<20
    case .leEnableEncryption: 16..<32
    case .leLongTermKeyRequestReply: 6..<22
    case .leAddDeviceToResolvingList: 11..<43
    default: nil
    }
  }
}
