import BLELinux
import BLEStack
import BLEWire

/// The host's callbacks for the bearer of one link. The closures are created inside the host's actor and
/// called on its executor's thread. See `BearerClient`.
final class HostLink {
  enum SendResult {
    case sent
    /// Too many fragments are queued for the controller. `BearerClient.writable` is called when there is
    /// room.
    case full
    case gone
  }

  let send: (Span<UInt8>) -> SendResult
  let disconnect: () -> Void
  /// Number of packets that the kernel dropped from the transport's queue.
  let kernelQueueDrops: () -> Int

  init(
    send: @escaping (Span<UInt8>) -> SendResult, disconnect: @escaping () -> Void,
    kernelQueueDrops: @escaping () -> Int
  ) {
    self.send = send
    self.disconnect = disconnect
    self.kernelQueueDrops = kernelQueueDrops
  }
}

/// The ATT bearer on a link of our own host.
final class HostCarrier: ATTBearer, @unchecked Sendable {
  // No lock: used only on the event loop's thread.

  private let link: HostLink
  private(set) var client: BearerClient?
  /// Whether PDUs have arrived since the client's last `batchEnded`.
  var hasNews = false
  /// Whether a send has failed because the queue was full.
  var isFull = false
  /// `hasAnswered`: a PDU was deferred to the end of a batch. `isBehind`: too many deferred PDUs are still
  /// queued.
  var (hasAnswered, isBehind) = (false, false)
  var disconnectReason: HCIStatus?
  let description: LinkDescription
  var peer: DeviceAddress { description.peer }
  let mayBeOlder: Bool

  init(_ link: HostLink, _ description: LinkDescription, mayBeOlder: Bool) {
    self.link = link
    self.description = description
    self.mayBeOlder = mayBeOlder
  }

  func attach(_ client: BearerClient) { self.client = client }

  func send(_ pdu: Span<UInt8>) throws(SystemError) {
    switch link.send(pdu) {
    case .sent: return
    case .full:
      isFull = true
      throw SystemError(call: "send", number: SystemError.full)
    case .gone: throw SystemError(call: "send", number: SystemError.gone)
    }
  }

  func close() {
    guard client != nil else { return }
    client = nil
    link.disconnect()
  }

  /// Number of packets that the kernel dropped from the transport's queue. Between controller and host, flow
  /// control prevents drops.
  var kernelQueueDrops: Int { link.kernelQueueDrops() }
  var receiveBufferByteCount: Int { 0 }
}

/// The bearers of one host, by handle. Searched linearly because there are few.
struct CarrierTable {
  private var handles: [ConnectionHandle] = []
  private var carriers: [HostCarrier] = []

  var count: Int { carriers.count }
  var all: [HostCarrier] { carriers }

  func carrier(_ index: Int) -> HostCarrier { carriers[index] }
  func handle(_ index: Int) -> ConnectionHandle { handles[index] }

  subscript(handle: ConnectionHandle) -> HostCarrier? {
    for index in handles.indices where handles[index] == handle { return carriers[index] }
    return nil
  }

  mutating func add(_ carrier: HostCarrier, _ handle: ConnectionHandle) {
    remove(handle)
    handles.append(handle)
    carriers.append(carrier)
  }

  @discardableResult
  mutating func remove(_ handle: ConnectionHandle) -> HostCarrier? {
    guard let index = handles.firstIndex(of: handle) else { return nil }
    handles.remove(at: index)
    return carriers.remove(at: index)
  }
}
