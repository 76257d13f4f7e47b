import BLELinux
import BLEStack
package import BLEWire

/// The ATT bearer on the kernel's L2CAP socket. Each datagram is one PDU.
final class SocketCarrier: ATTBearer, EventSource, @unchecked Sendable {
  // No lock: everything except the descriptor's counters is used only on the event loop's thread.

  /// Maximum number of PDUs received per system call. The longest measured pause of the receive thread is 21
  /// ms, in a test kernel whose only processor also runs the sender (9 ms elsewhere;
  /// `Tools/Benchmarks/RESULTS.md`). During 21 ms a ring's fastest stream, 2,083 PDUs/s, queues 44 PDUs, and
  /// one call receives all of them. After a pause of 1 s, as with `SIGSTOP`, 33 calls are needed. Until then
  /// the PDUs are in the kernel's queue, not in this buffer.
  private static let slabSlots = 64
  /// Bytes per slot: the longest ATT_MTU, 517, rounded up to an odd number of cache lines. An odd number
  /// spreads the slots over the cache. With 1,024 bytes, all 64 slots would share a sixteenth of the cache's
  /// sets.
  private static let slabSlotByteCount = 576
  /// Maximum number of slabs received per turn. Between turns the loop can run its jobs and other sources, no
  /// matter how fast the peer sends.
  private static let slabsPerTurn = 8

  /// Maximum number of consecutive calls that fail for lack of memory. Each call is retried without loss;
  /// beyond this number, the bearer ends.
  private static let shortageLimit = 1000

  private let descriptor: FileDescriptor
  private let loop: EventLoop
  private var slab: ReceiveSlab
  private var token: UInt64?
  private var client: BearerClient?
  /// Callbacks of the raw channel; set if it is open.
  var watch: LinkWatch?
  private let handle: ConnectionHandle?
  private(set) var disconnectReason: HCIStatus?
  private var raising: Raising?

  init(_ descriptor: consuming FileDescriptor, _ loop: EventLoop) throws(SystemError) {
    slab = try ReceiveSlab(slots: Self.slabSlots, slotByteCount: Self.slabSlotByteCount)
    handle = descriptor.connectionHandle
    self.descriptor = descriptor
    self.loop = loop
  }

  var connectionHandle: ConnectionHandle? { handle }
  /// Always `true`. The kernel keeps a link for two seconds after its last socket closes
  /// (HCI_DISCONN_TIMEOUT), and the next socket can use the same link.
  var mayBeOlder: Bool { true }
  var kernelQueueDrops: Int { descriptor.receiveQueueDrops ?? slab.drops }
  private(set) var memoryShortages = 0
  private var shortagesInARow = 0
  var receiveBufferByteCount: Int { (try? descriptor.receiveBufferByteCount()) ?? 0 }

  func attach(_ client: BearerClient) throws(SystemError) {
    token = try loop.add(self, descriptor, for: .readable)
    self.client = client
    if let handle { watch?.begin(handle, client.changed) }
  }

  func send(_ pdu: Span<UInt8>) throws(SystemError) {
    loop.assertIsCurrent()
    // In the state BT_CONFIG the kernel would fail the call with an error that means that the link has ended.
    guard raising?.isInConfig != true else { throw SystemError(call: "send", number: SystemError.full) }
    do throws(SystemError) {
      _ = try descriptor.send(pdu)
      shortagesInARow = 0
    } catch {
      let isTransient = self.isTransient(error)
      guard isTransient || error.condition == .wouldBlock else { throw error }
      want([.readable, .writable])
      throw isTransient ? SystemError(call: error.call, number: SystemError.full) : error
    }
  }

  /// Returns whether to retry a call that failed for lack of memory.
  private func isTransient(_ error: SystemError) -> Bool {
    guard error.condition == .noMemory else { return false }
    memoryShortages += 1
    shortagesInARow += 1
    return shortagesInARow < Self.shortageLimit
  }

  func close() {
    loop.assertIsCurrent()
    guard let token else { return }
    self.token = nil
    client = nil
    endRaising(.ended)
    if let handle { watch?.end(handle) }
    loop.remove(token, descriptor)
    descriptor.shutDown()
  }

  private func want(_ readiness: Readiness) {
    guard let token else { return }
    // The descriptor is already registered, so only a bug can make this fail.
    try? loop.update(token, descriptor, for: readiness)
  }

  // MARK: The receive thread

  var deadline: MonotonicTime? {
    guard let raising else { return client?.deadline() }
    return client?.deadline().map { min($0, raising.wake) } ?? raising.wake
  }

  func expired(now: MonotonicTime) {
    if let raising, raising.wake <= now {
      if raising.limit <= now { abandonRaising() } else { lookAtLevel() }
    }
    client?.expired(now)
  }

  func stopped() { client?.ended(.closedLocally) }

  func ready(_ readiness: Readiness) {
    guard let client else { return }
    if !readiness.isDisjoint(with: .writable) {
      want(.readable)
      // A channel that has ended is also reported as writable.
      if readiness.isDisjoint(with: .hangUp) { lookAtLevel() }
      client.writable()
    }
    if !readiness.isDisjoint(with: .incoming) { drain(readiness, into: client) }
  }

  private func drain(_ readiness: Readiness, into client: BearerClient) {
    do throws(SystemError) {
      let batches = try takeBatches(limit: Self.slabsPerTurn, into: client)
      if batches.isAtEnd || batches.pdus == 0 && !readiness.isDisjoint(with: .hangUp) {
        client.ended(.linkLost(loss(pendingError())))
      }
    } catch {
      // The kernel reports the error before the PDUs that it still holds. Deliver those PDUs first, because
      // they arrived first.
      _ = try? takeBatches(limit: .max, into: client)
      client.ended(.linkLost(loss(error)))
    }
    client.batchEnded()
  }

  private func takeBatches(
    limit: Int, into client: BearerClient
  ) throws(SystemError) -> (pdus: Int, isAtEnd: Bool) {
    var pdus = 0
    for _ in 0..<limit {
      guard token != nil else { break }
      let count: Int
      do throws(SystemError) { count = try slab.receive(from: descriptor) } catch {
        // The loop calls this method again while data is queued.
        if isTransient(error) { return (max(1, pdus), false) }
        throw error
      }
      if count > 0 { shortagesInARow = 0 }
      pdus += count
      if count > 0 { client.batchBegan() }
      for index in 0..<count {
        if let time = slab.time(index) {
          client.received(slab.datagram(index), time, .kernel)
        } else if slab.isEnd(index, of: descriptor) {
          return (pdus, true)
        } else {
          client.received(slab.datagram(index), loop.clock.now(), .arrival)
        }
      }
      if count > 0 { client.batchDelivered() }
      if count < slab.slots { break }
    }
    return (pdus, false)
  }

  /// Returns the reason for the loss of the link: the controller's reason if the raw channel knows it,
  /// otherwise the reason that the socket's error indicates.
  private func loss(_ error: SystemError?) -> LinkLoss {
    disconnectReason = handle.flatMap { watch?.reason($0) }
    return disconnectReason.map { LinkLoss($0) } ?? LinkLoss(error)
  }

  /// Returns the socket's pending error, if any.
  private func pendingError() -> SystemError? {
    do throws(SystemError) { return try descriptor.pendingError() } catch { return error }
  }
}

// MARK: Security

extension SocketCarrier {
  /// Time limit for raising the security level. The user may need time to answer the kernel's questions; each
  /// step may take 30 s. Core 5.4, Vol 3, Part H, 3.4.
  private static let raisingLimit = Duration.seconds(60)
  /// Interval at which the level is polled after the socket has left BT_CONFIG without reaching the level.
  /// The kernel does not report the change.
  private static let lookInterval = Duration.milliseconds(20)

  /// A BT_SECURITY request that the kernel has not completed.
  struct Raising {
    let level: LinkSecurityLevel
    let limit: MonotonicTime
    /// Next time to poll the level. Set after a PDU from the peer has taken the socket out of BT_CONFIG.
    var nextLook: MonotonicTime?
    let done: (RaisingOutcome) -> Void

    /// Whether the socket waits for encryption and cannot send.
    var isInConfig: Bool { nextLook == nil }
    var wake: MonotonicTime { min(nextLook ?? limit, limit) }
  }

  func securityLevel() -> LinkSecurityLevel? { try? descriptor.securityLevel() }

  func raiseSecurity(to level: LinkSecurityLevel, _ done: @escaping (RaisingOutcome) -> Void) {
    loop.assertIsCurrent()
    guard token != nil, raising == nil else { return done(.ended) }
    do throws(SystemError) {
      guard try descriptor.securityLevel() < level else { return done(.held) }
      try descriptor.raiseSecurity(to: level)
    } catch {
      // `invalid` means that the kernel considers the link's level sufficient.
      return done(error.condition == .invalid ? .held : .ended)
    }
    raising = Raising(level: level, limit: loop.clock.monotonic().advanced(by: Self.raisingLimit), done: done)
    want([.readable, .writable])
  }

  private func lookAtLevel() {
    guard let level = raising?.level else { return }
    if (securityLevel() ?? .sdp) >= level { return endRaising(.held) }
    raising?.nextLook = loop.clock.monotonic().advanced(by: Self.lookInterval)
  }

  /// Stops waiting for the security level. If the socket is in BT_CONFIG, the bearer ends, because only a PDU
  /// from the peer would take the socket out of that state.
  func abandonRaising() {
    loop.assertIsCurrent()
    guard let raising else { return }
    guard raising.isInConfig else { return endRaising(.ended) }
    endRaising(.failed)
    client?.ended(.linkLost(.unknown))
  }

  private func endRaising(_ outcome: RaisingOutcome) { raising.take()?.done(outcome) }
}

extension LinkLoss {
  /// Converts the errno that the kernel derives from the HCI reason.
  init(_ error: SystemError?) {
    switch error?.condition {
    case .timedOut: self = .silence
    case .reset: self = .closedByPeer
    default: self = .unknown
    }
  }
}

extension LinkLoss {
  /// Converts the reason in the controller's Disconnection Complete. Core 5.4, Vol 1, Part F.
  package init(_ reason: HCIStatus) {
    switch reason.rawValue {
    // Connection Timeout, LL Response Timeout, Connection Failed to be Established.
    case 0x08, 0x22, 0x3E: self = .silence
    case 0x13, 0x14, 0x15: self = .closedByPeer
    case 0x03: self = .controllerReset
    default: self = .unknown
    }
  }
}
