import BLELinux
import BLEStack
public import BLEWire

/// What an adapter changes of a link's timing for as long as it is needed.
extension Connection {
  /// Remembers the timing that the link had before anything was asked of it.
  ///
  /// - Parameter current: in force; `nil` where it is not known.
  /// - Returns: what was in force when this was first called.
  func firstTiming(_ current: LinkParameters?) -> LinkParameters? {
    former = former ?? current
    return former
  }

  /// - Parameter restore: puts back what was changed of a link that may outlive this channel.
  func onClose(_ restore: @escaping @Sendable () async -> Void) { self.restore = restore }

  /// - Parameter settle: gives a link that started fast the timing that it is to keep.
  func onSettled(_ settle: @escaping @Sendable (Connection) async -> Void) {
    let settled = OneShot<Void>()
    (self.settle, self.settled) = (settle, settled)
    loop.task {
      _ = await self.ended()
      settled.set(())
    }
  }

  /// Whether it still has the timing of a fast start: the device may have had it changed.
  var isFast: Bool { link.timing.map { $0.interval <= LinkRequest.fastIntervals.upperBound } ?? true }

  /// Ends the fast start of a link that was asked for one; nothing for others.
  public func endFastStart() async {
    guard end == nil, let settle = settle.take() else { return }
    await settle(self)
    settled?.set(())
  }

  /// Returns when a fast start is over, or the link; at once for a link without one.
  package func fastStartEnded() async { await settled?.value() }
}

/// What the bearer and its carrier know of themselves.
extension Connection {
  /// The controller's word for the end of the link, where it is known. Core 5.4, Vol 1, Part F.
  public var disconnectReason: HCIStatus? { carrier.disconnectReason }

  /// What is in force on the link, as far as it is known.
  public var link: LinkState { LinkState(after: changes) }

  /// The kernel's receive queue, in octets of kernel memory.
  public var receiveBufferByteCount: Int { carrier.receiveBufferByteCount }

  public func beginQueuedWrite() async { await queuedWrites.take() }
  public func endQueuedWrite() { queuedWrites.end() }
}
