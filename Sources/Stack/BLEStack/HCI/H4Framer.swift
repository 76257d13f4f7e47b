public import BLEWire

/// Splits a byte stream (UART, TCP, UNIX socket) into HCI packets. Core 5.4, Vol 4, Part A, 2.
///
/// After invalid data, the framer skips and counts bytes until a byte starts a packet of plausible length. A
/// packet that is contained in one chunk is lent in place.
public struct H4Framer: ~Copyable {
  /// Size of the longest plausible packet in bytes, larger than any controller's buffers. A greater length is
  /// treated as garbage.
  public static let maximumByteCount = 1 + 4 + 4096

  /// Number of bytes that belonged to no packet.
  public private(set) var garbage = 0
  private var pending: [UInt8] = []
  /// An empty array with the capacity that `pending` had before.
  private var spare: [UInt8] = []

  private let sender: HCIDirection

  /// Creates a framer.
  ///
  /// - Parameter sender: the sender of the stream, which determines the valid packet types.
  public init(from sender: HCIDirection) {
    self.sender = sender
    // In steady operation neither array grows.
    pending.reserveCapacity(2 * Self.maximumByteCount)
    spare.reserveCapacity(2 * Self.maximumByteCount)
  }

  /// Processes the next bytes and lends each completed packet, preceded by its H4 type byte, to `body`.
  public mutating func receive(_ chunk: Span<UInt8>, _ body: (Span<UInt8>) -> Void) {
    guard !pending.isEmpty else {
      let used = cut(chunk, body)
      pending.append(copying: chunk.extracting(used...))
      return
    }
    pending.append(copying: chunk)
    var octets: [UInt8] = []
    swap(&octets, &pending)
    swap(&pending, &spare)
    let used = cut(octets.span, body)
    pending.append(copying: octets.span.extracting(used...))
    octets.removeAll(keepingCapacity: true)
    swap(&octets, &spare)
  }

  /// Lends the packets in `octets` to `body`.
  ///
  /// - Returns: Number of bytes consumed.
  private mutating func cut(_ octets: Span<UInt8>, _ body: (Span<UInt8>) -> Void) -> Int {
    var offset = 0
    while offset < octets.count {
      let rest = octets.extracting(offset...)
      guard let header = headerByteCount(rest[0]) else {
        garbage += 1
        offset += 1
        continue
      }
      guard rest.count >= header else { return offset }
      let byteCount = header + Self.bodyByteCount(rest)
      guard byteCount <= Self.maximumByteCount else {
        garbage += 1
        offset += 1
        continue
      }
      guard rest.count >= byteCount else { return offset }
      body(rest.extracting(..<byteCount))
      offset += byteCount
    }
    return offset
  }

  /// Returns the number of bytes up to and including the length field, or `nil` for a type that the sender
  /// never uses.
  private func headerByteCount(_ type: UInt8) -> Int? {
    switch HCIPacketType(rawValue: type) {
    case .event where sender == .controllerToHost: 3
    case .command where sender == .hostToController: 4
    case .acl, .iso: 5
    case .sco: 4
    default: nil
    }
  }

  private static func bodyByteCount(_ packet: Span<UInt8>) -> Int {
    switch HCIPacketType(rawValue: packet[0]) {
    case .event: Int(packet[2])
    case .acl: Int(packet.u16(at: 3))
    // Two bits of the length of isochronous data are reserved.
    case .iso: Int(packet.u16(at: 3) & 0x3FFF)
    default: Int(packet[3])
    }
  }
}
