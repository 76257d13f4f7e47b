import BLEWire

/// Queue of outgoing ACL fragments of all links. Sends no more fragments than the controller can buffer.
///
/// Core 5.4, Vol 4, Part E, 4.1.1. Links take turns, so that a busy link does not starve the others. Each
/// link has a share of the buffers: a link whose peer does not respond can exceed its share only if the
/// shares of the other links stay free.
struct ACLQueue: ~Copyable {
  /// Maximum number of queued fragments per link. A sender that checks `waiting` stays below the limit.
  static let limit = 2048

  private struct Link {
    let handle: ConnectionHandle
    var fragments: [[UInt8]] = []
    var underWay = 0
  }

  /// Maximum size of the data in one ACL packet, in bytes. `bufferCount` is the number of packets that the
  /// controller can buffer.
  private(set) var byteCount = 27
  private var bufferCount = 0
  private(set) var underWay = 0
  private var links: [Link] = []
  private var turn = 0
  /// Number of completions for ended links, or beyond the number of outstanding packets.
  private(set) var strayCompletions = 0

  mutating func configure(byteCount: Int, packetCount: Int) {
    self.byteCount = max(27, byteCount)
    bufferCount = max(1, packetCount)
  }

  mutating func add(_ handle: ConnectionHandle) {
    remove(handle)
    links.append(Link(handle: handle))
  }

  /// Removes a link that has ended. The controller has flushed its outstanding packets.
  mutating func remove(_ handle: ConnectionHandle) {
    guard let index = links.firstIndex(where: { $0.handle == handle }) else { return }
    underWay -= links.remove(at: index).underWay
  }

  mutating func reset() {
    links = []
    underWay = 0
  }

  /// Splits a payload into fragments and queues them, each preceded by its H4 type byte.
  ///
  /// - Returns: `false` if the link does not exist or its queue is full.
  mutating func append(_ payload: Span<UInt8>, channelID: UInt16, to handle: ConnectionHandle) -> Bool {
    guard let index = links.firstIndex(where: { $0.handle == handle }),
      links[index].fragments.count < Self.limit
    else { return false }
    let frame = [UInt8](encoding: L2CAPFrame.headerByteCount + payload.count) {
      L2CAPFrame(channelID: channelID, payload: payload).encode(into: &$0)
    }
    var offset = 0
    while offset < frame.count {
      let end = min(offset + byteCount, frame.count)
      let part = frame.span.extracting(offset..<end)
      let boundary: ACLPacket.Boundary = offset == 0 ? .firstNonFlushable : .continuation
      links[index].fragments.append(
        [UInt8](encoding: 1 + ACLPacket.headerByteCount + part.count) {
          $0.append(HCIPacketType.acl.rawValue)
          ACLPacket(handle: handle, boundary: boundary, data: part).encode(into: &$0)
        })
      offset = end
    }
    return true
  }

  /// Returns the number of fragments of a link that have not been sent to the controller yet.
  func waiting(_ handle: ConnectionHandle) -> Int {
    links.first { $0.handle == handle }?.fragments.count ?? 0
  }

  /// Returns the next fragment if the controller has a free buffer for it.
  mutating func next() -> [UInt8]? {
    guard underWay < bufferCount, !links.isEmpty else { return nil }
    for step in 1...links.count {
      let index = (turn + step) % links.count
      guard !links[index].fragments.isEmpty, hasBuffer(index) else { continue }
      turn = index
      underWay += 1
      links[index].underWay += 1
      return links[index].fragments.removeFirst()
    }
    return nil
  }

  /// Returns whether this link may use a free buffer: always within its share, otherwise only if the shares
  /// of the other links stay free.
  private func hasBuffer(_ index: Int) -> Bool {
    let share = bufferCount / links.count
    let excess = links[index].underWay - share
    guard excess >= 0, links.count > 1 else { return true }
    var reserved = 0
    for other in links.indices where other != index { reserved += max(0, share - links[other].underWay) }
    return excess == 0 && bufferCount - underWay > reserved
  }

  /// Processes the controller's report of free buffers.
  mutating func completed(_ packets: Int, of handle: ConnectionHandle) {
    guard let index = links.firstIndex(where: { $0.handle == handle }) else {
      strayCompletions += packets
      return
    }
    let known = min(packets, links[index].underWay)
    strayCompletions += packets - known
    links[index].underWay -= known
    underWay -= known
  }
}
