/// Opcode of an HCI command: group in the upper 6 bits, command in the lower 10.
///
/// Core 5.4, Vol 4, Part E, 5.4.1 and 7. Unknown values are kept.
public struct HCIOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public init(group: UInt16, command: UInt16) { rawValue = group << 10 | command }

  public static let disconnect = HCIOpcode(group: 0x01, command: 0x006)
  public static let readRemoteVersionInformation = HCIOpcode(group: 0x01, command: 0x01D)

  public static let setEventMask = HCIOpcode(group: 0x03, command: 0x001)
  public static let reset = HCIOpcode(group: 0x03, command: 0x003)
  public static let writeLEHostSupport = HCIOpcode(group: 0x03, command: 0x06D)

  public static let readLocalVersion = HCIOpcode(group: 0x04, command: 0x001)
  public static let readLocalSupportedCommands = HCIOpcode(group: 0x04, command: 0x002)
  public static let readLocalSupportedFeatures = HCIOpcode(group: 0x04, command: 0x003)
  public static let readBufferSize = HCIOpcode(group: 0x04, command: 0x005)
  public static let readBDADDR = HCIOpcode(group: 0x04, command: 0x009)

  public static let readRSSI = HCIOpcode(group: 0x05, command: 0x005)

  public static let leSetEventMask = HCIOpcode(group: 0x08, command: 0x001)
  public static let leReadBufferSize = HCIOpcode(group: 0x08, command: 0x002)
  public static let leReadLocalSupportedFeatures = HCIOpcode(group: 0x08, command: 0x003)
  public static let leSetRandomAddress = HCIOpcode(group: 0x08, command: 0x005)
  public static let leSetScanParameters = HCIOpcode(group: 0x08, command: 0x00B)
  public static let leSetScanEnable = HCIOpcode(group: 0x08, command: 0x00C)
  public static let leCreateConnection = HCIOpcode(group: 0x08, command: 0x00D)
  public static let leCreateConnectionCancel = HCIOpcode(group: 0x08, command: 0x00E)
  public static let leClearFilterAcceptList = HCIOpcode(group: 0x08, command: 0x010)
  public static let leAddDeviceToFilterAcceptList = HCIOpcode(group: 0x08, command: 0x011)
  public static let leConnectionUpdate = HCIOpcode(group: 0x08, command: 0x013)
  public static let leReadRemoteFeatures = HCIOpcode(group: 0x08, command: 0x016)
  public static let leRemoteConnectionParameterRequestReply = HCIOpcode(group: 0x08, command: 0x020)
  public static let leRemoteConnectionParameterRequestNegativeReply = HCIOpcode(
    group: 0x08, command: 0x021)
  public static let leSetDataLength = HCIOpcode(group: 0x08, command: 0x022)
  public static let leSetPHY = HCIOpcode(group: 0x08, command: 0x032)
  public static let leExtendedCreateConnection = HCIOpcode(group: 0x08, command: 0x043)
  public static let leSetExtendedScanParameters = HCIOpcode(group: 0x08, command: 0x041)
  public static let leSetExtendedScanEnable = HCIOpcode(group: 0x08, command: 0x042)
}

/// An HCI command packet: opcode, length, parameters. Core 5.4, Vol 4, Part E, 5.4.1.
@frozen public struct HCICommandPacket: ~Escapable {
  /// Size of the header in bytes: opcode and length.
  public static let headerByteCount = 3
  public static let maximumByteCount = 3 + 255

  public let opcode: HCIOpcode
  public let parameters: Span<UInt8>

  @_lifetime(copy parameters)
  @inlinable public init(opcode: HCIOpcode, parameters: Span<UInt8>) {
    self.opcode = opcode
    self.parameters = parameters
  }

  /// Decodes a command packet.
  ///
  /// - Parameter packet: the packet without its H4 type byte.
  @_lifetime(copy packet)
  @inlinable public init(validating packet: Span<UInt8>) throws(WireError) {
    try packet.require(Self.headerByteCount, .hciCommand)
    guard packet.count - Self.headerByteCount == Int(packet[2]) else {
      throw WireError(
        .hciCommand, offset: 2,
        .lengthMismatch(
          claimed: Int(packet[2]), available: packet.count - Self.headerByteCount))
    }
    opcode = HCIOpcode(rawValue: packet.u16(at: 0))
    parameters = packet.extracting(Self.headerByteCount...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: opcode.rawValue)
    output.append(UInt8(truncatingIfNeeded: parameters.count))
    output.append(parameters)
  }
}

/// A command: its opcode and the encoding of its parameters.
public protocol HCICommand: Sendable {
  static var opcode: HCIOpcode { get }
  func encodeParameters(into output: inout OutputSpan<UInt8>)
}

/// A command that returns more than a status in its Command Complete event.
public protocol HCIQuery: HCICommand {
  associatedtype Reply: HCIReply
}

/// Return parameters of a Command Complete event.
public protocol HCIReply: Hashable, Sendable {
  /// Decodes the return parameters.
  ///
  /// - Parameter returned: the return parameters after the status byte.
  init(validating returned: Span<UInt8>) throws(WireError)
}

/// Reads the commands that the controller supports. The reply has 64 bytes of flags, one bit per command.
/// Core 5.4, Vol 4, Part E, 7.4.2 and 6.27.
public struct ReadLocalSupportedCommands: HCICommand {
  public static let opcode = HCIOpcode.readLocalSupportedCommands
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Reads the controller's LE features: eight bytes of flags, see `LEFeatures`. Core 5.4, Vol 4, Part E,
/// 7.8.3.
public struct LEReadLocalSupportedFeatures: HCICommand {
  public static let opcode = HCIOpcode.leReadLocalSupportedFeatures
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}

  public struct Reply: HCIReply {
    public let features: LEFeatures

    public init(validating returned: Span<UInt8>) throws(WireError) {
      try returned.require(8, .hciEvent)
      features = LEFeatures(bits: returned.u64(at: 0))
    }
  }
}
