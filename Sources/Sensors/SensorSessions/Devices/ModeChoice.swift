package import BLEHost
public import BLELinux

/// Preferred mode for sharing the radio with the kernel: `coexist` if `bluetoothd` is running, otherwise
/// `raw`, if this process has the required privileges. Connecting by address needs no privilege in either
/// mode.
public struct ModeChoice: Hashable, Sendable {
  public enum Mode: String, Hashable, Sendable {
    case raw, coexist
  }

  public let mode: Mode
  /// Reason for the choice, for the user.
  public let reason: String?

  /// Chooses the mode.
  ///
  /// - Parameters:
  ///   - daemon: process ID of `bluetoothd`, or `nil` if it is not running.
  ///   - capabilities: capabilities of this process.
  public init(daemon: Int?, capabilities: Set<ProcessFacts.Capability>) {
    switch (daemon, capabilities.contains(.netAdmin), capabilities.contains(.netRaw)) {
    case (.some, false, true):
      mode = .raw
      reason =
        "bluetoothd is running, but scanning beside it needs CAP_NET_ADMIN: stop its scans and disconnect the "
        + "device there"
    case (.some, _, _):
      mode = .coexist
      reason = "bluetoothd is running"
    case (nil, true, false):
      mode = .coexist
      reason = "raw mode needs CAP_NET_RAW to scan"
    case (nil, _, _):
      mode = .raw
      reason = nil
    }
  }

  /// Returns a description of the choice in one line: `raw mode on hci0`.
  public func note(on adapter: String) -> String {
    "\(mode.rawValue) mode on \(adapter)" + (reason.map { "; \($0)" } ?? "")
  }
}

extension ModeChoice {
  /// Returns the preferred mode for this process and system.
  package static func here() -> ModeChoice {
    let capabilities = [ProcessFacts.Capability.netAdmin, .netRaw].filter {
      ProcessFacts.has($0) || $0 == .netAdmin && InheritedSockets.has(.management)
    }
    return ModeChoice(
      daemon: ProcessFacts.processID(named: "bluetoothd"), capabilities: Set(capabilities))
  }

  /// Returns a kernel adapter in this mode.
  ///
  /// - Parameter note: called on the receive thread with each line for the user.
  package func adapter(
    _ info: AdapterInfo, on loop: EventLoop, note: @escaping @Sendable (String) -> Void
  ) -> KernelAdapter {
    KernelAdapter(info, by: mode == .raw ? .rawChannel : .management, on: loop, note: note)
  }
}
