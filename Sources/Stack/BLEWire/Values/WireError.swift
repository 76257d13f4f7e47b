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

  /// Returns an error for a PDU with fewer bytes than its minimum size `needed`.
  @inlinable public static func truncated(_ layer: Layer, needed: Int, available: Int) -> WireError {
    WireError(layer, offset: available, .truncated(needed: needed, available: available))
  }
}

#if !NO_ALLOCATIONS
  extension WireError: CustomStringConvertible {
    public var description: String {
      let what =
        switch reason {
        case .truncated(let needed, let available):
          "\(counted(needed, "byte is", "bytes are")) needed, \(counted(available, "is", "are")) there"
        case .lengthMismatch(let claimed, let available):
          "the length field says \(counted(claimed, "byte")), \(counted(available, "is", "are")) there"
        case .invalidValue(let value): "the value 0x\(String(value, radix: 16)) is not valid"
        case .checksum(let expected, let found):
          "the checksum is 0x\(hexadecimal(found)) instead of 0x\(hexadecimal(expected))"
        case .unexpectedOpcode(let opcode): "the opcode 0x\(hexadecimal(opcode)) is not expected"
        }
      return "\(layer.name) at byte \(offset): \(what)"
    }
  }

  extension WireError.Layer {
    /// The format's name in messages.
    fileprivate var name: String {
      switch self {
      case .h4: "HCI transport (H4)"
      case .hciCommand: "HCI command"
      case .hciEvent: "HCI event"
      case .acl: "ACL data"
      case .advertisingData: "advertising data"
      case .l2cap: "L2CAP"
      case .att: "ATT"
      case .smp: "SMP"
      case .ring: "ring frame"
      case .management: "management packet"
      case .btsnoop: "btsnoop"
      case .pcap: "pcap"
      case .pcapng: "pcapng"
      case .packetLogger: "PacketLogger file"
      case .airLog: "sniffer packet"
      case .packetLog: "packet log"
      case .battery: "battery level"
      case .coreTemperature: "core temperature"
      case .cyclingSpeed: "cycling speed and cadence"
      case .deviceInformation: "device information"
      case .heartRate: "heart rate"
      case .polarMeasurement: "Polar measurement"
      case .pulseOximeter: "pulse oximeter"
      case .runningSpeed: "running speed and cadence"
      case .thermometer: "thermometer"
      }
    }
  }
#endif
