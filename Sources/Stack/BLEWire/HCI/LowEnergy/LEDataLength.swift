/// Requests longer data packets on a link. Core 5.4, Vol 4, Part E, 7.8.33.
public struct LESetDataLength: HCICommand {
  public static let opcode = HCIOpcode.leSetDataLength
  public let handle: ConnectionHandle
  /// Maximum size of the packets that this side sends, in bytes; 27 … 251.
  public let octets: UInt16
  /// Maximum duration of the packets that this side sends, in µs; 328 … 17,040.
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
