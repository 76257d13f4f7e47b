import BLEStack
import BLEWire

/// The last packet of one side of a connection, and its counters.
struct AirSide {
  /// Relation of a packet to the previous one from the same side.
  enum Sequence: Hashable {
    case next
    /// A retransmission of the previous packet.
    case retransmission
    /// A packet after at least one missed packet.
    case afterGap
  }

  private(set) var counts = AirSideCounts()
  /// First header byte of the last packet; `nil` before the first packet.
  private(set) var lastHeader: UInt8?
  /// Whether the other side has acknowledged the last packet.
  private var isAcknowledged = false
  private var lastPayload: [UInt8] = []
  private var lastEvent: Int?
  /// Packet counter of the next packet with a payload since encryption started.
  var counter: UInt64 = 0
  /// State of the last packet with a payload.
  private(set) var opening = Opening.clear
  /// Number of bytes missing from the L2CAP frame of the last readable packet.
  private(set) var frameRemainder = 0
  /// Whether a fragment was missed, so that the frame cannot be reassembled.
  var isFrameBroken = false

  /// Stores the state of a packet with a payload that is not a retransmission.
  mutating func note(_ opening: Opening, _ header: UInt8, _ payload: Span<UInt8>) {
    self.opening = opening
    let byteCount: Int
    switch opening {
    case .encrypted:
      frameRemainder = 0
      return
    case .clear: byteCount = payload.count
    case .open(let count):
      byteCount = count
      counter += 1
    case .deciphered(let counter):
      self.counter = counter + 1
      return
    }
    switch header & 0x03 {
    case 0x02: frameRemainder = FrameStart(payload).map { max(0, $0.byteCount - byteCount) } ?? 0
    case 0x01: frameRemainder = max(0, frameRemainder - byteCount)
    default: break
    }
  }

  private static func sequence(_ header: UInt8) -> Bool { header & 0x08 != 0 }
  private static func expected(_ header: UInt8) -> Bool { header & 0x04 != 0 }

  mutating func countBadCRC() { counts.badCRC += 1 }
  mutating func countMissed(_ count: Int) { counts.missed += count }
  mutating func count(_ protection: AirPacket.Protection) {
    switch protection {
    case .clear: break
    case .decrypted: counts.decrypted += 1
    case .encrypted: counts.encrypted += 1
    }
  }

  /// Handles the next packet with a good CRC.
  ///
  /// - Parameters:
  ///   - event: connection event, if known.
  ///   - isEncrypted: whether only retransmissions have identical bytes.
  mutating func take(
    _ header: UInt8, _ payload: Span<UInt8>, event: Int?, isEncrypted: Bool
  ) -> Sequence {
    counts.packets += 1
    defer {
      lastHeader = header
      lastEvent = event
      isAcknowledged = false
      lastPayload.removeAll(keepingCapacity: true)
      lastPayload.append(copying: payload)
    }
    guard let lastHeader, Self.sequence(header) == Self.sequence(lastHeader) else { return .next }
    counts.missed += 1
    guard isSame(payload), header & 0x03 == lastHeader & 0x03 else { return .afterGap }
    let missedEvent = (lastEvent.flatMap { last in event.map { $0 &- last } } ?? 1) > 1
    // An empty or identical packet may be new if the sniffer may have missed a packet in between.
    if missedEvent, payload.isEmpty || isAcknowledged && !isEncrypted {
      return payload.isEmpty ? .next : .afterGap
    }
    counts.missed -= 1
    counts.retransmissions += 1
    return .retransmission
  }

  /// Handles the next packet of the other side.
  mutating func hear(_ header: UInt8) {
    guard let lastHeader, Self.expected(header) != Self.sequence(lastHeader) else { return }
    isAcknowledged = true
  }

  private func isSame(_ payload: Span<UInt8>) -> Bool {
    guard payload.count == lastPayload.count else { return false }
    for index in payload.indices where payload[index] != lastPayload[index] { return false }
    return true
  }
}

/// Guesses the sender of data packets if the file does not contain the direction.
///
/// Both sides start with 0 as sequence number and next expected sequence number. The two numbers of the
/// central are therefore equal, and the two numbers of the peripheral differ, even after losses. While one
/// side delays its acknowledgements, the relation is reversed for both sides. Core 5.4, Vol 6, Part B, 4.5.9.
struct DirectionGuess {
  private var isTurned = false
  /// Number of recent events whose first packet seemed to come from the peripheral. Normally the central
  /// sends first.
  private var doubts = 0

  private static let enoughDoubts = 12

  func isFromCentral(_ header: UInt8) -> Bool { (header >> 2 & 1 == header >> 3 & 1) != isTurned }

  mutating func startEvent(_ header: UInt8) {
    doubts = isFromCentral(header) ? max(0, doubts - 1) : doubts + 1
    if doubts == Self.enoughDoubts { turn() }
  }

  /// Handles a packet that only one side can send.
  mutating func learn(_ header: UInt8, isFromCentral: Bool) {
    if self.isFromCentral(header) != isFromCentral { turn() }
  }

  private mutating func turn() {
    isTurned.toggle()
    doubts = 0
  }
}
