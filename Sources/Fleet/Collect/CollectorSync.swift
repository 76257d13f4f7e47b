import BLECore
import BLELinux
import Synchronization

/// What the disk must have before publishers hear of it: files and folders of any number of sessions, in one go.
struct CollectorSync: Sendable {
  /// What of one session it has.
  struct Session: Sendable {
    let path: String
    /// Whether its folder lists files that it did not before.
    let hasNewNames: Bool
    /// How often the session had become complete.
    let completions: Int
    /// By table, the number of the row that follows those that its file had.
    var tables: [String: Int] = [:]

    func file(_ table: String) -> String { "\(path)/\(table).csv" }
  }

  var sessions: [Collector.SessionName: Session] = [:]
  /// Folders in which sessions or publishers have come to be.
  var folders: Set<String> = []

  var isEmpty: Bool { sessions.isEmpty && folders.isEmpty }

  /// Waits for the disk.
  ///
  /// - Returns: files that are not there any more.
  func run() throws(SystemError) -> Set<String> {
    let files = sessions.values.flatMap { session in session.tables.keys.map(session.file) }
    let changed = sessions.values.lazy.filter(\.hasNewNames).map(\.path)
    return try Files.sync(files: files.sorted(), folders: folders.union(changed).sorted())
  }
}

/// Has the disk get what a collector wrote, many sessions at once: at most so often, and soon for a publisher that waits for it.
final class CollectorCommits {
  /// From the beginning of one sync to that of the next.
  private static let period = Duration.milliseconds(500)

  private let disk: CollectorDisk
  private var sync: CollectorSync?
  private var beginAt = MonotonicTime(nanoseconds: 0)

  init(_ disk: CollectorDisk) { self.disk = disk }

  /// Whether the disk is waited for.
  var isBusy: Bool { sync != nil }

  /// Tells the collector of a sync that has ended, and begins the next one if it is time to.
  ///
  /// - Throws: `system` if the disk does not have what was written.
  func turn(_ collector: inout Collector, _ now: MonotonicTime) throws(PublishProblem) {
    if let ended = sync, let result = disk.take() {
      sync = nil
      do throws(SystemError) { collector.endSync(ended, missing: try result.get()) } catch {
        throw .system(error)
      }
    }
    guard sync == nil, collector.isUnsynced, collector.isSyncUrgent || now >= beginAt else { return }
    let next = collector.beginSync()
    guard !next.isEmpty else { return }
    (sync, beginAt) = (next, now.advanced(by: Self.period))
    disk.begin(next)
  }
}

/// Waits for a collector's disk on a thread of its own: the broker is answered meanwhile.
final class CollectorDisk: Sendable {
  private struct State: Sendable {
    var sync: CollectorSync?
    var result: Result<Set<String>, SystemError>?
    var isOver = false
  }

  private let state = Mutex(State())
  private let wake: WakeEvent

  init() throws(SystemError) {
    wake = try WakeEvent()
    try SystemThread.start(named: "collector-disk") { [self] in
      while true {
        wake.sleep { state.withLock { $0.sync == nil && !$0.isOver } }
        let (sync, isOver) = state.withLock { ($0.sync, $0.isOver) }
        if let sync {
          let result = Result { () throws(SystemError) in try sync.run() }
          state.withLock { ($0.sync, $0.result) = (nil, result) }
        } else if isOver {
          return
        }
      }
    }
  }

  /// Begins one; the last one has ended, and `take` gave its result.
  func begin(_ sync: CollectorSync) {
    state.withLock { $0.sync = sync }
    wake.signal()
  }

  /// The result of the one that was begun; `nil` until it has ended.
  func take() -> Result<Set<String>, SystemError>? {
    state.withLock { state in
      defer { state.result = nil }
      return state.result
    }
  }

  /// Ends the thread, after the sync that runs.
  func end() {
    state.withLock { $0.isOver = true }
    wake.signal()
  }
}
