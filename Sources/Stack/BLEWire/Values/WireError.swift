/// The one error of all byte decoding: which layer, where, and what was wrong.
public struct WireError: Error, Hashable, Sendable, BitwiseCopyable {
  /// The format that was being read.
  public enum Layer: UInt8, Hashable, Sendable, BitwiseCopyable {
    case h4, hciCommand, hciEvent, acl, advertisingData, l2cap, att, smp, ring, management
    case btsnoop, pcap, pcapng, packetLogger
    /// A packet of the air, by octets of what its file packs around it.
    case airLog
    /// A packet log of a format that its start does not tell.
    case packetLog
    // Values of characteristics, each named after its service.
    case battery, coreTemperature, cyclingSpeed, deviceInformation, heartRate, polarMeasurement, pulseOximeter
    case runningSpeed, thermometer
  }

  public enum Reason: Hashable, Sendable, BitwiseCopyable {
    /// Fewer octets than the field at `offset` needs.
    case truncated(needed: Int, available: Int)
    /// A length field that contradicts what is there.
    case lengthMismatch(claimed: Int, available: Int)
    /// A value that the specification forbids at `offset`.
    case invalidValue(UInt32)
    /// A checksum that does not fit the octets before it.
    case checksum(expected: UInt8, found: UInt8)
    /// Another PDU than the one asked for.
    case unexpectedOpcode(UInt8)
  }

  public var layer: Layer
  /// Octets from the start of the PDU of `layer`.
  public var offset: Int
  public var reason: Reason

  @inlinable public init(_ layer: Layer, offset: Int, _ reason: Reason) {
    self.layer = layer
    self.offset = offset
    self.reason = reason
  }

  /// Too few octets to hold a PDU whose smallest form has `needed`.
  @inlinable public static func truncated(_ layer: Layer, needed: Int, available: Int) -> WireError {
    WireError(layer, offset: available, .truncated(needed: needed, available: available))
  }
}

#if !NO_ALLOCATIONS
  extension WireError: CustomStringConvertible {
    public var description: String {
      let what =
        switch reason {
        case .truncated(let needed, let available): "needs \(needed) octets, has \(available)"
        case .lengthMismatch(let claimed, let available):
          "length field says \(claimed) octets, \(available) are there"
        case .invalidValue(let value): "invalid value 0x\(String(value, radix: 16))"
        case .checksum(let expected, let found):
          "checksum 0x\(hexadecimal(found)), expected 0x\(hexadecimal(expected))"
        case .unexpectedOpcode(let opcode): "unexpected opcode 0x\(hexadecimal(opcode))"
        }
      return "\(layer) at octet \(offset): \(what)"
    }
  }
#endif
