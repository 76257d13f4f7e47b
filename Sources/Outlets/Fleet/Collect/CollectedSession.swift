import BLELinux
import BLEWire
import JSONText

/// A session that is collected: its tables, what its publisher told of it, and what that is to hear.
///
/// What is kept in memory is small and does not depend on what was sent: a header is a hash, a document is a file.
struct CollectedSession {
  /// What the end told of a table.
  struct Told: Hashable, Sendable {
    var rows: Int
    var from: Int
  }

  /// Of `session.json` until all rows are there. No table has such a name.
  static let documentName = ".session.json"

  /// When a table's rows may be asked for again.
  struct Hole: Hashable, Sendable {
    var askAt = MonotonicTime(nanoseconds: 0)
    var pause = Collector.requestPeriod
  }

  /// Memory that a session takes without its tables, and a table: dictionaries and strings, as measured with 5,000 sessions.
  private static let ownByteCount = 900
  private static let tableByteCount = 300

  let path: String
  private(set) var tables: [String: CollectedTable] = [:]
  private(set) var holes: [String: Hole] = [:]
  var state: PublisherStatus.State?
  private(set) var end: [String: Told]?
  private(set) var isComplete = false
  /// How often it became complete, and of those what the disk has: `session.json` has its name there.
  private var completions = (begun: 0, synced: 0)
  /// Whether its folder has names that a power failure may take back.
  private var hasNewNames = false
  /// Whether there is something to tell the publisher.
  var isNews = false
  var receiptAt: MonotonicTime?
  /// When the last message of it came.
  var heardAt: MonotonicTime
  /// As in `collect.json`.
  private var missing: [String: Int] = [:]

  init(_ path: String, _ now: MonotonicTime) {
    self.path = path
    heardAt = now
    if Files.exists(path) { missing = Self.missing(in: path) }
  }

  /// What it takes of the collector's room.
  var room: Room {
    tables.keys.reduce(Self.room(of: path)) { $0 + Self.room(ofTable: $1, in: path) }
  }

  /// The room that a session without tables takes.
  static func room(of path: String) -> Room {
    // Path, and the names of publisher and session that lead here.
    Room(places: 1, byteCount: ownByteCount + 2 * path.utf8.count)
  }

  static func room(ofTable name: String, in path: String) -> Room {
    Room(places: 1, byteCount: tableByteCount + path.utf8.count + 4 * name.utf8.count)
  }

  /// Room more that it takes with these tables.
  func room(with names: some Sequence<String>) -> Room {
    names.reduce(Room()) { tables[$1] == nil ? $0 + Self.room(ofTable: $1, in: path) : $0 }
  }

  /// Rows that are known to exist and are not in the files.
  var missingRows: Int { tables.keys.reduce(0) { $0 + missingRows(of: $1) } }

  func missingRows(of name: String) -> Int {
    guard let table = tables[name] else { return 0 }
    return table.counts.missing + max(0, max(table.seen, end?[name]?.rows ?? 0) - table.next)
  }

  /// Tables whose rows are to be asked for now. A publisher answers from the row that the receipt tells of, so the disk must
  /// have all before that.
  func holes(_ now: MonotonicTime) -> [String] {
    holes.filter { name, hole in
      hole.askAt <= now && tables[name].map { $0.synced == $0.next } == true
    }.map(\.key)
  }

  /// Is asked for rows of a table: the next time twice as much later, as long as none come.
  mutating func isAsked(_ name: String, _ now: MonotonicTime) {
    guard var hole = holes[name] else { return }
    hole.askAt = now.advanced(by: hole.pause)
    hole.pause = min(hole.pause * 2, Collector.longestRequestPeriod)
    holes[name] = hole
    tables[name]?.counts.requests += 1
  }

  // MARK: The disk

  /// Whether there is anything of it that a power failure may take back.
  var isUnsynced: Bool {
    completions.begun > completions.synced || tables.values.contains(where: \.isUnsynced)
  }

  /// Whether a publisher waits for the sync: all of the session is here.
  var isSyncUrgent: Bool { isComplete && completions.begun > completions.synced }

  /// A sync begins.
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

  /// Writes all rows to their files, and gives `session.json` its name if they are all there.
  func write() throws(SystemError) {
    for table in tables.values { try table.write() }
    let draft = "\(path)/\(Self.documentName)"
    if isComplete, Files.exists(draft) { try? Files.rename(draft, to: "\(path)/session.json") }
  }

  /// Rows that no sync has written yet.
  var unwritten: [CollectorSync.Write] { tables.values.compactMap(\.unwritten) }

  /// The disk has what a sync began with.
  ///
  /// - Parameter missing: files that somebody removed: their rows are nowhere.
  mutating func endSync(_ sync: CollectorSync.Session, missing: Set<String>) {
    for (name, row) in sync.tables where !missing.contains(sync.file(name)) {
      if tables[name]?.endSync(row) == true { isNews = true }
    }
    guard sync.completions > completions.synced, sync.completions == completions.begun else { return }
    completions.synced = sync.completions
    (isNews, receiptAt) = (true, nil)
  }

  /// Whether the disk has everything that the end told of.
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
    // What the publisher cannot send any more, or will not as it has gone.
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
    // Its publisher has not heard of them. Of new rows it hears once the disk has them.
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

  /// Keeps `session.json` in a file of another name, which it gets once the disk has it and all rows.
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

  /// Whether everything is there that the end told of; then the next sync gives `session.json` its name.
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
