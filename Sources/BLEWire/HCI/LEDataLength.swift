public import BLECore

/// Asks for longer data packets on a link. Core 5.4, Vol 4, Part E, 7.8.33.
public struct LESetDataLength: HCICommand {
  public static let opcode = HCIOpcode.leSetDataLength
  public let handle: ConnectionHandle
  /// 27 … 251 octets.
  public let octets: UInt16
  /// 328 … 17,040 µs.
  public let microseconds: UInt16

  public init(_ handle: ConnectionHandle, octets: UInt16 = 251, microseconds: UInt16 = 2120) {
    self.handle = handle
    self.octets = octets
    self.microseconds = microseconds
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(u16: octets)
    output.append(u16: microseconds)
  }
}

/// Octets and time of one data packet on air.
public struct DataLength: Hashable, Sendable, BitwiseCopyable {
  /// 27 … 251 octets.
  public let octets: UInt16
  /// 328 … 17,040 µs.
  public let microseconds: UInt16

  @inlinable public init(octets: UInt16, microseconds: UInt16) {
    self.octets = octets
    self.microseconds = microseconds
  }
}

/// What links to come ask for when we send. Core 5.4, Vol 4, Part E, 7.8.35.
public struct LEWriteSuggestedDefaultDataLength: HCICommand {
  public static let opcode = HCIOpcode.leWriteSuggestedDefaultDataLength
  public let transmit: DataLength

  public init(_ transmit: DataLength) { self.transmit = transmit }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: transmit.octets)
    output.append(u16: transmit.microseconds)
  }
}

/// Core 5.4, Vol 4, Part E, 7.8.34.
public struct LEReadSuggestedDefaultDataLength: HCIQuery {
  public static let opcode = HCIOpcode.leReadSuggestedDefaultDataLength

  public struct Reply: HCIReply {
    public let transmit: DataLength

    public init(validating returned: Span<UInt8>) throws(WireError) {
      try returned.require(4, .hciEvent)
      transmit = returned.dataLength(at: 0)
    }
  }

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// The longest data packets that the controller can. Core 5.4, Vol 4, Part E, 7.8.46.
public struct LEReadMaximumDataLength: HCIQuery {
  public static let opcode = HCIOpcode.leReadMaximumDataLength

  public struct Reply: HCIReply {
    public let transmit: DataLength
    public let receive: DataLength

    public init(validating returned: Span<UInt8>) throws(WireError) {
      try returned.require(8, .hciEvent)
      transmit = returned.dataLength(at: 0)
      receive = returned.dataLength(at: 4)
    }
  }

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

extension Span where Element == UInt8 {
  fileprivate func dataLength(at offset: Int) -> DataLength {
    DataLength(octets: u16(at: offset), microseconds: u16(at: offset + 2))
  }
}
