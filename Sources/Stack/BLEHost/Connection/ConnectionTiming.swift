import BLELinux
import BLEStack
public import BLEWire

/// Temporary changes that an adapter makes to a link's timing.
extension Connection {
  /// Records the timing that the link had before any request.
  ///
  /// - Parameter current: timing in force; `nil` if unknown.
  /// - Returns: The timing recorded by the first call.
  func firstTiming(_ current: LinkParameters?) -> LinkParameters? {
    former = former ?? current
    return former
  }

  /// Sets a closure that `close` runs first.
  ///
  /// - Parameter restore: undoes changes to a link that may stay up without this channel.
  func onClose(_ restore: @escaping @Sendable () async -> Void) { self.restore = restore }

  /// Sets the closure that ends the fast start.
  ///
  /// - Parameter settle: sets the lasting timing of a link with a fast start.
  func onSettled(_ settle: @escaping @Sendable (Connection) async -> Void) {
    let settled = OneShot<Void>()
    (self.settle, self.settled) = (settle, settled)
    loop.task {
      _ = await self.ended()
      settled.set(())
    }
  }

  /// Whether the link still has the timing of a fast start. The device may have changed it meanwhile.
  var isFast: Bool { link.timing.map { $0.interval <= LinkRequest.fastIntervals.upperBound } ?? true }

  /// Ends the link's fast start, if it has one.
  public func endFastStart() async {
    guard end == nil, let settle = settle.take() else { return }
    await settle(self)
    settled?.set(())
  }

  /// Waits until the fast start or the link has ended; returns at once for a link without a fast start.
  package func fastStartEnded() async { await settled?.value() }
}

/// State of the bearer.
extension Connection {
  /// The controller's reason for the end of the link, if known. Core 5.4, Vol 1, Part F.
  public var disconnectReason: HCIStatus? { carrier.disconnectReason }

  /// Parameters in force on the link; `nil` where unknown.
  public var link: LinkState { LinkState(after: changes) }

  /// Size of the kernel's receive queue in bytes of kernel memory.
  public var receiveBufferByteCount: Int { carrier.receiveBufferByteCount }

  public func beginQueuedWrite() async { await queuedWrites.take() }
  public func endQueuedWrite() { queuedWrites.end() }
}
