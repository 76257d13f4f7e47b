import CBluetoothLinux
import Glibc

/// What this process holds of capabilities, and which system calls it may make. A program says it once, first of all in
/// `main`; a library never does.
///
/// Capabilities belong to threads. Those that a program needs later are kept by one thread, `ringtap-rights`, which makes
/// the few calls that the kernel asks for them, and has them in force (in its effective set) only meanwhile. All other
/// threads have none.
public enum ProcessRights {
  public typealias Capability = ProcessFacts.Capability

  /// Which system calls are refused from now on, on all threads and for good.
  public enum Filter: Sendable {
    /// Those that start, become or look into another program, or change the machine.
    case programs
    /// Sockets besides: for whoever only reads and writes files.
    case programsAndSockets
  }

  /// What became of the filter.
  public enum FilterState: Hashable, Sendable {
    case notAsked, on
    /// The kernel has no such filters, or the processor is not known here.
    case refused(SystemError)
  }

  /// How the process was started.
  public struct Start: Hashable, Sendable {
    public var capabilities: Set<Capability>
    public var hasNoNewPrivileges: Bool
    /// By whoever started it: a container, say.
    public var isFiltered: Bool

    public init(capabilities: Set<Capability>, hasNoNewPrivileges: Bool, isFiltered: Bool) {
      self.capabilities = capabilities
      self.hasNoNewPrivileges = hasNoNewPrivileges
      self.isFiltered = isFiltered
    }
  }

  /// `nil` where nothing was given up.
  public static var start: Start? {
    let facts = ringtap_rights_at_start()
    guard facts.is_known != 0 else { return nil }
    return Start(
      capabilities: named(facts.permitted), hasNoNewPrivileges: facts.no_new_privileges != 0,
      isFiltered: facts.is_filtered != 0)
  }

  /// What `ringtap-rights` has.
  public static var held: Set<Capability> { named(ringtap_rights_held()) }

  /// Gives up the right to gain privileges by executing a file (no_new_privs). Whoever filters must have done so.
  public static func forgoNewOnes() throws(SystemError) {
    try checked("prctl(PR_SET_NO_NEW_PRIVS)") { ringtap_rights_forgo() }
  }

  /// Gives up all but these, while this is the only thread.
  ///
  /// - Parameters:
  ///   - capabilities: what `ringtap-rights` keeps.
  ///   - everywhere: what all threads keep, in force.
  ///   - thread: whether `ringtap-rights` is to have a filter of its own, which leaves it only what it is there for.
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

  /// Gives up all that `ringtap-rights` has but these. It ends where that is nothing.
  public static func keep(_ capabilities: Set<Capability>) { ringtap_rights_keep(mask(capabilities)) }

  /// `seccomp(SECCOMP_SET_MODE_FILTER)`, for all threads.
  ///
  /// - Throws: EINVAL or ENOSYS where the kernel has no such filters, or the processor is not known here.
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
