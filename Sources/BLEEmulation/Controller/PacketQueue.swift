import BLECore
import BLEWire

/// Packets on their way to the host, each with its H4 type octet, in one buffer that is kept.
final class PacketQueue {
  /// Reserved at the start; a queue that is drained after each call never outgrows it.
  private static let initialByteCount = 1 << 16

  private var bytes: [UInt8] = []
  private var ends: [Int] = []

  init() {
    bytes.reserveCapacity(Self.initialByteCount)
    ends.reserveCapacity(1024)
  }

  /// - Parameter capacity: the most octets that `body` appends.
  func append(
    _ type: HCIPacketType, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void
  ) {
    bytes.append(type.rawValue)
    bytes.append(addingCapacity: capacity, initializingWith: body)
    ends.append(bytes.count)
  }

  /// Hands each packet to `body` in order and forgets it, also those after one that `body` throws at.
  func drain<E: Error>(_ body: (Span<UInt8>) throws(E) -> Void) throws(E) {
    defer {
      bytes.removeAll(keepingCapacity: true)
      ends.removeAll(keepingCapacity: true)
    }
    var start = 0
    for end in ends {
      try body(bytes.span.extracting(start..<end))
      start = end
    }
  }

  func removeAll() {
    bytes.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
  }
}
