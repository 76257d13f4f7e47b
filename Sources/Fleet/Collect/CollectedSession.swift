import BLECore
import BLELinux
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
  private static let documentName = ".session.json"

  let path: String
  private(set) var tables: [String: CollectedTable] = [:]
  /// Tables with a hole, from when they may be asked for again.
  var holes: [String: MonotonicTime] = [:]
  var state: PublisherStatus.State?
  private(set) var end: [String: Told]?
  private(set) var isComplete = false
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
  var places: Int { 1 + tables.count }

  /// Places more that it takes with these tables.
  func places(with names: some Sequence<String>) -> Int { names.count { tables[$0] == nil } }

  /// Rows that are known to exist and are not in the files.
  var missingRows: Int { tables.keys.reduce(0) { $0 + missingRows(of: $1) } }

  func missingRows(of name: String) -> Int {
    guard let table = tables[name] else { return 0 }
    return table.counts.missing + max(0, max(table.seen, end?[name]?.rows ?? 0) - table.next)
  }

  mutating func isAsked(_ table: String, until time: MonotonicTime) {
    holes[table] = time
    tables[table]?.counts.requests += 1
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
    tables[name] = try CollectedTable("\(path)/\(name).csv", header: header, missing: missing[name] ?? 0)
  }

  // MARK: Rows

  mutating func take(_ batch: Batch) throws(CollectProblem) {
    try open(batch.table, batch.header)
    guard var table = tables[batch.table] else { return }
    isNews = true
    table.seen = max(table.seen, batch.row + batch.count)
    // What the publisher cannot send any more, or will not as it has gone.
    let isAlone = state == .offline || state == .ended
    let first = isAlone ? batch.row : batch.from
    if table.next < first, batch.row >= first {
      table.counts.missing += first - table.next
      try keep(table, batch.table)
    }
    if batch.row > table.next {
      if holes[batch.table] == nil { holes[batch.table] = .init(nanoseconds: 0) }
      tables[batch.table] = table
      return
    }
    let known = min(batch.count, table.next - batch.row)
    table.counts.duplicated += known
    if known < batch.count {
      try table.append(batch.rows(after: known), count: batch.count - known)
      holes[batch.table] = nil
    }
    tables[batch.table] = table
    try complete()
  }

  /// Writes down what is missing before any row that follows it.
  private mutating func keep(_ table: CollectedTable, _ name: String) throws(CollectProblem) {
    missing[name] = table.counts.missing
    var line = JSONLine()
    line.object { line in
      line.member("version", 1)
      line.key("missing")
      line.object { line in
        for (name, count) in missing.sorted(by: { $0.key < $1.key }) { line.member(name, count) }
      }
    }
    line.endLine()
    try replace("collect.json", with: line.octets)
  }

  private static func missing(in path: String) -> [String: Int] {
    guard let octets = try? Files.octets(of: path + "/collect.json", limit: 1 << 16),
      let document = try? JSONDocument(octets), case .object(let members)? = document["missing"]
    else { return [:] }
    return members.compactMapValues { $0.integer(Int.self) }.filter {
      (0..<Batch.rowLimit).contains($0.value)
    }
  }

  private func replace(_ name: String, with octets: [UInt8]) throws(CollectProblem) {
    do throws(SystemError) { try Files.replace("\(path)/\(name)", with: octets.span) } catch {
      throw .system(error)
    }
  }

  // MARK: The end

  mutating func take(_ end: SessionEnd) throws(CollectProblem) {
    (isComplete, isNews, receiptAt) = (false, true, nil)
    for (name, table) in end.tables { try open(name, table.header) }
    if !end.document.isEmpty { try replace(Self.documentName, with: end.document) }
    self.end = end.tables.mapValues { Told(rows: $0.rows, from: $0.from) }
    try complete()
  }

  /// Whether everything is there that the end told of; then `session.json` is, too.
  private mutating func complete() throws(CollectProblem) {
    guard let end, !isComplete else { return }
    for (name, told) in end {
      guard var table = tables[name] else { return }
      if table.next < told.from {
        table.counts.missing += told.from - table.next
        tables[name] = table
        try keep(table, name)
      }
      if table.next < told.rows {
        if holes[name] == nil { holes[name] = .init(nanoseconds: 0) }
      } else {
        holes[name] = nil
      }
    }
    guard end.allSatisfy({ tables[$0.key].map(\.next) ?? 0 >= $0.value.rows }) else { return }
    let document = "\(path)/\(Self.documentName)"
    if Files.exists(document) {
      do throws(SystemError) { try Files.rename(document, to: "\(path)/session.json") } catch {
        throw .system(error)
      }
    }
    (isComplete, isNews, receiptAt) = (true, true, nil)
  }
}
