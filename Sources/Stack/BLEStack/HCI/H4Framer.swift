public import BLEWire

/// Cuts a byte stream into HCI packets: UART, TCP, UNIX socket. Core 5.4, Vol 4, Part A, 2.
///
/// After garbage it looks for the next octet that starts a packet of a plausible length; what it skips is counted.
/// A packet that lies whole in a chunk is lent in place.
public struct H4Framer: ~Copyable {
  /// The longest packet that is believed: beyond every controller's buffers. A longer length field is garbage.
  public static let maximumByteCount = 1 + 4 + 4096

  /// Octets that belonged to no packet.
  public private(set) var garbage = 0
  private var pending: [UInt8] = []
  /// Empty, with the capacity that `pending` had before.
  private var spare: [UInt8] = []

  private let sender: HCIDirection

  /// - Parameter sender: who is at the other end, which decides what packets may come.
  public init(from sender: HCIDirection) {
    self.sender = sender
    // Neither grows while a stream is steady.
    pending.reserveCapacity(2 * Self.maximumByteCount)
    spare.reserveCapacity(2 * Self.maximumByteCount)
  }

  /// Takes the next octets and lends each packet that they complete, H4 type octet first, to `body`.
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

  /// - Returns: octets that are done with.
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

  /// Octets up to and including the length field; `nil` for what the other end never sends.
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
