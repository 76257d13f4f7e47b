import BLELinux
import Synchronization

/// What the program gives up before it does anything: the capabilities that its command does not need, the right to gain
/// any, and system calls that no command makes.
package enum Confinement {
  /// What a command needs, by its name alone.
  enum Needs: Hashable {
    /// Reads and writes files.
    case files
    /// The same, but starts a program first, a pager say, and calls `filterFiles` then.
    case filesAndProgram
    /// Has sockets that need no privilege.
    case sockets
    /// Opens sockets that need these.
    case radio(Set<ProcessFacts.Capability>)
    /// Opens all of it, and gives up the rest itself: `ringtap open`.
    case opener
  }

  static func needs(of arguments: [String]) -> Needs {
    switch (arguments.first, arguments.dropFirst().first) {
    case ("open", _): .opener
    case ("log", "record"), ("extcap", _): .radio([.netRaw])
    case ("log", "replay"), ("adapters", _), ("publish", _), ("collect", _), ("status", _): .sockets
    case ("ring", "decode"): .files
    case ("log", "show"), ("report", _): .filesAndProgram
    case ("emulate", _), ("serve", _), ("script-peer", _): .radio([.netAdmin])
    case ("scan", _), ("capture", _), ("gatt", _), ("pair", _), ("read", _), ("write", _), ("notify", _),
      ("link", _), ("ring", _), ("heart-rate", _), ("thermometer", _), ("cycling", _), ("polar", _),
      ("daemon", _), ("doctor", _), ("bench", _), ("relay", _):
      .radio([.netRaw, .netAdmin])
    default: .files
    }
  }

  /// What root keeps where only files are read: else it could not write into a folder of another user.
  private static let rootsFiles: Set<ProcessFacts.Capability> = [
    .chown, .dacOverride, .dacReadSearch, .fowner, .fsetid,
  ]

  /// Call it first of all in `main`, while there is one thread.
  ///
  /// Root keeps all that it has where a radio is reached: whoever wants less says `ringtap open`, or is not root.
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
        // Memory that is locked, and threads with a priority, ask for theirs again and again, on any thread.
        let isRealTime = arguments.contains { $0 == "--realtime" || $0.hasPrefix("--realtime=") }
        try ProcessRights.begin(
          keeping: kept, everywhere: isRealTime ? [.ipcLock, .sysNice] : [],
          thread: isFiltering ? .filtered : .unfiltered)
      case .files, .filesAndProgram, .sockets, .opener:
        try ProcessRights.begin(
          keeping: [], everywhere: ProcessFacts.isRoot ? rootsFiles : [], thread: .unfiltered)
      }
    } catch { Console.note("privileges stay as they are: \(error)") }
  }

  /// Whether `begin` has left the filter to the command. Not where a command runs in somebody else's process, as tests do it.
  private static let isFilterDue = Atomic(false)

  /// For a command that reads files, before it reads the first: what it starts has been started.
  package static func filterFiles() {
    if isFilterDue.exchange(false, ordering: .relaxed) { filter(.programsAndSockets) }
  }

  /// The variable that switches the filter off.
  package static let switchName = "RINGTAP_SECCOMP"

  package static var isFiltering: Bool { ProcessFacts.environment(switchName) != "off" }

  /// Goes on without where the kernel has none: `ringtap doctor` tells.
  private static func filter(_ filter: ProcessRights.Filter) {
    guard isFiltering else { return }
    try? ProcessRights.filter(filter)
  }
}
