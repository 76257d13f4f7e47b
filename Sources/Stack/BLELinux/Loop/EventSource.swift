public import BLEWire
import CBluetoothLinux

/// What a descriptor is ready for.
public struct Readiness: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let readable = Readiness(rawValue: RINGTAP_READABLE)
  public static let writable = Readiness(rawValue: RINGTAP_WRITABLE)
  /// The peer or the kernel closed it, or an error stands.
  public static let hangUp = Readiness(rawValue: RINGTAP_HANG_UP)
  /// Either of both: there is something to receive, if only the end. No literal, which would allocate.
  package static let incoming = Readiness(rawValue: RINGTAP_READABLE | RINGTAP_HANG_UP)
}

/// Something with a descriptor that an `EventLoop` serves. All calls come on the loop's thread.
public protocol EventSource: AnyObject {
  /// The descriptor is ready. Must not block.
  func ready(_ readiness: Readiness)
  /// When `expired` is wanted; asked after each turn of the loop.
  var deadline: MonotonicTime? { get }
  /// `deadline` has passed.
  func expired(now: MonotonicTime)
  /// The loop was stopped while it served this source, and serves it no more: let go of whoever waits.
  func stopped()
}

extension EventSource {
  public func stopped() {}
}

/// An actor's own entry to its event loop.
///
/// Made inside the actor, its closures are isolated to it; the loop calls them on the actor's executor, which is
/// itself. `assumeIsolated` would do as well, at two allocations a call.
package final class ActorSource: EventSource {
  private let whenReady: (Readiness) -> Void
  private let nextDeadline: () -> MonotonicTime?
  private let whenExpired: (MonotonicTime) -> Void
  private let whenStopped: () -> Void

  package init(
    ready: @escaping (Readiness) -> Void, deadline: @escaping () -> MonotonicTime?,
    expired: @escaping (MonotonicTime) -> Void, stopped: @escaping () -> Void
  ) {
    whenReady = ready
    nextDeadline = deadline
    whenExpired = expired
    whenStopped = stopped
  }

  package func ready(_ readiness: Readiness) { whenReady(readiness) }
  package var deadline: MonotonicTime? { nextDeadline() }
  package func expired(now: MonotonicTime) { whenExpired(now) }
  package func stopped() { whenStopped() }
}
