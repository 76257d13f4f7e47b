import BLEWire

/// Packets to the host, each with its H4 type byte, in one reused buffer.
final class PacketQueue {
  /// Initial capacity in bytes. A queue that is drained after each call does not exceed it.
  private static let initialByteCount = 1 << 16

  private struct Contents {
    var bytes: [UInt8] = []
    var ends: [Int] = []

    mutating func removeAll() {
      bytes.removeAll(keepingCapacity: true)
      ends.removeAll(keepingCapacity: true)
    }
  }

  /// The contents are moved out while a closure runs. Otherwise Swift would check each long access for
  /// exclusivity.
  private var contents = Contents()

  init() {
    contents.bytes.reserveCapacity(Self.initialByteCount)
    contents.ends.reserveCapacity(1024)
  }

  /// Appends a packet.
  ///
  /// - Parameter capacity: maximum number of bytes that `body` appends; `body` must not use the queue.
  func append(
    _ type: HCIPacketType, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void
  ) {
    var taken = Contents()
    swap(&taken, &contents)
    taken.bytes.append(addingCapacity: 1 + capacity) {
      $0.append(type.rawValue)
      body(&$0)
    }
    taken.ends.append(taken.bytes.count)
    swap(&taken, &contents)
  }

  /// Passes the packets to `body` in order, and removes them. If `body` throws, the remaining packets are
  /// also removed.
  ///
  /// Packets queued while `body` runs are kept for the next call.
  func drain<E: Error>(_ body: (Span<UInt8>) throws(E) -> Void) throws(E) {
    var taken = Contents()
    swap(&taken, &contents)
    defer { giveBack(taken) }
    var start = 0
    for end in taken.ends {
      try body(taken.bytes.span.extracting(start..<end))
      start = end
    }
  }

  /// Keeps the emptied buffers for reuse, unless new packets have been queued.
  private func giveBack(_ taken: consuming Contents) {
    guard contents.ends.isEmpty else { return }
    taken.removeAll()
    swap(&taken, &contents)
  }

  func removeAll() { contents.removeAll() }
}
