import CBluetoothLinux
import Glibc

/// Privileges and properties of this process, and a list of the other processes.
public enum ProcessFacts {
  /// Capabilities that the kernel requires for Bluetooth sockets, scheduling and file access. The raw value
  /// is the kernel's number.
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

    /// Name as in capabilities(7).
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

  /// Returns whether the process may use a capability: either it is in the effective set in
  /// `/proc/self/status`, or `ProcessRights` holds it.
  ///
  /// - Parameters:
  ///   - capability: the capability to check.
  ///   - root: a folder to use as `/`.
  public static func has(_ capability: Capability, root: String = "") -> Bool {
    if root.isEmpty, ProcessRights.held.contains(capability) { return true }
    guard let text = status("CapEff", root: root), let set = UInt64(text, radix: 16) else { return false }
    return set & 1 << UInt64(capability.rawValue) != 0
  }

  /// Returns the value of a field of `/proc/self/status`.
  public static func status(_ name: String, root: String = "") -> String? {
    guard let text = Files.text(at: "\(root)/proc/self/status"),
      let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name + ":") })
    else { return nil }
    return String(line.dropFirst(name.utf8.count + 1).drop { $0 == "\t" || $0 == " " })
  }

  public static var isRoot: Bool { geteuid() == 0 }

  public static var ownID: Int { Int(getpid()) }

  /// Host name of this machine, as `uname -n` prints it.
  public static var hostName: String {
    var name = [CChar](repeating: 0, count: 256)
    // SAFETY: the array is one byte longer than the size passed to the call, so it ends with a zero.
    guard unsafe gethostname(&name, name.count - 1) == 0 else { return "localhost" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Path of this program's executable, with links resolved.
  public static var ownPath: String? { Files.target(ofLink: "/proc/self/exe") }

  /// Returns the value of an environment variable, or `nil` if it is not set or empty.
  public static func environment(_ name: String) -> String? {
    // SAFETY: this process never changes its environment; the text is copied at once.
    guard let value = unsafe getenv(name), unsafe value.pointee != 0 else { return nil }
    return unsafe String(cString: value)
  }

  /// Returns whether this process may open `count` more descriptors.
  public static func canOpen(_ count: Int) -> Bool {
    sysconf(CInt(_SC_OPEN_MAX)) - Files.names(in: "/proc/self/fd").count >= count
  }

  /// Returns the ID of a running process with this name, according to `/proc/*/comm`, which contains at most
  /// 15 characters of the name.
  public static func processID(named name: String, root: String = "") -> Int? {
    processIDs(root: root).first { processName($0, root: root) == String(name.prefix(15)) }
  }

  /// Returns the IDs of all processes, in ascending order.
  public static func processIDs(root: String = "") -> [Int] {
    Files.names(in: "\(root)/proc").compactMap { Int($0) }.sorted()
  }

  /// Returns the name of a process, or `nil` if it has ended.
  public static func processName(_ id: Int, root: String = "") -> String? {
    Files.text(at: "\(root)/proc/\(id)/comm").map { String($0.prefix { $0 != "\n" }) }
  }

  /// Returns the IDs of the processes that have each socket open, by inode. Includes only processes whose
  /// `/proc/*/fd` this process may read.
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

/// A callback for SIGINT, SIGTERM and SIGHUP, to stop a scan or a stream before the process ends.
public enum InterruptSignals {
  /// Calls `handler` with the signal number for each SIGINT, SIGTERM or SIGHUP, on a dedicated thread.
  ///
  /// Call this once per process. Also ignores SIGPIPE, so that a write to a closed pipe fails with EPIPE.
  public static func handle(_ handler: @escaping @Sendable (CInt) -> Void) throws(SystemError) {
    try checked("sigaction") { ringtap_signals_take() }
    try SystemThread.start(named: "signals") {
      while true { handler(ringtap_signals_wait()) }
    }
  }
}

/// Resources that the calling thread has used so far. To measure, subtract two values.
package struct ThreadUsage: Sendable, BitwiseCopyable {
  /// Number of system calls that a receive loop makes while streaming: waiting, receiving, reading, sending,
  /// waking.
  package var systemCalls: UInt64
  /// User and system time, in nanoseconds.
  package var processorNanoseconds: Int64

  /// Returns the current values. `clock_gettime(CLOCK_THREAD_CPUTIME_ID)` is a system call, so this is too
  /// slow for each notification.
  package static func current() -> ThreadUsage {
    ThreadUsage(systemCalls: currentSystemCalls, processorNanoseconds: nanoseconds(CLOCK_THREAD_CPUTIME_ID))
  }

  /// Number of system calls of the calling thread. Costs one memory load, so it may be read often.
  package static var currentSystemCalls: UInt64 { ringtap_system_calls() }

  private static func nanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    // SAFETY: `time` outlives the call.
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  /// User and system time of all threads of this process, in nanoseconds.
  package static var processNanoseconds: Int64 { nanoseconds(CLOCK_PROCESS_CPUTIME_ID) }
}

extension ProcessFacts {
  /// Resident memory of this process in KiB, from `/proc/self/status`.
  package static var residentKilobytes: Int? {
    guard let status = Files.text(at: "/proc/self/status"),
      let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") })
    else { return nil }
    return Int(line.filter { ("0"..."9").contains($0) })
  }
}

/// Limits the capabilities of this process and the system calls that it may make. For programs only, at the
/// start of `main`; libraries must not use it.
///
/// Capabilities belong to threads. One thread, `ringtap-rights`, keeps the capabilities that are needed
/// later. This thread makes the few calls that require a capability, and raises the capability only for the
/// duration of the call. All other threads drop their capabilities.
public enum ProcessRights {
  public typealias Capability = ProcessFacts.Capability

  /// System calls to refuse from now on, permanently and on all threads.
  public enum Filter: Sendable {
    /// Calls that start, replace or inspect another program, or change the system.
    case programs
    /// Also the calls for sockets. For a program that only reads and writes files.
    case programsAndSockets
  }

  /// Whether the filter is in force.
  public enum FilterState: Hashable, Sendable {
    case notAsked, on
    /// The kernel has no seccomp filters, or no filter is defined for this processor.
    case refused(SystemError)
  }

  /// Privileges that the process had when it started.
  public struct Start: Hashable, Sendable {
    public var capabilities: Set<Capability>
    public var hasNoNewPrivileges: Bool
    /// Whether the parent, such as a container runtime, had installed a filter.
    public var isFiltered: Bool

    public init(capabilities: Set<Capability>, hasNoNewPrivileges: Bool, isFiltered: Bool) {
      self.capabilities = capabilities
      self.hasNoNewPrivileges = hasNoNewPrivileges
      self.isFiltered = isFiltered
    }
  }

  /// Privileges at the start; `nil` if none were dropped.
  public static var start: Start? {
    let facts = ringtap_rights_at_start()
    guard facts.is_known != 0 else { return nil }
    return Start(
      capabilities: named(facts.permitted), hasNoNewPrivileges: facts.no_new_privileges != 0,
      isFiltered: facts.is_filtered != 0)
  }

  /// Capabilities that `ringtap-rights` holds.
  public static var held: Set<Capability> { named(ringtap_rights_held()) }

  /// Sets no_new_privs. Executing a file then no longer grants privileges. Required before `filter`.
  public static func forgoNewOnes() throws(SystemError) {
    try checked("prctl(PR_SET_NO_NEW_PRIVS)") { ringtap_rights_forgo() }
  }

  /// Drops all capabilities except the given capabilities. Call this while the process has only one thread.
  ///
  /// - Parameters:
  ///   - capabilities: kept by `ringtap-rights`.
  ///   - everywhere: kept by all threads, in their effective sets.
  ///   - thread: whether `ringtap-rights` gets its own filter, which allows only the calls that this thread
  ///     makes.
  public static func begin(
    keeping capabilities: Set<Capability>, everywhere: Set<Capability> = [], thread: ThreadFilter
  ) throws(SystemError) {
    try checked("capset") {
      ringtap_rights_begin(mask(capabilities), mask(everywhere), thread == .filtered ? 1 : 0)
    }
  }

  public enum ThreadFilter: Sendable {
    case filtered, unfiltered
  }

  /// Drops all capabilities of `ringtap-rights` except the given capabilities. The thread ends if no
  /// capability is left.
  public static func keep(_ capabilities: Set<Capability>) { ringtap_rights_keep(mask(capabilities)) }

  /// Installs the filter on all threads: `seccomp(SECCOMP_SET_MODE_FILTER)`.
  ///
  /// - Throws: EINVAL or ENOSYS if the kernel has no seccomp filters, or the processor is not supported.
  public static func filter(_ filter: Filter) throws(SystemError) {
    try checked("seccomp") { ringtap_filter_process(filter == .programsAndSockets ? 1 : 0) }
  }

  public static var filterState: FilterState {
    switch ringtap_filter_state() {
    case 0: .notAsked
    case 1: .on
    case let number: .refused(SystemError(call: "seccomp", number: -number))
    }
  }

  private static func mask(_ capabilities: Set<Capability>) -> UInt64 {
    capabilities.reduce(0) { $0 | 1 << UInt64($1.rawValue) }
  }

  private static func named(_ mask: UInt64) -> Set<Capability> {
    Set(Capability.allCases.filter { mask & 1 << UInt64($0.rawValue) != 0 })
  }
}
