import CBluetoothLinux
import Glibc

/// What this process may do, and which others are in the way.
public enum ProcessFacts {
  /// Capabilities that the kernel's Bluetooth sockets and its scheduler ask for. The raw value is the kernel's number.
  public enum Capability: Int, Sendable {
    case netAdmin = 12
    case netRaw = 13
    case ipcLock = 14
    case sysNice = 23
  }

  /// Whether the effective set has it, by `/proc/self/status`.
  public static func has(_ capability: Capability) -> Bool {
    guard let status = Files.text(at: "/proc/self/status"),
      let line = status.split(separator: "\n").first(where: { $0.hasPrefix("CapEff:") }),
      let set = UInt64(line.dropFirst("CapEff:".count).drop { $0 == "\t" || $0 == " " }, radix: 16)
    else { return false }
    return set & 1 << UInt64(capability.rawValue) != 0
  }

  /// The number of this process.
  public static var ownID: Int { Int(getpid()) }

  /// The path of this program, without links.
  public static var ownPath: String? { Files.target(ofLink: "/proc/self/exe") }

  /// A variable of the environment; `nil` where it is not set or empty.
  public static func environment(_ name: String) -> String? {
    // SAFETY: nobody changes the environment of this process; the text is copied at once.
    guard let value = unsafe getenv(name), unsafe value.pointee != 0 else { return nil }
    return unsafe String(cString: value)
  }

  /// Whether this process may open so many descriptors besides those that it has.
  public static func canOpen(_ count: Int) -> Bool {
    var opened: [CInt] = []
    while opened.count < count {
      let number = ringtap_wake_create()
      guard number >= 0 else { break }
      opened.append(number)
    }
    for number in opened { close(number) }
    return opened.count == count
  }

  /// The process number of a running program, by `/proc/*/comm` (at most 15 characters of the name).
  public static func processID(named name: String) -> Int? {
    for entry in Files.names(in: "/proc") {
      guard let id = Int(entry) else { continue }
      if Files.text(at: "/proc/\(id)/comm")?.dropLast() == name.prefix(15) { return id }
    }
    return nil
  }
}

/// SIGINT, SIGTERM and SIGHUP as a call instead of a sudden end, so that a scan or a stream can be stopped first.
public enum InterruptSignals {
  /// Calls `handler` on a thread of its own for each SIGINT, SIGTERM or SIGHUP, with the signal's number.
  ///
  /// Once per process. SIGPIPE is ignored from then on, so that a closed pipe is an EPIPE of the write.
  public static func handle(_ handler: @escaping @Sendable (CInt) -> Void) throws(SystemError) {
    try checked("sigaction") { ringtap_signals_take() }
    try SystemThread.start(named: "signals") {
      while true { handler(ringtap_signals_wait()) }
    }
  }
}
