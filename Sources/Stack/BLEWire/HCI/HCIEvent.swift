/// An HCI event packet: code, length, parameters. Core 5.4, Vol 4, Part E, 5.4.4.
@frozen public struct HCIEventPacket: ~Escapable {
  public static let headerByteCount = 2
  public static let maximumByteCount = 2 + 255

  public let code: HCIEventCode
  public let parameters: Span<UInt8>

  @_lifetime(copy parameters)
  @inlinable public init(code: HCIEventCode, parameters: Span<UInt8>) {
    self.code = code
    self.parameters = parameters
  }

  /// Decodes an event packet.
  ///
  /// - Parameter packet: the packet without its H4 type byte.
  @_lifetime(copy packet)
  @inlinable public init(validating packet: Span<UInt8>) throws(WireError) {
    try packet.require(Self.headerByteCount, .hciEvent)
    guard packet.count - Self.headerByteCount == Int(packet[1]) else {
      throw WireError(
        .hciEvent, offset: 1,
        .lengthMismatch(
          claimed: Int(packet[1]), available: packet.count - Self.headerByteCount))
    }
    code = HCIEventCode(rawValue: packet[0])
    parameters = packet.extracting(Self.headerByteCount...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(code.rawValue)
    output.append(UInt8(truncatingIfNeeded: parameters.count))
    output.append(parameters)
  }
}

/// Code of an HCI event. Core 5.4, Vol 4, Part E, 7.7. Unknown codes are kept.
public struct HCIEventCode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let disconnectionComplete = HCIEventCode(rawValue: 0x05)
  public static let readRemoteVersionComplete = HCIEventCode(rawValue: 0x0C)
  public static let commandComplete = HCIEventCode(rawValue: 0x0E)
  public static let commandStatus = HCIEventCode(rawValue: 0x0F)
  public static let hardwareError = HCIEventCode(rawValue: 0x10)
  public static let numberOfCompletedPackets = HCIEventCode(rawValue: 0x13)
  public static let dataBufferOverflow = HCIEventCode(rawValue: 0x1A)
  public static let leMeta = HCIEventCode(rawValue: 0x3E)
  /// An event that the controller's manufacturer defines. Core 5.4, Vol 4, Part E, 5.4.4.
  public static let vendor = HCIEventCode(rawValue: 0xFF)
}

/// The first parameter of an LE Meta event. Core 5.4, Vol 4, Part E, 7.7.65.
public struct LESubevent: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let connectionComplete = LESubevent(rawValue: 0x01)
  public static let advertisingReport = LESubevent(rawValue: 0x02)
  public static let connectionUpdateComplete = LESubevent(rawValue: 0x03)
  public static let readRemoteFeaturesComplete = LESubevent(rawValue: 0x04)
  public static let remoteConnectionParameterRequest = LESubevent(rawValue: 0x06)
  public static let dataLengthChange = LESubevent(rawValue: 0x07)
  public static let phyUpdateComplete = LESubevent(rawValue: 0x0C)
  public static let enhancedConnectionComplete = LESubevent(rawValue: 0x0A)
  public static let extendedAdvertisingReport = LESubevent(rawValue: 0x0D)
  public static let enhancedConnectionCompleteV2 = LESubevent(rawValue: 0x29)
}

extension Span where Element == UInt8 {
  /// Checks the size and subevent code of an LE Meta event. Additional bytes are allowed.
  ///
  /// - Throws: `truncated`, or `unexpectedOpcode` for another subevent.
  @inlinable func require(_ byteCount: Int, of subevent: LESubevent) throws(WireError) {
    try require(byteCount, .hciEvent)
    guard self[0] == subevent.rawValue else {
      throw WireError(.hciEvent, offset: 0, .unexpectedOpcode(self[0]))
    }
  }
}

/// The response to most commands: the command has completed. Core 5.4, Vol 4, Part E, 7.7.14.
@frozen public struct CommandComplete: ~Escapable {
  /// Number of commands that the controller can accept now.
  public let credits: UInt8
  /// Opcode of the command; 0 if the event only updates the credits.
  public let opcode: HCIOpcode
  /// Return parameters of the command. For nearly every command, the first byte is the status.
  public let returnParameters: Span<UInt8>

  @_lifetime(copy returnParameters)
  @inlinable public init(credits: UInt8, opcode: HCIOpcode, returnParameters: Span<UInt8>) {
    self.credits = credits
    self.opcode = opcode
    self.returnParameters = returnParameters
  }

  @_lifetime(copy parameters)
  @inlinable public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(3, .hciEvent)
    credits = parameters[0]
    opcode = HCIOpcode(rawValue: parameters.u16(at: 1))
    returnParameters = parameters.extracting(3...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(credits)
    output.append(u16: opcode.rawValue)
    output.append(returnParameters)
  }
}

/// The response to commands whose result is reported by a separate event. Core 5.4, Vol 4, Part E, 7.7.15.
@frozen public struct CommandStatus: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let credits: UInt8
  public let opcode: HCIOpcode

  @inlinable public init(status: HCIStatus, credits: UInt8, opcode: HCIOpcode) {
    self.status = status
    self.credits = credits
    self.opcode = opcode
  }

  @inlinable public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(4, .hciEvent)
    status = HCIStatus(rawValue: parameters[0])
    credits = parameters[1]
    opcode = HCIOpcode(rawValue: parameters.u16(at: 2))
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(status.rawValue)
    output.append(credits)
    output.append(u16: opcode.rawValue)
  }
}

/// Reports that a link ended. Core 5.4, Vol 4, Part E, 7.7.5.
@frozen public struct DisconnectionComplete: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle
  public let reason: HCIStatus

  @inlinable public init(status: HCIStatus, handle: ConnectionHandle, reason: HCIStatus) {
    self.status = status
    self.handle = handle
    self.reason = reason
  }

  @inlinable public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(4, .hciEvent)
    status = HCIStatus(rawValue: parameters[0])
    handle = ConnectionHandle(parameters.u16(at: 1))
    reason = HCIStatus(rawValue: parameters[3])
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(status.rawValue)
    output.append(u16: handle.rawValue)
    output.append(reason.rawValue)
  }
}
