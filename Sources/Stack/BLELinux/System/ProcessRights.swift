import CBluetoothLinux
import Glibc

/// Limits the capabilities of this process and the system calls that it may make. Only a program uses it, at
/// the start of `main`; a library never does.
///
/// Capabilities belong to threads. One thread, `ringtap-rights`, keeps those that are needed later. It makes
/// the few calls that require them, and raises a capability only for the duration of the call. All other
/// threads drop their capabilities.
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
    /// The kernel has no seccomp filters, or none for this processor.
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

  /// Sets no_new_privs: executing a file no longer grants privileges. Required before `filter`.
  public static func forgoNewOnes() throws(SystemError) {
    try checked("prctl(PR_SET_NO_NEW_PRIVS)") { ringtap_rights_forgo() }
  }

  /// Drops all capabilities except the given ones. Call it while the process has only one thread.
  ///
  /// - Parameters:
  ///   - capabilities: kept by `ringtap-rights`.
  ///   - everywhere: kept by all threads, in their effective sets.
  ///   - thread: whether `ringtap-rights` gets its own filter, which allows only the calls that it makes.
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

  /// Drops all capabilities of `ringtap-rights` except these. The thread ends if none are left.
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
