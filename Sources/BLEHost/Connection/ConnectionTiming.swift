import BLEStack
import BLEWire

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
  func onSettled(_ settle: @escaping @Sendable (Connection) async -> Void) { self.settle = settle }

  /// Ends the fast start of a link that was asked for one; nothing for others.
  public func endFastStart() async {
    guard end == nil, let settle = settle.take() else { return }
    await settle(self)
  }
}
