import BLEWire

/// Removes keys from packets before they are logged.
public enum KeyConcealment {
  /// Returns a copy of an HCI packet with its keys replaced by zeros.
  ///
  /// Covers the keys in encryption commands and in PDUs of the Security Manager. Such a PDU fits in the first
  /// fragment of its frame, which has at least 27 bytes. The short-term key of a legacy pairing can be
  /// derived from the remaining data; it encrypts only the first link.
  ///
  /// - Parameter packet: the packet, preceded by its H4 type byte.
  /// - Returns: `nil` for a packet without keys.
  public static func concealed(_ packet: Span<UInt8>) -> [UInt8]? {
    guard let keys = keys(in: packet) else { return nil }
    let range = keys.clamped(to: 0..<packet.count)
    return [UInt8](encoding: packet.count) { output in
      for index in packet.indices { output.append(range.contains(index) ? 0 : packet[index]) }
    }
  }

  /// Returns the position of the keys in a packet.
  private static func keys(in packet: Span<UInt8>) -> Range<Int>? {
    guard packet.count > 9 else { return nil }
    switch HCIPacketType(rawValue: packet[0]) {
    case .command: return keys(of: HCIOpcode(rawValue: packet.u16(at: 1)))
    case .acl:
      // Boundary flag 1 is a continuation. Frame length, channel and code follow the four-byte ACL header.
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

  /// Returns the position of the keys in a command with this opcode. The layouts are those of Core 5.4, Vol
  /// 4, Part E, 7.8.22, 7.8.24, 7.8.25 and 7.8.38, after four bytes of header.
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
