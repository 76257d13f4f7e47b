import CBluetoothLinux
import Glibc

/// What this process may do, and which others are in the way.
public enum ProcessFacts {
  /// Capabilities that the kernel's Bluetooth sockets, its scheduler and its file systems ask for. The raw value is the
  /// kernel's number.
  public enum Capability: Int, CaseIterable, Sendable {
    case chown = 0
    case dacOverride = 1
    case dacReadSearch = 2
    case fowner = 3
    case fsetid = 4
    case netAdmin = 12
    case netRaw = 13
    case ipcLock = 14
    case sysNice = 23

    /// As capabilities(7) has it.
    public var name: String {
      switch self {
      case .chown: "CAP_CHOWN"
      case .dacOverride: "CAP_DAC_OVERRIDE"
      case .dacReadSearch: "CAP_DAC_READ_SEARCH"
      case .fowner: "CAP_FOWNER"
      case .fsetid: "CAP_FSETID"
      case .netAdmin: "CAP_NET_ADMIN"
      case .netRaw: "CAP_NET_RAW"
      case .ipcLock: "CAP_IPC_LOCK"
      case .sysNice: "CAP_SYS_NICE"
      }
    }
  }

  /// Whether it may be used: by the effective set, as `/proc/self/status` has it, or by the thread of `ProcessRights`.
  ///
  /// - Parameters:
  ///   - capability: what is looked for.
  ///   - root: a folder that stands for `/`.
  public static func has(_ capability: Capability, root: String = "") -> Bool {
    if root.isEmpty, ProcessRights.held.contains(capability) { return true }
    guard let text = status("CapEff", root: root), let set = UInt64(text, radix: 16) else { return false }
    return set & 1 << UInt64(capability.rawValue) != 0
  }

  /// A line of `/proc/self/status` without its name.
  public static func status(_ name: String, root: String = "") -> String? {
    guard let text = Files.text(at: "\(root)/proc/self/status"),
      let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name + ":") })
    else { return nil }
    return String(line.dropFirst(name.utf8.count + 1).drop { $0 == "\t" || $0 == " " })
  }

  /// Whether the effective user is root.
  public static var isRoot: Bool { geteuid() == 0 }

  /// The number of this process.
  public static var ownID: Int { Int(getpid()) }

  /// The name of this machine, as `uname -n` has it.
  public static var hostName: String {
    var name = [CChar](repeating: 0, count: 256)
    // SAFETY: the array is one octet longer than the call is told, so it ends with a zero.
    guard unsafe gethostname(&name, name.count - 1) == 0 else { return "localhost" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

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
    sysconf(CInt(_SC_OPEN_MAX)) - Files.names(in: "/proc/self/fd").count >= count
  }

  /// The process number of a running program, by `/proc/*/comm` (at most 15 characters of the name).
  public static func processID(named name: String, root: String = "") -> Int? {
    processIDs(root: root).first { processName($0, root: root) == String(name.prefix(15)) }
  }

  /// The numbers of all processes.
  public static func processIDs(root: String = "") -> [Int] {
    Files.names(in: "\(root)/proc").compactMap { Int($0) }.sorted()
  }

  /// `nil` for one that has gone.
  public static func processName(_ id: Int, root: String = "") -> String? {
    Files.text(at: "\(root)/proc/\(id)/comm").map { String($0.prefix { $0 != "\n" }) }
  }

  /// Who has which socket open, by inode, as far as this process may see: `/proc/*/fd`.
  public static func socketHolders(root: String = "") -> [UInt64: [Int]] {
    var holders: [UInt64: [Int]] = [:]
    for id in processIDs(root: root) {
      let folder = "\(root)/proc/\(id)/fd"
      for entry in Files.names(in: folder) {
        guard let target = Files.target(ofLink: folder + "/" + entry), target.hasPrefix("socket:["),
          let inode = UInt64(target.dropFirst(8).dropLast())
        else { continue }
        if holders[inode]?.contains(id) != true { holders[inode, default: []].append(id) }
      }
    }
    return holders
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
