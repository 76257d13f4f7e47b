/// Reads the RSSI of a link. Core 5.4, Vol 4, Part E, 7.5.4.
public struct ReadRSSI: HCIQuery {
  public static let opcode = HCIOpcode.readRSSI
  public let handle: ConnectionHandle

  public struct Reply: HCIReply {
    public let handle: ConnectionHandle
    /// RSSI in dBm; `nil` if the controller does not know it (0x7F).
    public let rssi: Int8?

    public init(validating returned: Span<UInt8>) throws(WireError) {
      try returned.require(3, .hciEvent)
      handle = ConnectionHandle(returned.u16(at: 0))
      rssi = returned[2] == 0x7F ? nil : Int8(bitPattern: returned[2])
    }
  }

  public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}

/// Requests the LE features of the peer. A separate event reports them. Core 5.4, Vol 4, Part E, 7.8.21.
public struct LEReadRemoteFeatures: HCICommand {
  public static let opcode = HCIOpcode.leReadRemoteFeatures
  public let handle: ConnectionHandle

  public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}

/// Requests the version and manufacturer of the peer's link layer. A separate event reports them. Core 5.4,
/// Vol 4, Part E, 7.1.23.
public struct ReadRemoteVersionInformation: HCICommand {
  public static let opcode = HCIOpcode.readRemoteVersionInformation
  public let handle: ConnectionHandle

  public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}
