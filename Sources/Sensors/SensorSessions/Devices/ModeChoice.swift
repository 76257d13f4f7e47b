package import BLEHost
public import BLELinux

/// Which mode beside the kernel's host suits: `coexist` where `bluetoothd` runs, else `raw`, as far as this process
/// may. Connecting by address needs nothing in either.
public struct ModeChoice: Hashable, Sendable {
  public enum Mode: String, Hashable, Sendable {
    case raw, coexist
  }

  public let mode: Mode
  /// What a person should know of it.
  public let reason: String?

  /// - Parameters:
  ///   - daemon: the process number of `bluetoothd`, `nil` where it does not run.
  ///   - capabilities: those of this process.
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

  /// One line: `raw mode on hci0`.
  public func note(on adapter: String) -> String {
    "\(mode.rawValue) mode on \(adapter)" + (reason.map { "; \($0)" } ?? "")
  }
}

extension ModeChoice {
  /// What suits this process, here and now.
  package static func here() -> ModeChoice {
    let capabilities = [ProcessFacts.Capability.netAdmin, .netRaw].filter {
      ProcessFacts.has($0) || $0 == .netAdmin && InheritedSockets.has(.management)
    }
    return ModeChoice(
      daemon: ProcessFacts.processID(named: "bluetoothd"), capabilities: Set(capabilities))
  }

  /// An adapter of the kernel, used in this mode.
  ///
  /// - Parameter note: takes what a person should know, one line each, on the receive thread.
  package func adapter(
    _ info: AdapterInfo, on loop: EventLoop, note: @escaping @Sendable (String) -> Void
  ) -> any SecuringAdapter {
    switch mode {
    case .raw: KernelAdapter(info, on: loop, note: note)
    case .coexist: CoexistAdapter(info, on: loop, note: note)
    }
  }
}
