/// One HCI ACL data packet: a fragment of an L2CAP PDU. Core 5.4, Vol 4, Part E, 5.4.2.
@frozen public struct ACLPacket: ~Escapable {
  public static let headerByteCount = 4

  /// Packet boundary flag.
  public enum Boundary: UInt8, Hashable, Sendable, BitwiseCopyable {
    /// First fragment, host to controller (LE).
    case firstNonFlushable = 0
    case continuation = 1
    /// First fragment, controller to host.
    case firstFlushable = 2
    /// A complete PDU on a loopback or AMP link. LE does not use it.
    case complete = 3
  }

  public let handle: ConnectionHandle
  public let boundary: Boundary
  public let data: Span<UInt8>

  @_lifetime(copy data)
  @inlinable public init(handle: ConnectionHandle, boundary: Boundary, data: Span<UInt8>) {
    self.handle = handle
    self.boundary = boundary
    self.data = data
  }

  /// Decodes a packet.
  ///
  /// - Parameter packet: the packet without its H4 type byte.
  /// - Throws: `truncated`, or `lengthMismatch` if the header's length differs from the actual length.
  @_lifetime(copy packet)
  @inlinable public init(validating packet: Span<UInt8>) throws(WireError) {
    try packet.require(Self.headerByteCount, .acl)
    let claimed = Int(packet.u16(at: 2))
    guard packet.count - Self.headerByteCount == claimed else {
      throw WireError(
        .acl, offset: 2,
        .lengthMismatch(claimed: claimed, available: packet.count - Self.headerByteCount))
    }
    let word = packet.u16(at: 0)
    handle = ConnectionHandle(word)
    // The fallback is never used: every value of the two-bit flag has a case.
    boundary = Boundary(rawValue: UInt8(word >> 12 & 3)) ?? .complete
    data = packet.extracting(Self.headerByteCount...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue | UInt16(boundary.rawValue) << 12)
    output.append(u16: UInt16(truncatingIfNeeded: data.count))
    output.append(data)
  }
}
