import BLEStack
import BLEWire

/// What one side of a connection sent last, and how often what happened.
struct AirSide {
  /// What a packet is beside the one before it from the same side.
  enum Sequence: Hashable {
    case next
    /// The same again.
    case retransmission
    /// At least one between them was not heard.
    case afterGap
  }

  private(set) var counts = AirSideCounts()
  /// The first header octet of the last packet; `nil` before the first.
  private(set) var lastHeader: UInt8?
  /// Since that one the other side said that it has it.
  private var isAcknowledged = false
  private var lastPayload: [UInt8] = []
  private var lastEvent: Int?
  /// Packet counter of the next packet that has a payload, since encryption began.
  var counter: UInt64 = 0
  /// Of the last packet with a payload.
  private(set) var opening = Opening.clear
  /// Bytes that the L2CAP frame of the last readable packet still lacks.
  private(set) var frameRemainder = 0
  /// A fragment was missed: those after it are of a frame that cannot be put together.
  var isFrameBroken = false

  /// Takes what became of a packet with a payload that was not sent before.
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

  /// Takes the next packet with a good CRC.
  ///
  /// - Parameters:
  ///   - event: the connection event, as far as it is known.
  ///   - isEncrypted: no two packets look the same but those that are sent again.
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
    // Without anything in it, or with the same again, it may be another one, if one between them may have been missed.
    if missedEvent, payload.isEmpty || isAcknowledged && !isEncrypted {
      return payload.isEmpty ? .next : .afterGap
    }
    counts.missed -= 1
    counts.retransmissions += 1
    return .retransmission
  }

  /// The other side's next packet.
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

/// Who sent the data of a connection, where the file does not say.
///
/// Both sides begin with 0 as sequence number and as what they expect. So the central's two numbers are equal and the
/// peripheral's are not, whatever is lost on the way, until one of them holds the other back: then it is the other way
/// round, for both. Core 5.4, Vol 6, Part B, 4.5.9.
struct DirectionGuess {
  private var isTurned = false
  /// How often the first packet of an event was the peripheral's: normally the central begins.
  private var doubts = 0

  private static let enoughDoubts = 12

  func isFromCentral(_ header: UInt8) -> Bool { (header >> 2 & 1 == header >> 3 & 1) != isTurned }

  mutating func startEvent(_ header: UInt8) {
    doubts = isFromCentral(header) ? max(0, doubts - 1) : doubts + 1
    if doubts == Self.enoughDoubts { turn() }
  }

  /// Only one side sends such a packet.
  mutating func learn(_ header: UInt8, isFromCentral: Bool) {
    if self.isFromCentral(header) != isFromCentral { turn() }
  }

  private mutating func turn() {
    isTurned.toggle()
    doubts = 0
  }
}
