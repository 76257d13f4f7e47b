import BLELinux
import BLEWire
import JSONText

/// A session that is being collected: its tables, the state that its publisher reported, and pending
/// receipts.
///
/// The memory of a session is small and independent of the amount of data: table headers are kept as hashes,
/// and documents are stored in files.
struct CollectedSession {
  /// Row counts of a table, from the end-of-session message.
  struct Told: Hashable, Sendable {
    var rows: Int
    var from: Int
  }

  /// Name of `session.json` until all rows have arrived. A table cannot have this name.
  static let documentName = ".session.json"

  /// Schedule of resend requests for a table's missing rows.
  struct Hole: Hashable, Sendable {
    var askAt = MonotonicTime(nanoseconds: 0)
    var pause = Collector.requestPeriod
  }

  /// Memory of a session without its tables in bytes, including dictionaries and strings, as measured with
  /// 5,000 sessions.
  private static let ownByteCount = 900
  /// Memory of a table in bytes, measured likewise.
  private static let tableByteCount = 300

  let path: String
  private(set) var tables: [String: CollectedTable] = [:]
  private(set) var holes: [String: Hole] = [:]
  var state: PublisherStatus.State?
  private(set) var end: [String: Told]?
  private(set) var isComplete = false
  /// Number of times that the session became complete (`begun`), and number of these times for which a sync
  /// has ended (`synced`). The sync renames the document to `session.json`.
  private var completions = (begun: 0, synced: 0)
  /// Whether the session's folder has unsynced new entries, which a power failure could remove.
  private var hasNewNames = false
  /// Whether a receipt must be sent to the publisher.
  var isNews = false
  var receiptAt: MonotonicTime?
  /// Time of the last message for this session.
  var heardAt: MonotonicTime
  /// Number of missing rows by table, as in `collect.json`.
  private var missing: [String: Int] = [:]

  init(_ path: String, _ now: MonotonicTime) {
    self.path = path
    heardAt = now
    if Files.exists(path) { missing = Self.missing(in: path) }
  }

  /// The collector's memory used by the session.
  var room: Room {
    tables.keys.reduce(Self.room(of: path)) { $0 + Self.room(ofTable: $1, in: path) }
  }

  /// Returns the memory of a session without tables.
  static func room(of path: String) -> Room {
    // The path, and the names of publisher and session as keys of dictionaries.
    Room(places: 1, byteCount: ownByteCount + 2 * path.utf8.count)
  }

  static func room(ofTable name: String, in path: String) -> Room {
    Room(places: 1, byteCount: tableByteCount + path.utf8.count + 4 * name.utf8.count)
  }

  /// Returns the additional memory that the session needs for these tables.
  func room(with names: some Sequence<String>) -> Room {
    names.reduce(Room()) { tables[$1] == nil ? $0 + Self.room(ofTable: $1, in: path) : $0 }
  }

  /// Number of rows that are known to exist but are not in the files.
  var missingRows: Int { tables.keys.reduce(0) { $0 + missingRows(of: $1) } }

  func missingRows(of name: String) -> Int {
    guard let table = tables[name] else { return 0 }
    return table.counts.missing + max(0, max(table.seen, end?[name]?.rows ?? 0) - table.next)
  }

  /// Returns the tables whose missing rows should be requested now. A publisher resends from the row in the
  /// receipt, so all earlier rows must be synced first.
  func holes(_ now: MonotonicTime) -> [String] {
    holes.filter { name, hole in
      hole.askAt <= now && tables[name].map { $0.synced == $0.next } == true
    }.map(\.key)
  }

  /// Records a request for the missing rows of a table. The interval between requests doubles until rows
  /// arrive.
  mutating func isAsked(_ name: String, _ now: MonotonicTime) {
    guard var hole = holes[name] else { return }
    hole.askAt = now.advanced(by: hole.pause)
    hole.pause = min(hole.pause * 2, Collector.longestRequestPeriod)
    holes[name] = hole
    tables[name]?.counts.requests += 1
  }

  // MARK: The disk

  /// Whether a power failure could lose data of the session.
  var isUnsynced: Bool {
    completions.begun > completions.synced || tables.values.contains(where: \.isUnsynced)
  }

  /// Whether the session is complete and a publisher is waiting for the sync.
  var isSyncUrgent: Bool { isComplete && completions.begun > completions.synced }

  /// Starts a sync.
  mutating func beginSync() -> (session: CollectorSync.Session, writes: [CollectorSync.Write]) {
    let isCompleted = completions.begun > completions.synced
    var sync = CollectorSync.Session(
      path: path, hasNewNames: hasNewNames || isCompleted, hasDocument: isCompleted,
      completions: completions.begun)
    hasNewNames = false
    var writes: [CollectorSync.Write] = []
    for name in tables.keys where tables[name]?.isUnsynced == true {
      guard let (row, write) = tables[name]?.beginSync() else { continue }
      sync.tables[name] = row
      if let write { writes.append(write) }
    }
    return (sync, writes)
  }

  /// Writes all rows to their files. If all rows have arrived, renames the document to `session.json`.
  func write() throws(SystemError) {
    for table in tables.values { try table.write() }
    let draft = "\(path)/\(Self.documentName)"
    if isComplete, Files.exists(draft) { try? Files.rename(draft, to: "\(path)/session.json") }
  }

  /// Received rows that no sync has written to files yet.
  var unwritten: [CollectorSync.Write] { tables.values.compactMap(\.unwritten) }

  /// Ends a sync. All rows of the sync are now on the disk.
  ///
  /// - Parameter missing: files that were removed during the sync, with the loss of their rows.
  mutating func endSync(_ sync: CollectorSync.Session, missing: Set<String>) {
    for (name, row) in sync.tables where !missing.contains(sync.file(name)) {
      if tables[name]?.endSync(row) == true { isNews = true }
    }
    guard sync.completions > completions.synced, sync.completions == completions.begun else { return }
    completions.synced = sync.completions
    (isNews, receiptAt) = (true, nil)
  }

  /// Whether all rows announced by the end-of-session message are on the disk.
  var isCompleteOnDisk: Bool {
    guard isComplete, completions.synced == completions.begun, let end else { return false }
    return end.allSatisfy { tables[$0.key].map(\.synced) ?? 0 >= $0.value.rows }
  }

  private mutating func open(_ name: String, _ header: String) throws(CollectProblem) {
    if let table = tables[name] {
      guard table.headerHash == header.hashValue else {
        throw .refused(Batch.Refusal("the table has other columns than before", .columns))
      }
      return
    }
    guard tables.count < SessionEnd.tableLimit.count else {
      throw .refused(Batch.Refusal("too many tables in one session", .tables))
    }
    hasNewNames = true
    tables[name] = try CollectedTable("\(path)/\(name).csv", header: header, missing: missing[name] ?? 0)
  }

  // MARK: Rows

  mutating func take(_ batch: Batch) throws(CollectProblem) {
    try open(batch.table, batch.header)
    guard var table = tables[batch.table] else { return }
    table.seen = max(table.seen, batch.row + batch.count)
    // An offline or ended publisher cannot send earlier rows.
    let isAlone = state == .offline || state == .ended
    let first = isAlone ? batch.row : batch.from
    if table.next < first, batch.row >= first {
      try skip(&table, batch.table, first - table.next)
    }
    if batch.row > table.next {
      if holes[batch.table] == nil { holes[batch.table] = Hole() }
      tables[batch.table] = table
      return
    }
    let known = min(batch.count, table.next - batch.row)
    table.counts.duplicated += known
    // The publisher lacks a receipt for these rows, so send a receipt. New rows are confirmed after their
    // sync.
    if known == batch.count { isNews = true }
    if known < batch.count {
      table.append(batch.rows(after: known), count: batch.count - known)
      holes[batch.table] = nil
    }
    tables[batch.table] = table
    try complete()
  }

  private mutating func skip(
    _ table: inout CollectedTable, _ name: String, _ count: Int
  ) throws(CollectProblem) {
    missing[name] = table.counts.missing + count
    var line = JSONLine()
    line.object { line in
      line.member("version", 1)
      line.key("missing")
      line.object { line in
        for (name, count) in missing.sorted(by: { $0.key < $1.key }) { line.member(name, count) }
      }
    }
    line.endLine()
    let (octets, path) = (line.octets, "\(path)/collect.json")
    try table.skip(count, in: self.path) { () throws(CollectProblem) in
      do throws(SystemError) { try Files.replace(path, with: octets.span) } catch { throw .system(error) }
    }
  }

  private static func missing(in path: String) -> [String: Int] {
    guard let octets = try? Files.octets(of: path + "/collect.json", limit: 1 << 16),
      let document = try? JSONDocument(octets), case .object(let members)? = document["missing"]
    else { return [:] }
    return members.compactMapValues { $0.integer(Int.self) }.filter {
      (0..<Batch.rowLimit).contains($0.value)
    }
  }

  /// Stores `session.json` under a temporary name. The document gets its final name when the document and all
  /// rows are on the disk.
  private func keep(_ document: [UInt8]) throws(CollectProblem) {
    let draft = "\(path)/\(Self.documentName).new"
    do throws(SystemError) {
      try Files.remove(draft)
      try Files.write(document.span, to: draft, at: 0)
      try Files.rename(draft, to: "\(path)/\(Self.documentName)")
    } catch { throw .system(error) }
  }

  // MARK: The end

  mutating func take(_ end: SessionEnd) throws(CollectProblem) {
    (isComplete, receiptAt) = (false, nil)
    for (name, table) in end.tables { try open(name, table.header) }
    if !end.document.isEmpty { try keep(end.document) }
    self.end = end.tables.mapValues { Told(rows: $0.rows, from: $0.from) }
    try complete()
  }

  /// Checks whether all announced rows have arrived. If all rows have arrived, the next sync renames the
  /// document to `session.json`.
  private mutating func complete() throws(CollectProblem) {
    guard let end, !isComplete else { return }
    for (name, told) in end {
      guard var table = tables[name] else { return }
      if table.next < told.from {
        try skip(&table, name, told.from - table.next)
        tables[name] = table
      }
      if table.next < told.rows {
        if holes[name] == nil { holes[name] = Hole() }
      } else {
        holes[name] = nil
      }
    }
    guard end.allSatisfy({ tables[$0.key].map(\.next) ?? 0 >= $0.value.rows }) else { return }
    isComplete = true
    completions.begun += 1
  }
}
