import BLELinux
import BLEWire
import CBluetoothLinux
import Glibc

/// Tells the manager of services how this process stands, by the protocol of `sd_notify(3)`: datagrams of text to
/// $NOTIFY_SOCKET. Without one nobody wants to know.
public struct ServiceNotifier: Sendable {
  private let path: String?
  /// How often the manager wants a sign of life, or ends the process; `nil`: never. Half of $WATCHDOG_USEC, as
  /// `sd_watchdog_enabled(3)` advises.
  public let watchdogInterval: Duration?

  /// What the environment says.
  public static var standard: ServiceNotifier {
    let process = ProcessFacts.environment("WATCHDOG_PID").flatMap { Int($0) }
    let isMeant = process == nil || process == ProcessFacts.ownID
    return ServiceNotifier(
      path: ProcessFacts.environment("NOTIFY_SOCKET"),
      watchdogMicroseconds: isMeant ? ProcessFacts.environment("WATCHDOG_USEC").flatMap { Int($0) } : nil)
  }

  /// - Parameters:
  ///   - path: of a UNIX datagram socket; one that begins with `@` is abstract.
  ///   - watchdogMicroseconds: within which a sign of life is due; `nil` for never.
  public init(path: String?, watchdogMicroseconds: Int? = nil) {
    self.path = path
    watchdogInterval = watchdogMicroseconds.flatMap { $0 > 0 ? .microseconds($0 / 2) : nil }
  }

  /// Everything runs.
  public func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }
  public func status(_ status: String) { send("STATUS=\(status)") }
  /// The configuration is read again; `ready` follows.
  public func reloading() {
    send("RELOADING=1\nMONOTONIC_USEC=\(SystemClock.monotonic().nanoseconds / 1000)")
  }
  public func stopping() { send("STOPPING=1") }
  public func isAlive() { send("WATCHDOG=1") }

  private func send(_ text: String) {
    guard let path else { return }
    let octets = Array(text.utf8)
    // SAFETY: the pointers cover what they are told for the length of the call.
    _ = unsafe octets.withUnsafeBufferPointer { unsafe ringtap_unix_tell(path, $0.baseAddress, $0.count) }
  }
}
