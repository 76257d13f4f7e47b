/// A basic L2CAP frame: length, channel, payload. Core 5.4, Vol 3, Part A, 3.1.
@frozen public struct L2CAPFrame: ~Escapable {
  public static let headerByteCount = 4

  /// Fixed channels of LE links. Core 5.4, Vol 3, Part A, 2.1.
  public enum FixedChannel {
    public static let signalling: UInt16 = 0x0005
    public static let securityManager: UInt16 = 0x0006
  }

  public let channelID: UInt16
  public let payload: Span<UInt8>

  @_lifetime(copy payload)
  @inlinable public init(channelID: UInt16, payload: Span<UInt8>) {
    self.channelID = channelID
    self.payload = payload
  }

  /// Decodes a complete frame.
  ///
  /// - Throws: `truncated`, or `lengthMismatch` unless the frame is complete.
  @_lifetime(copy frame)
  @inlinable public init(validating frame: Span<UInt8>) throws(WireError) {
    try frame.require(Self.headerByteCount, .l2cap)
    let claimed = Int(frame.u16(at: 0))
    guard frame.count - Self.headerByteCount == claimed else {
      throw WireError(
        .l2cap, offset: 0,
        .lengthMismatch(claimed: claimed, available: frame.count - Self.headerByteCount))
    }
    channelID = frame.u16(at: 2)
    payload = frame.extracting(Self.headerByteCount...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: UInt16(truncatingIfNeeded: payload.count))
    output.append(u16: channelID)
    output.append(payload)
  }
}

/// One command on the signalling channel. Core 5.4, Vol 3, Part A, 4.
@frozen public struct L2CAPSignal: ~Escapable {
  public static let commandReject: UInt8 = 0x01
  public static let disconnectionRequest: UInt8 = 0x06
  public static let disconnectionResponse: UInt8 = 0x07
  public static let connectionParameterUpdateRequest: UInt8 = 0x12
  public static let connectionParameterUpdateResponse: UInt8 = 0x13
  public static let flowControlCredit: UInt8 = 0x16

  public let code: UInt8
  public let identifier: UInt8
  public let data: Span<UInt8>

  @_lifetime(copy data)
  @inlinable public init(code: UInt8, identifier: UInt8, data: Span<UInt8>) {
    self.code = code
    self.identifier = identifier
    self.data = data
  }

  @_lifetime(copy payload)
  @inlinable public init(validating payload: Span<UInt8>) throws(WireError) {
    try payload.require(4, .l2cap)
    let claimed = Int(payload.u16(at: 2))
    guard payload.count - 4 == claimed else {
      throw WireError(
        .l2cap, offset: 2, .lengthMismatch(claimed: claimed, available: payload.count - 4))
    }
    code = payload[0]
    identifier = payload[1]
    data = payload.extracting(4...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(code)
    output.append(identifier)
    output.append(u16: UInt16(truncatingIfNeeded: data.count))
    output.append(data)
  }
}
