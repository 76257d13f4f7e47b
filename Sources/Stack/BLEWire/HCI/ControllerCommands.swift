/// Selects the events that the controller sends. Core 5.4, Vol 4, Part E, 7.3.1.
public struct SetEventMask: HCICommand {
  public static let opcode = HCIOpcode.setEventMask
  /// Events that an LE host needs: disconnection, encryption change and key refresh, remote version, hardware
  /// error, data buffer overflow, LE Meta.
  public static let host = SetEventMask(
    bits: 1 << 4 | 1 << 7 | 1 << 11 | 1 << 15 | 1 << 25 | 1 << 47 | 1 << 61)
  public let bits: UInt64

  @inlinable public init(bits: UInt64) { self.bits = bits }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u64: bits) }
}

/// Selects the LE Meta events that the controller sends. Core 5.4, Vol 4, Part E, 7.8.1.
public struct LESetEventMask: HCICommand {
  public static let opcode = HCIOpcode.leSetEventMask
  /// Connection complete, advertising reports, connection updates, remote features, long-term key request,
  /// parameter request, data length, enhanced connection complete, PHY update, extended reports. A controller
  /// ignores the bits of events that it does not support.
  public static let host = LESetEventMask(
    bits: 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 12)
  public let bits: UInt64

  @inlinable public init(bits: UInt64) { self.bits = bits }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u64: bits) }
}

/// Reads the controller's public address. Core 5.4, Vol 4, Part E, 7.4.6.
public struct ReadBDADDR: HCICommand {
  public static let opcode = HCIOpcode.readBDADDR
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// The LE features that determine which commands may be used. Core 5.4, Vol 6, Part B, 4.6.
public struct LEFeatures: Hashable, Sendable, BitwiseCopyable {
  public let bits: UInt64
  @inlinable public init(bits: UInt64) { self.bits = bits }

  public var hasConnectionParametersRequest: Bool { bits & 1 << 1 != 0 }
  public var hasDataPacketLengthExtension: Bool { bits & 1 << 5 != 0 }
  public var hasPHY2M: Bool { bits & 1 << 8 != 0 }
  public var hasPHYCoded: Bool { bits & 1 << 11 != 0 }
  public var hasExtendedAdvertising: Bool { bits & 1 << 12 != 0 }
}
