import BLELinux
import BLEStack
import BLEWire

/// Transports the PDUs of one ATT bearer: the kernel's L2CAP socket or a link of our own host.
///
/// Used only on the event loop's thread, on which it also calls its client.
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
  /// Whether another program may have used the channel before, so that its MTU is unknown at first.
  var mayBeOlder: Bool { get }
  /// Size of the kernel's receive queue in bytes of kernel memory; 0 if the bearer has no queue of its own.
  var receiveBufferByteCount: Int { get }
  /// Current security level of the link; `nil` if the bearer does not know it.
  func securityLevel() -> LinkSecurityLevel?
  /// Raises the security level of the link. Until that is done or the peer has sent a PDU, nothing can be
  /// sent.
  func raiseSecurity(to level: LinkSecurityLevel, _ done: @escaping (RaisingOutcome) -> Void)
  /// Stops waiting for the security level. Ends the bearer if it cannot be used without it.
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
/// executor, which is the loop's thread. `assumeIsolated` would also work but costs two allocations a call.
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
