import BLEWire

/// Whoever is at one end of a link: a controller for its host, or an emulated peripheral.
///
/// All calls come from the link, at the air's time.
protocol LinkOwner: AnyObject {
  /// Data of one packet; `boundary` says whether an L2CAP frame starts.
  func received(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary, on end: LinkEnd)
  /// One piece that was given to the link has arrived as a whole.
  func acknowledged(on end: LinkEnd)
  func parametersChanged(on end: LinkEnd)
  func dataLengthChanged(on end: LinkEnd)
  func phyChanged(on end: LinkEnd)
  func featuresRead(on end: LinkEnd)
  func versionRead(on end: LinkEnd)
  /// The central wants to encrypt; answer with the link's `answerEncryption`.
  func keyWanted(_ random: UInt64, _ diversifier: UInt16, on end: LinkEnd)
  func encryptionEnded(_ status: HCIStatus, isRefresh: Bool, on end: LinkEnd)
  func ended(_ end: LinkEnd, _ reason: HCIStatus)
  /// Whether more data may come.
  var takesData: Bool { get }
}

extension LinkOwner {
  var takesData: Bool { true }
}

/// One end of a link, with what it sends.
final class LinkEnd {
  let role: LEConnectionComplete.Role
  /// The owner's number for the link.
  let handle: ConnectionHandle
  /// By which faults name the owner.
  let address: DeviceAddress
  /// Under which the other one is known on this link.
  let peer: DeviceAddress
  unowned let owner: any LinkOwner
  let ownerIdentity: ObjectIdentifier
  /// Set by the link, which outlives its open ends.
  unowned var link: AirLink?

  /// The owner takes part; `false` once it was told of the end.
  var isOpen = true
  /// For sending.
  var phy = LEPHY.le1M
  /// For sending: in force, and what the owner allows.
  var dataLength = DataLength.minimum
  var allowedDataLength = DataLength.minimum
  var isEncrypted = false
  /// The owner was asked for a key.
  var awaitsKey = false
  var queue = TransmitQueue()
  var state = Acknowledgement()
  /// The last packet that arrived whole.
  var lastHeard: MonotonicTime
  var isEstablished = false
  /// The other end has said that it leaves: this one answers once more.
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

  /// Hands a piece of an L2CAP frame to the link.
  func send(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary) { link?.send(data, boundary, from: self) }

  /// Whether more values may be pushed: fewer frames wait than the air's configuration allows.
  var hasRoom: Bool { link?.hasRoom(for: self) ?? false }

  var other: LinkEnd? { link?.other(self) }
}

/// The one-bit numbers of packets and their acknowledgement. Core 5.4, Vol 6, Part B, 4.5.9.
struct Acknowledgement {
  /// SN of the packet that is sent next or again.
  var sequence = false
  /// NESN: the SN that is expected next.
  var expected = false
  /// Octets of the packet that was sent and not acknowledged yet; an empty packet has 0.
  var underWay: Int?
  /// MD of that packet: more follows.
  var hasMore = false
}

/// What one end has to send, in order. A piece stays until its last octet is acknowledged.
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

  /// Items before this one are done with.
  private var start = 0
  private var items: [Item] = []
  /// Octets of the first item that are acknowledged.
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

  /// Whether anything follows these octets of the first item.
  func hasMore(after byteCount: Int) -> Bool {
    guard let first else { return false }
    return items.count - start > 1 || offset + byteCount < first.byteCount
  }

  /// - Returns: the first item, if these octets were its last.
  mutating func acknowledge(_ byteCount: Int) -> Item? {
    guard let first else { return nil }
    offset += byteCount
    guard offset >= first.byteCount else { return nil }
    offset = 0
    start += 1
    if case .data = first { dataCount -= 1 }
    // What is done with is let go of now and then, not with each item.
    if start >= 64 {
      items.removeFirst(start)
      start = 0
    }
    return first
  }

  mutating func removeAll() { self = TransmitQueue() }

  /// Frames that wait, each as a whole.
  func forEachFrame(_ body: ([UInt8]) -> Void) {
    for item in items[start...] {
      if case .data(let octets, _) = item { body(octets) }
    }
  }
}
