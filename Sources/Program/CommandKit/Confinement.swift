import BLELinux
import Synchronization

/// Drops privileges when the program starts: unneeded capabilities, the ability to gain new ones, and
/// unneeded system calls.
package enum Confinement {
  /// Privileges that a command needs, derived from its name.
  enum Needs: Hashable {
    /// Reads and writes files.
    case files
    /// Starts a program (such as a pager), calls `filterFiles`, and then reads and writes files.
    case filesAndProgram
    /// Uses sockets that need no privilege.
    case sockets
    /// Opens sockets that need these capabilities.
    case radio(Set<ProcessFacts.Capability>)
    /// Opens sockets of every kind, and drops the privileges itself; only `ringtap open`.
    case opener
  }

  static func needs(of arguments: [String]) -> Needs {
    switch (arguments.first, arguments.dropFirst().first) {
    case ("open", _): .opener
    case ("log", "record"), ("extcap", _): .radio([.netRaw])
    case ("adapters", _), ("publish", _), ("collect", _), ("status", _): .sockets
    case ("ring", "decode"): .files
    case ("log", "show"), ("report", _): .filesAndProgram
    case ("emulate", _), ("serve", _): .radio([.netAdmin])
    case ("scan", _), ("capture", _), ("gatt", _), ("pair", _), ("read", _), ("write", _), ("notify", _),
      ("link", _), ("ring", _), ("heart-rate", _), ("thermometer", _), ("cycling", _), ("polar", _),
      ("daemon", _), ("doctor", _), ("bench", _), ("relay", _):
      .radio([.netRaw, .netAdmin])
    default: .files
    }
  }

  /// Capabilities that root keeps in commands that only use files, because writing into another user's folder
  /// needs them.
  private static let rootsFiles: Set<ProcessFacts.Capability> = [
    .chown, .dacOverride, .dacReadSearch, .fowner, .fsetid,
  ]

  /// Drops the privileges that the command does not need. Call this first in `main`, while the process has a
  /// single thread.
  ///
  /// Root keeps all its capabilities in commands that use a radio. To drop them, use `ringtap open` or run as
  /// another user.
  package static func begin(_ arguments: [String]) {
    let needs = needs(of: arguments)
    guard needs != .opener else { return }
    do throws(SystemError) {
      try ProcessRights.forgoNewOnes()
      switch needs {
      case .files: filter(.programsAndSockets)
      case .filesAndProgram: isFilterDue.store(true, ordering: .relaxed)
      default: filter(.programs)
      }
      switch needs {
      case .radio(let kept):
        guard !ProcessFacts.isRoot else { return }
        // With `--realtime`, threads lock memory and set their priority at any time, so every thread keeps
        // these two capabilities.
        let isRealTime = arguments.contains { $0 == "--realtime" || $0.hasPrefix("--realtime=") }
        try ProcessRights.begin(
          keeping: kept, everywhere: isRealTime ? [.ipcLock, .sysNice] : [],
          thread: isFiltering ? .filtered : .unfiltered)
      case .files, .filesAndProgram, .sockets, .opener:
        try ProcessRights.begin(
          keeping: [], everywhere: ProcessFacts.isRoot ? rootsFiles : [], thread: .unfiltered)
      }
    } catch { Console.note("cannot drop privileges: \(error)") }
  }

  /// Whether the command still has to call `filterFiles`; false if a command runs inside another process,
  /// such as a test.
  private static let isFilterDue = Atomic(false)

  /// Installs the system-call filter in a command that reads files. Call it after all programs have been
  /// started and before the first file is read.
  package static func filterFiles() {
    if isFilterDue.exchange(false, ordering: .relaxed) { filter(.programsAndSockets) }
  }

  /// Environment variable that disables the filter if its value is `off`.
  package static let switchName = "RINGTAP_SECCOMP"

  package static var isFiltering: Bool { ProcessFacts.environment(switchName) != "off" }

  /// Installs a filter. Does nothing if the kernel does not support filters; `ringtap doctor` reports such a
  /// kernel.
  private static func filter(_ filter: ProcessRights.Filter) {
    guard isFiltering else { return }
    try? ProcessRights.filter(filter)
  }
}
