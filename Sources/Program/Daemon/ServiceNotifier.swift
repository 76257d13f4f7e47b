import BLELinux
import BLEWire
import CBluetoothLinux
import Glibc

/// Notifies the service manager of this process's state by the protocol of `sd_notify(3)`: text datagrams to
/// $NOTIFY_SOCKET. Does nothing if NOTIFY_SOCKET is not set.
public struct ServiceNotifier: Sendable {
  private let path: String?
  /// Half of the watchdog timeout, $WATCHDOG_USEC, as `sd_watchdog_enabled(3)` advises; `nil` without a
  /// watchdog. The service manager ends a process that misses the watchdog timeout.
  public let watchdogInterval: Duration?

  /// The notifier configured by the environment.
  public static var standard: ServiceNotifier {
    let process = ProcessFacts.environment("WATCHDOG_PID").flatMap { Int($0) }
    let isMeant = process == nil || process == ProcessFacts.ownID
    return ServiceNotifier(
      path: ProcessFacts.environment("NOTIFY_SOCKET"),
      watchdogMicroseconds: isMeant ? ProcessFacts.environment("WATCHDOG_USEC").flatMap { Int($0) } : nil)
  }

  /// Creates a notifier.
  ///
  /// - Parameters:
  ///   - path: a UNIX datagram socket; a name that starts with `@` is abstract.
  ///   - watchdogMicroseconds: the watchdog timeout; `nil` for none.
  public init(path: String?, watchdogMicroseconds: Int? = nil) {
    self.path = path
    watchdogInterval = watchdogMicroseconds.flatMap { $0 > 0 ? .microseconds($0 / 2) : nil }
  }

  /// Reports that startup or reloading is complete.
  public func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }
  public func status(_ status: String) { send("STATUS=\(status)") }
  /// Reports that the configuration is being reloaded; call `ready` afterwards.
  public func reloading() {
    send("RELOADING=1\nMONOTONIC_USEC=\(SystemClock.monotonic().nanoseconds / 1000)")
  }
  public func stopping() { send("STOPPING=1") }
  public func isAlive() { send("WATCHDOG=1") }

  private func send(_ text: String) {
    guard let path else { return }
    let octets = Array(text.utf8)
    // SAFETY: the pointers are valid for the length of the call.
    _ = unsafe octets.withUnsafeBufferPointer { unsafe ringtap_unix_tell(path, $0.baseAddress, $0.count) }
  }
}
