import BLELinux
import BLEWire
import Synchronization

/// What the disk must have before publishers hear of it: rows, files and folders of any number of sessions, in one go.
struct CollectorSync: Sendable {
  /// Rows for a place in a file.
  struct Write: Sendable {
    let path: String
    let offset: Int
    let octets: [UInt8]
  }

  /// What of one session it has.
  struct Session: Sendable {
    let path: String
    /// Whether its folder lists files that it did not before.
    let hasNewNames: Bool
    /// Whether all rows are there, so that `session.json` gets its name, if it came.
    let hasDocument: Bool
    /// How often the session had become complete.
    let completions: Int
    /// By table, the number of the row that follows those that its file had.
    var tables: [String: Int] = [:]

    func file(_ table: String) -> String { "\(path)/\(table).csv" }
    var draft: String { "\(path)/\(CollectedSession.documentName)" }
    var document: String { "\(path)/session.json" }
  }

  /// In this order.
  var writes: [Write] = []

  var sessions: [Collector.SessionName: Session] = [:]
  /// Folders in which sessions or publishers have come to be.
  var folders: Set<String> = []

  var isEmpty: Bool { sessions.isEmpty && folders.isEmpty && writes.isEmpty }

  /// Writes, and waits for the disk.
  ///
  /// - Parameter didWrite: called once all rows are in their files.
  /// - Returns: files that are not there any more.
  func run(_ didWrite: () -> Void = {}) throws(SystemError) -> Set<String> {
    for write in writes { try Files.write(write.octets.span, to: write.path, at: write.offset) }
    didWrite()
    let tables = sessions.values.flatMap { session in session.tables.keys.map(session.file) }
    let complete = sessions.values.filter(\.hasDocument)
    // A document that has its name already may have come since the sync before.
    let documents = complete.flatMap { [$0.draft, $0.document] }
    let missing = try Files.sync(files: (tables + documents).sorted(), folders: [])
    for session in complete where !missing.contains(session.draft) {
      try Files.rename(session.draft, to: session.document)
    }
    let changed = sessions.values.lazy.filter(\.hasNewNames).map(\.path)
    _ = try Files.sync(files: [], folders: folders.union(changed).sorted())
    return missing
  }
}

/// Has the disk get what a collector wrote, many sessions at once: at most so often, and soon for a publisher that waits for it.
final class CollectorCommits {
  /// From the beginning of one sync to that of the next.
  private static let period = Duration.milliseconds(500)
  static let pendingLimit = Limit(
    8_388_608, "bytes of rows that wait for a collector's disk", by: .broker,
    whenFull: "no message is read until the disk has some of them",
    counted: "by the broker, which keeps what comes")

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
    try end(&collector)
    let isDue =
      collector.isSyncUrgent || now >= beginAt || collector.pendingByteCount > Self.pendingLimit.count
    if isDue { begin(&collector, now) }
  }

  /// Begins the sync of all that is there, however soon after the last one.
  ///
  /// - Returns: `false` while another one runs.
  func last(_ collector: inout Collector, _ now: MonotonicTime) throws(PublishProblem) -> Bool {
    try end(&collector)
    guard sync == nil else { return false }
    begin(&collector, now)
    return true
  }

  private func end(_ collector: inout Collector) throws(PublishProblem) {
    if let ended = sync, let result = disk.take() {
      sync = nil
      do throws(SystemError) { collector.endSync(ended, missing: try result.get()) } catch {
        throw .system(error)
      }
    }
  }

  private func begin(_ collector: inout Collector, _ now: MonotonicTime) {
    guard sync == nil, collector.isUnsynced else { return }
    let next = collector.beginSync()
    guard !next.isEmpty else { return }
    (sync, beginAt) = (next, now.advanced(by: Self.period))
    disk.begin(next)
  }

  /// Waits for the disk if it is so slow that too many rows wait for it: the broker keeps what comes meanwhile.
  func holdBack(_ collector: inout Collector) throws(PublishProblem) {
    while collector.pendingByteCount > Self.pendingLimit.count {
      disk.wait()
      try turn(&collector, SystemClock.monotonic())
    }
  }
}

/// Waits for a collector's disk on a thread of its own: the broker is answered meanwhile.
final class CollectorDisk: Sendable {
  private struct State: Sendable {
    var sync: CollectorSync?
    var result: Result<Set<String>, SystemError>?
    var hasWritten = false
    var isOver = false
  }

  private let state = Mutex(State())
  private let wake: WakeEvent
  private let ended: WakeEvent

  init() throws(SystemError) {
    (wake, ended) = (try WakeEvent(), try WakeEvent())
    try SystemThread.start(named: "collector-disk") { [self] in
      while true {
        wake.sleep { state.withLock { $0.sync == nil && !$0.isOver } }
        let (sync, isOver) = state.withLock { ($0.sync, $0.isOver) }
        if let sync {
          let result = Result { () throws(SystemError) in
            try sync.run {
              state.withLock { $0.hasWritten = true }
              ended.signal()
            }
          }
          state.withLock { ($0.sync, $0.result) = (nil, result) }
          ended.signal()
        } else if isOver {
          return
        }
      }
    }
  }

  /// Begins one; the last one has ended, and `take` gave its result.
  func begin(_ sync: CollectorSync) {
    state.withLock { ($0.sync, $0.hasWritten) = (sync, false) }
    wake.signal()
  }

  /// Waits until the one that runs has ended, if one does.
  func wait() { ended.sleep { state.withLock { $0.sync != nil } } }

  /// Waits until the one that runs has its rows in their files, if one does.
  func waitForWrites() { ended.sleep { state.withLock { $0.sync != nil && !$0.hasWritten } } }

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
