import BLELinux
import BLEStack
import BLEWire

/// What carries the PDUs of one ATT bearer: the kernel's L2CAP socket, or a link of our own host.
///
/// Lives on the event loop's thread and calls its client there.
protocol ATTBearer: AnyObject, Sendable {
  /// Starts to serve a client.
  func attach(_ client: BearerClient) throws(SystemError)
  /// Hands one PDU on.
  ///
  /// - Throws: `wouldBlock` where there is no room; the client's `writable` tells when there is.
  func send(_ pdu: Span<UInt8>) throws(SystemError)
  /// Ends the channel. No call to the client comes after it.
  func close()
  /// PDUs that the kernel dropped so far because its queue was full.
  var kernelQueueDrops: Int { get }
  /// Calls that the kernel had no memory for, and that were made again.
  var memoryShortages: Int { get }
  /// Why the link ended, as the controller said, where that is known.
  var disconnectReason: HCIStatus? { get }
  /// Whether the channel may have been somebody else's before: then its MTU is not known from the start.
  var mayBeOlder: Bool { get }
  /// The kernel's receive queue in octets of kernel memory; 0 where there is none of the bearer's own.
  var receiveBufferByteCount: Int { get }
  /// How secure the link is; `nil` where the carrier cannot tell.
  func securityLevel() -> LinkSecurityLevel?
  /// Has the link made more secure; nothing is sent until that has ended, or the peer has sent something.
  func raiseSecurity(to level: LinkSecurityLevel, _ done: @escaping (RaisingOutcome) -> Void)
  /// Gives up what is under way, and the bearer with it where it cannot go on.
  func abandonRaising()
}

/// How a `raiseSecurity` ended.
enum RaisingOutcome: Hashable, Sendable {
  /// The link has the level.
  case held
  /// The bearer ended meanwhile, or it goes on without the level.
  case ended
  /// Nobody answered, or the pairing failed; the bearer ends.
  case failed
}

/// Where the security of links is not the carrier's.
extension ATTBearer {
  func securityLevel() -> LinkSecurityLevel? { nil }
  func raiseSecurity(to level: LinkSecurityLevel, _ done: @escaping (RaisingOutcome) -> Void) { done(.ended) }
  func abandonRaising() {}
}

extension ATTBearer {
  var memoryShortages: Int { 0 }
}

/// A connection's entries for its carrier.
///
/// Made inside the actor, the closures are isolated to it; the carrier calls them on the actor's executor, which is the
/// loop's thread. `assumeIsolated` would do as well, at two allocations a call.
final class BearerClient {
  let received: (Span<UInt8>, ReceiveTime, PacketPort.Stamp) -> Void
  /// A system call has brought PDUs, which follow.
  let batchBegan: () -> Void
  /// They all were: the carrier sends again. For who calls `batchBegan`.
  let batchDelivered: () -> Void
  /// Nothing more has come for now.
  let batchEnded: () -> Void
  /// There is room again.
  let writable: () -> Void
  /// What the link is, when it came up and on each change.
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
