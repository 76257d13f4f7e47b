public import BLEWire
import CBluetoothLinux

/// I/O readiness of a descriptor.
public struct Readiness: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let readable = Readiness(rawValue: RINGTAP_READABLE)
  public static let writable = Readiness(rawValue: RINGTAP_WRITABLE)
  /// The peer or the kernel has closed the descriptor, or an error is pending.
  public static let hangUp = Readiness(rawValue: RINGTAP_HANG_UP)
  /// `readable` or `hangUp`: data or the end can be read. Not written as an array literal, because that would
  /// allocate.
  package static let incoming = Readiness(rawValue: RINGTAP_READABLE | RINGTAP_HANG_UP)
}

/// An object with a descriptor that an `EventLoop` polls. The loop makes all calls on its thread.
public protocol EventSource: AnyObject {
  /// Called when the descriptor is ready. Must not block.
  func ready(_ readiness: Readiness)
  /// When to call `expired`; read after each turn of the loop.
  var deadline: MonotonicTime? { get }
  /// Called when `deadline` has passed.
  func expired(now: MonotonicTime)
  /// Called when the loop stops while it has this source. The loop makes no further calls: resume all waiting
  /// tasks.
  func stopped()
}

extension EventSource {
  public func stopped() {}
}

/// The event source of an actor whose executor is the loop.
///
/// Create it inside the actor: the closures are then isolated to the actor, and the loop may call them.
/// `assumeIsolated` would work too, but costs two allocations per call.
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
