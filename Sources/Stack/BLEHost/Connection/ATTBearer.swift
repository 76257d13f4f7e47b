import BLELinux
import BLEStack
public import BLEWire

/// Transport for the PDUs of one ATT bearer: the kernel's L2CAP socket or a link of our own host.
///
/// Used only on the event loop's thread. The bearer calls its client on the same thread.
protocol ATTBearer: AnyObject, Sendable {
  /// Starts to deliver PDUs to a client.
  func attach(_ client: BearerClient) throws(SystemError)
  /// Sends one PDU.
  ///
  /// - Throws: `wouldBlock` if there is no room. The client's `writable` is called when there is room again.
  func send(_ pdu: Span<UInt8>) throws(SystemError)
  /// Ends the channel. The client is not called again.
  func close()
  /// Number of PDUs that the kernel dropped because its queue was full.
  var kernelQueueDrops: Int { get }
  /// Number of calls that failed for lack of kernel memory and were retried.
  var memoryShortages: Int { get }
  /// The controller's reason for the end of the link, if known.
  var disconnectReason: HCIStatus? { get }
  /// Whether another program may have used the channel before. If so, its ATT_MTU is unknown at first.
  var mayBeOlder: Bool { get }
  /// Size of the kernel's receive queue in bytes of kernel memory; 0 if the bearer has no such queue.
  var receiveBufferByteCount: Int { get }
  /// Returns the current security level of the link, or `nil` if the bearer does not know it.
  func securityLevel() -> LinkSecurityLevel?
  /// Raises the security level of the link. Nothing can be sent until the level is reached or the peer has
  /// sent a PDU.
  func raiseSecurity(to level: LinkSecurityLevel, _ done: @escaping (RaisingOutcome) -> Void)
  /// Stops waiting for the security level. Ends the bearer if it cannot be used without the level.
  func abandonRaising()
}

/// Result of `raiseSecurity`.
enum RaisingOutcome: Hashable, Sendable {
  /// The link has the requested level.
  case held
  /// The bearer ended, or remains usable without the level.
  case ended
  /// The user did not answer or the pairing failed. The bearer ends.
  case failed
}

/// Defaults for a bearer that does not control the security of its link.
extension ATTBearer {
  func securityLevel() -> LinkSecurityLevel? { nil }
  func raiseSecurity(to level: LinkSecurityLevel, _ done: @escaping (RaisingOutcome) -> Void) { done(.ended) }
  func abandonRaising() {}
}

extension ATTBearer {
  var memoryShortages: Int { 0 }
}

/// A connection's callbacks for its bearer.
///
/// The closures are created inside the actor and isolated to it. The bearer calls them on the actor's
/// executor, which is the loop's thread. `assumeIsolated` would also work but would cost two allocations per
/// call.
final class BearerClient {
  let received: (Span<UInt8>, ReceiveTime, PacketPort.Stamp) -> Void
  /// Called before the PDUs of one system call are delivered.
  let batchBegan: () -> Void
  /// Called after the PDUs of one system call were delivered: queued PDUs can be sent. Used only by a bearer
  /// that calls `batchBegan`.
  let batchDelivered: () -> Void
  /// Called when no more data is available for now.
  let batchEnded: () -> Void
  /// Called when the bearer has room again.
  let writable: () -> Void
  /// Called with the state of the link when it comes up and on each change.
  let changed: (LinkChange) -> Void
  let ended: (BearerEnd) -> Void
  let deadline: () -> MonotonicTime?
  let expired: (MonotonicTime) -> Void

  init(
    received: @escaping (Span<UInt8>, ReceiveTime, PacketPort.Stamp) -> Void,
    batchBegan: @escaping () -> Void, batchDelivered: @escaping () -> Void,
    batchEnded: @escaping () -> Void, writable: @escaping () -> Void, changed: @escaping (LinkChange) -> Void,
    ended: @escaping (BearerEnd) -> Void, deadline: @escaping () -> MonotonicTime?,
    expired: @escaping (MonotonicTime) -> Void
  ) {
    self.received = received
    self.batchBegan = batchBegan
    self.batchDelivered = batchDelivered
    self.batchEnded = batchEnded
    self.writable = writable
    self.changed = changed
    self.ended = ended
    self.deadline = deadline
    self.expired = expired
  }
}

/// Counters of one ATT bearer.
public struct BearerStatistics: Hashable, Sendable {
  /// PDUs received.
  public var received = 0
  /// Notifications and indications among `received`.
  public var notifications = 0
  /// Values without a subscriber.
  public var unclaimed = 0
  /// Values among `unclaimed` for handles that were never subscribed to. Does not include values that were in
  /// transit when a subscription ended.
  public var unsubscribed = 0
  /// Malformed PDUs, which were dropped. `lastMalformed` is the latest error.
  public var malformed = 0
  public var lastMalformed: WireError?
  /// Responses and confirmations without a request, which were ignored.
  public var strayResponses = 0
  /// PDUs without a kernel receive timestamp. Their timestamp is the time at which this process received
  /// them.
  public var withoutKernelStamp = 0
  /// PDUs that the kernel dropped because its receive queue was full (SO_MEMINFO).
  public var kernelQueueDrops = 0
  /// Calls that failed for lack of kernel memory (ENOMEM, ENOBUFS) and were retried.
  public var memoryShortages = 0
  /// PDUs sent.
  public var sent = 0
  /// ATT requests among the sent PDUs. Each request takes one round trip.
  public var requests = 0
  /// System calls that returned at least one PDU.
  public var batches = 0

  public init() {}

  /// Adds the counters of another bearer.
  package mutating func add(_ other: BearerStatistics) {
    received += other.received
    notifications += other.notifications
    unclaimed += other.unclaimed
    unsubscribed += other.unsubscribed
    malformed += other.malformed
    lastMalformed = other.lastMalformed ?? lastMalformed
    strayResponses += other.strayResponses
    withoutKernelStamp += other.withoutKernelStamp
    kernelQueueDrops += other.kernelQueueDrops
    memoryShortages += other.memoryShortages
    sent += other.sent
    requests += other.requests
    batches += other.batches
  }
}
