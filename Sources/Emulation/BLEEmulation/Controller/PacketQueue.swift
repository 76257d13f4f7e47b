import BLEWire

/// Packets on their way to the host, each with its H4 type octet, in one buffer that is kept.
final class PacketQueue {
  /// Reserved at the start; a queue that is drained after each call never outgrows it.
  private static let initialByteCount = 1 << 16

  private struct Contents {
    var bytes: [UInt8] = []
    var ends: [Int] = []

    mutating func removeAll() {
      bytes.removeAll(keepingCapacity: true)
      ends.removeAll(keepingCapacity: true)
    }
  }

  /// Taken out for as long as a closure runs: an access that lasts would be checked each time.
  private var contents = Contents()

  init() {
    contents.bytes.reserveCapacity(Self.initialByteCount)
    contents.ends.reserveCapacity(1024)
  }

  /// - Parameter capacity: the most octets that `body` appends; it must not use the queue.
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

  /// Hands each packet to `body` in order and forgets it, also those after one that `body` throws at.
  ///
  /// What comes while `body` runs stays for the next time.
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

  /// The emptied buffers, unless there are new ones by now.
  private func giveBack(_ taken: consuming Contents) {
    guard contents.ends.isEmpty else { return }
    taken.removeAll()
    swap(&taken, &contents)
  }

  func removeAll() { contents.removeAll() }
}
