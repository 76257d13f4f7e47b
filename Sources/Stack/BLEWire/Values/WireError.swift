/// The only error that byte decoding throws: layer, offset and reason.
public struct WireError: Error, Hashable, Sendable, BitwiseCopyable {
  /// The format that was decoded.
  public enum Layer: UInt8, Hashable, Sendable, BitwiseCopyable {
    case h4, hciCommand, hciEvent, acl, advertisingData, l2cap, att, smp, ring, management
    case btsnoop, pcap, pcapng, packetLogger
    /// A packet captured by a sniffer. Offsets include the pseudo-header that the file has before each
    /// packet.
    case airLog
    /// A packet log whose format could not be detected.
    case packetLog
    // Values of characteristics, each named after its service.
    case battery, coreTemperature, cyclingSpeed, deviceInformation, heartRate, polarMeasurement, pulseOximeter
    case runningSpeed, thermometer
  }

  public enum Reason: Hashable, Sendable, BitwiseCopyable {
    /// The PDU has fewer bytes than the field at `offset` needs.
    case truncated(needed: Int, available: Int)
    /// A length field does not match the actual length.
    case lengthMismatch(claimed: Int, available: Int)
    /// The specification does not allow the value at `offset`.
    case invalidValue(UInt32)
    /// A checksum does not match the bytes before it.
    case checksum(expected: UInt8, found: UInt8)
    /// The PDU is not of the requested type.
    case unexpectedOpcode(UInt8)
  }

  public var layer: Layer
  /// Offset in the PDU of `layer`, in bytes.
  public var offset: Int
  public var reason: Reason

  @inlinable public init(_ layer: Layer, offset: Int, _ reason: Reason) {
    self.layer = layer
    self.offset = offset
    self.reason = reason
  }

  /// An error for a PDU with fewer bytes than its minimum size `needed`.
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
