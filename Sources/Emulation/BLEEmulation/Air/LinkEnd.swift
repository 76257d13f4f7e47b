import BLEWire

/// The owner of a link's end: a controller (for its host), or an emulated peripheral.
///
/// The link calls all methods, at the time of the virtual air.
protocol LinkOwner: AnyObject {
  /// Called with the data of one packet. `boundary` states whether an L2CAP frame starts.
  func received(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary, on end: LinkEnd)
  /// Called when a fragment that was passed to the link has reached the other end completely.
  func acknowledged(on end: LinkEnd)
  func parametersChanged(on end: LinkEnd)
  func dataLengthChanged(on end: LinkEnd)
  func phyChanged(on end: LinkEnd)
  func featuresRead(on end: LinkEnd)
  func versionRead(on end: LinkEnd)
  /// Called when the central starts encryption. Respond with the link's `answerEncryption`.
  func keyWanted(_ random: UInt64, _ diversifier: UInt16, on end: LinkEnd)
  func encryptionEnded(_ status: HCIStatus, isRefresh: Bool, on end: LinkEnd)
  func ended(_ end: LinkEnd, _ reason: HCIStatus)
  /// Whether the owner accepts more data.
  var takesData: Bool { get }
}

extension LinkOwner {
  var takesData: Bool { true }
}

/// One end of a link, with its transmit queue.
final class LinkEnd {
  let role: LEConnectionComplete.Role
  /// The owner's number for the link.
  let handle: ConnectionHandle
  /// Address by which an `AirFault` refers to the owner.
  let address: DeviceAddress
  /// The peer's address on this link.
  let peer: DeviceAddress
  unowned let owner: any LinkOwner
  let ownerIdentity: ObjectIdentifier
  /// The link of this end, set by the link itself. The link exists as long as one of its ends is open.
  unowned var link: AirLink?

  /// Whether the owner uses the link. `false` once the owner was notified of the end.
  var isOpen = true
  /// PHY that this end sends on.
  var phy = LEPHY.le1M
  /// Maximum length of the data packets that this end sends. `allowedDataLength` is the owner's maximum.
  var dataLength = DataLength.minimum
  var allowedDataLength = DataLength.minimum
  var isEncrypted = false
  /// Whether a request for a key is pending at the owner.
  var awaitsKey = false
  var queue = TransmitQueue()
  var state = Acknowledgement()
  /// Time at which the last undamaged packet arrived.
  var lastHeard: MonotonicTime
  var isEstablished = false
  /// Reason with which the other end ended the link. This end acknowledges the reason and closes.
  var farewell: HCIStatus?

  init(
    _ role: LEConnectionComplete.Role, _ handle: ConnectionHandle, owner: any LinkOwner,
    address: DeviceAddress,
    peer: DeviceAddress, now: MonotonicTime
  ) {
    self.role = role
    self.handle = handle
    self.owner = owner
    ownerIdentity = ObjectIdentifier(owner)
    self.address = address
    self.peer = peer
    lastHeard = now
  }

  /// Queues a fragment of an L2CAP frame.
  func send(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary) { link?.send(data, boundary, from: self) }

  /// Whether more values may be sent: fewer frames are queued than the configuration of the virtual air
  /// allows.
  var hasRoom: Bool { link?.hasRoom(for: self) ?? false }

  var other: LinkEnd? { link?.other(self) }
}

/// Sequence bits and acknowledgement state of packets. Core 5.4, Vol 6, Part B, 4.5.9.
struct Acknowledgement {
  /// Sequence number (SN) of the next packet to send or retransmit.
  var sequence = false
  /// Next expected sequence number (NESN).
  var expected = false
  /// Length of the unacknowledged packet in bytes; 0 for an empty packet, `nil` for no packet.
  var underWay: Int?
  /// More Data bit (MD) of the unacknowledged packet: whether more data follows.
  var hasMore = false
}

/// Queued packets of one end. An item stays until its last byte is acknowledged.
struct TransmitQueue {
  enum Item {
    case data([UInt8], ACLPacket.Boundary)
    case control(LinkControl)

    var byteCount: Int {
      switch self {
      case .data(let octets, _): octets.count
      case .control(let control): control.byteCount
      }
    }
  }

  /// Index of the first unacknowledged item.
  private var start = 0
  private var items: [Item] = []
  /// Number of acknowledged bytes of the first item.
  private(set) var offset = 0
  private(set) var dataCount = 0

  var isEmpty: Bool { start == items.count }
  var first: Item? { isEmpty ? nil : items[start] }

  mutating func append(_ item: Item) {
    if start == items.count {
      items.removeAll(keepingCapacity: true)
      start = 0
    }
    if case .data = item { dataCount += 1 }
    items.append(item)
  }

  mutating func replaceFirst(_ item: Item) { items[start] = item }

  /// Returns whether data follows after the first `byteCount` unacknowledged bytes of the first item.
  func hasMore(after byteCount: Int) -> Bool {
    guard let first else { return false }
    return items.count - start > 1 || offset + byteCount < first.byteCount
  }

  /// Acknowledges bytes of the first item.
  ///
  /// - Returns: The first item, if these bytes complete it.
  mutating func acknowledge(_ byteCount: Int) -> Item? {
    guard let first else { return nil }
    offset += byteCount
    guard offset >= first.byteCount else { return nil }
    offset = 0
    start += 1
    if case .data = first { dataCount -= 1 }
    // Removes acknowledged items in batches.
    if start >= 64 {
      items.removeFirst(start)
      start = 0
    }
    return first
  }

  mutating func removeAll() { self = TransmitQueue() }

  /// Calls `body` with each queued frame, reassembled.
  func forEachFrame(_ body: ([UInt8]) -> Void) {
    for item in items[start...] {
      if case .data(let octets, _) = item { body(octets) }
    }
  }
}
