/// Exchange MTU Request and Response: both contain the sender's receive MTU.
///
/// Core 5.4, Vol 3, Part F, 3.4.2. A client sends the request at most once per connection.
@frozen public struct ExchangeMTU: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 3

  public let opcode: ATTOpcode
  /// The sender's receive MTU in bytes.
  public let mtu: UInt16

  @inlinable public init(request mtu: UInt16) {
    opcode = .exchangeMTURequest
    self.mtu = mtu
  }

  @inlinable public init(response mtu: UInt16) {
    opcode = .exchangeMTUResponse
    self.mtu = mtu
  }

  /// Decodes an Exchange MTU Request or Response.
  ///
  /// - Throws: `truncated` or `lengthMismatch` unless the PDU has exactly 3 bytes; `unexpectedOpcode` for
  ///   another PDU.
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(Self.byteCount, of: .exchangeMTURequest, or: .exchangeMTUResponse)
    opcode = ATTOpcode(pdu[0])
    try pdu.requireExactly(Self.byteCount, of: opcode)
    mtu = pdu.u16(at: 1)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(opcode.rawValue)
    output.append(u16: mtu)
  }
}
