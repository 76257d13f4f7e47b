import BLELinux
import BLEWire
import Synchronization

/// One sync of the rows, files and folders of any number of sessions. Receipts confirm rows only after the
/// sync.
struct CollectorSync: Sendable {
  /// Rows to write at an offset of a file.
  struct Write: Sendable {
    let path: String
    let offset: Int
    let octets: [UInt8]
  }

  /// The part of a sync that belongs to one session.
  struct Session: Sendable {
    let path: String
    /// Whether the session's folder has new entries.
    let hasNewNames: Bool
    /// Whether all rows have arrived. If so, the sync renames the received document to `session.json`.
    let hasDocument: Bool
    /// Number of times that the session had become complete when the sync started.
    let completions: Int
    /// For each table, the number of the row after the last row of the sync.
    var tables: [String: Int] = [:]

    func file(_ table: String) -> String { "\(path)/\(table).csv" }
    var draft: String { "\(path)/\(CollectedSession.documentName)" }
    var document: String { "\(path)/session.json" }
  }

  /// The writes to files, in order.
  var writes: [Write] = []

  var sessions: [Collector.SessionName: Session] = [:]
  /// Folders in which sessions or publishers were created.
  var folders: Set<String> = []

  var isEmpty: Bool { sessions.isEmpty && folders.isEmpty && writes.isEmpty }

  /// Writes the rows, and syncs the files and folders.
  ///
  /// - Parameter didWrite: called when all rows are in their files.
  /// - Returns: the files that no longer exist.
  func run(_ didWrite: () -> Void = {}) throws(SystemError) -> Set<String> {
    for write in writes { try Files.write(write.octets.span, to: write.path, at: write.offset) }
    didWrite()
    let tables = sessions.values.flatMap { session in session.tables.keys.map(session.file) }
    let complete = sessions.values.filter(\.hasDocument)
    // A document with its final name may have been replaced since the last sync, so it is synced too.
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

/// Schedules a collector's syncs. A sync covers many sessions. The rate of syncs is limited, but a sync
/// starts early if a publisher is waiting for it.
final class CollectorCommits {
  /// Minimum interval between the starts of two syncs.
  private static let period = Duration.milliseconds(500)
  static let pendingLimit = Limit(
    8_388_608, "bytes of rows that wait for a collector's disk", by: .broker,
    whenFull: "no message is read until some are on disk",
    counted: "by the broker, which queues messages")

  private let disk: CollectorDisk
  private var sync: CollectorSync?
  private var beginAt = MonotonicTime(nanoseconds: 0)

  init(_ disk: CollectorDisk) { self.disk = disk }

  /// Whether a sync is in progress.
  var isBusy: Bool { sync != nil }

  /// Passes the result of a finished sync to the collector. Starts the next sync if it is due.
  ///
  /// - Throws: `system` if writing or syncing failed.
  func turn(_ collector: inout Collector, _ now: MonotonicTime) throws(PublishProblem) {
    try end(&collector)
    let isDue =
      collector.isSyncUrgent || now >= beginAt || collector.pendingByteCount > Self.pendingLimit.count
    if isDue { begin(&collector, now) }
  }

  /// Starts a sync of all received data, without waiting for the interval.
  ///
  /// - Returns: `false` if a sync is in progress.
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

  /// Waits for the disk if too many rows are pending. During the wait, the broker queues messages.
  func holdBack(_ collector: inout Collector) throws(PublishProblem) {
    while collector.pendingByteCount > Self.pendingLimit.count {
      disk.wait()
      try turn(&collector, SystemClock.monotonic())
    }
  }
}

/// Runs syncs on its own thread, so that the collector keeps responding to the broker.
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

  /// Starts a sync. The previous sync must have ended, and `take` must have returned its result.
  func begin(_ sync: CollectorSync) {
    state.withLock { ($0.sync, $0.hasWritten) = (sync, false) }
    wake.signal()
  }

  /// Waits until the sync in progress, if any, has ended.
  func wait() { ended.sleep { state.withLock { $0.sync != nil } } }

  /// Waits until the sync in progress, if any, has written its rows.
  func waitForWrites() { ended.sleep { state.withLock { $0.sync != nil && !$0.hasWritten } } }

  /// Returns the result of the last sync; `nil` while a sync is in progress, or if an earlier call has
  /// returned the result.
  func take() -> Result<Set<String>, SystemError>? {
    state.withLock { state in
      defer { state.result = nil }
      return state.result
    }
  }

  /// Ends the thread after the sync in progress.
  func end() {
    state.withLock { $0.isOver = true }
    wake.signal()
  }
}
