package import BLECore
import BLELinux
import JSONText

/// Turns messages of publishers into capture directories, `DIR/PUBLISHER/SESSION`: without a connection.
///
/// What it gets comes from a network: names are checked before they become paths, and everything has a limit.
package struct Collector {
  static let sessionLimit = 4096
  /// From one request for a table's rows to the next: what is asked for needs its time.
  static let requestPeriod = Duration.seconds(1)
  /// From one receipt that tells no more than numbers to the next.
  static let receiptPeriod = Duration.seconds(1)

  let directory: String
  let prefix: String
  let name: String
  private(set) var refused = 0
  private(set) var lastRefusal: String?
  private var sessions: [SessionName: Session] = [:]

  struct SessionName: Hashable, Comparable, Sendable {
    var publisher: String
    var session: String

    static func < (a: SessionName, b: SessionName) -> Bool {
      (a.publisher, a.session) < (b.publisher, b.session)
    }
  }

  private struct Session {
    var tables: [String: CollectedTable] = [:]
    /// Tables with a hole, from when they may be asked for again.
    var holes: [String: MonotonicTime] = [:]
    var state: PublisherStatus.State?
    var end: SessionEnd?
    var isComplete = false
    /// Whether there is something to tell the publisher.
    var isNews = false
    var receiptAt: MonotonicTime?
    /// As in `collect.json`.
    var missing: [String: Int] = [:]
  }

  /// Rows that were written, for whoever wants to see it go on.
  private(set) var received = 0
  private(set) var duplicated = 0

  package init(_ directory: String, prefix: String, name: String) {
    self.directory = directory
    self.prefix = prefix
    self.name = name
  }

  /// Sessions of which everything is there.
  var completeCount: Int { sessions.values.count { $0.isComplete } }
  var publisherCount: Int { Set(sessions.keys.map(\.publisher)).count }

  // MARK: Messages

  /// Takes a message; what it brought is in the kernel's hands when this returns.
  ///
  /// - Throws: `system` only: a file cannot be written.
  package mutating func take(_ topic: String, _ payload: Span<UInt8>, _ now: MonotonicTime)
    throws(CollectProblem)
  {
    do throws(CollectProblem) { try read(topic, payload, now) } catch {
      guard case .refused(let why) = error else { throw error }
      refused += 1
      lastRefusal = "\(Self.printable(topic)): \(why)"
    }
  }

  private mutating func read(_ topic: String, _ payload: Span<UInt8>, _ now: MonotonicTime)
    throws(CollectProblem)
  {
    do {
      switch FleetTopic(topic, below: prefix) {
      case .table(let publisher, let session, let table):
        let batch = try Batch(parsing: payload, publisher: publisher, session: session, table: table)
        try take(batch, now)
      case .end(let publisher, let session):
        let end = try SessionEnd(parsing: payload, session: session)
        try change(SessionName(publisher: publisher, session: session)) {
          state, path throws(CollectProblem) in
          state.end = end
          (state.isComplete, state.isNews) = (false, true)
          state.receiptAt = nil
          for (name, table) in end.tables { try Self.open(name, table.header, &state, path) }
          try Self.complete(&state, path)
        }
      case .status(let publisher):
        // An empty one takes the retained status away.
        guard !payload.isEmpty else { return }
        let status = try PublisherStatus(parsing: payload)
        try change(SessionName(publisher: publisher, session: status.session), makes: false) { state, _ in
          state.state = status.state
        }
      case .receipt: break
      case nil: throw Batch.Refusal("no topic of a publisher")
      }
    } catch let error as Batch.Refusal { throw .refused(error.description) } catch let error as CollectProblem
    {
      throw error
    } catch { throw .refused("\(error)") }
  }

  private mutating func change(
    _ name: SessionName, makes: Bool = true, _ body: (inout Session, String) throws(CollectProblem) -> Void
  ) throws(CollectProblem) {
    let path = "\(directory)/\(name.publisher)/\(name.session)"
    var session: Session
    if let known = sessions[name] {
      session = known
    } else {
      guard sessions.count < Self.sessionLimit else {
        throw .refused("there are \(Self.sessionLimit) sessions already; begin another directory")
      }
      session = Session()
      if makes || Files.exists(path) {
        do throws(SystemError) { try Files.createDirectory(path) } catch { throw .system(error) }
        session.missing = Self.missing(in: path)
      }
    }
    if makes { do throws(SystemError) { try Files.createDirectory(path) } catch { throw .system(error) } }
    try body(&session, path)
    sessions[name] = session
  }

  private static func open(
    _ name: String, _ header: String, _ session: inout Session, _ path: String
  ) throws(CollectProblem) {
    if let table = session.tables[name] {
      guard table.header == header else { throw .refused("the table has other columns than before") }
      return
    }
    guard session.tables.count < SessionEnd.tableLimit else {
      throw .refused("too many tables in one session")
    }
    session.tables[name] = try CollectedTable(
      "\(path)/\(name).csv", header: header, missing: session.missing[name] ?? 0)
  }

  // MARK: Rows

  private mutating func take(_ batch: Batch, _ now: MonotonicTime) throws(CollectProblem) {
    let name = SessionName(publisher: batch.publisher, session: batch.session)
    let before = counts(name, batch.table)
    try change(name) { session, path throws(CollectProblem) in
      try Self.open(batch.table, batch.header, &session, path)
      session.isNews = true
      try Self.take(batch, &session, path)
    }
    let after = counts(name, batch.table)
    received += after.received - before.received
    duplicated += after.duplicated - before.duplicated
  }

  private func counts(_ name: SessionName, _ table: String) -> CollectedTable.Counts {
    sessions[name]?.tables[table]?.counts ?? CollectedTable.Counts()
  }

  private static func take(
    _ batch: Batch, _ session: inout Session, _ path: String
  ) throws(CollectProblem) {
    guard var table = session.tables[batch.table] else { return }
    table.seen = max(table.seen, batch.row + batch.count)
    // What the publisher cannot send any more, or will not as it has gone.
    let isAlone = session.state == .offline || session.state == .ended
    let first = isAlone ? batch.row : batch.from
    if table.next < first, batch.row >= first {
      table.counts.missing += first - table.next
      try keep(table, batch.table, &session, path)
    }
    if batch.row > table.next {
      if session.holes[batch.table] == nil { session.holes[batch.table] = .init(nanoseconds: 0) }
      session.tables[batch.table] = table
      return
    }
    let known = min(batch.count, table.next - batch.row)
    table.counts.duplicated += known
    if known < batch.count {
      try table.append(batch.rows(after: known), count: batch.count - known)
      session.holes[batch.table] = nil
    }
    session.tables[batch.table] = table
    try complete(&session, path)
  }

  /// Writes down what is missing before any row that follows it.
  private static func keep(
    _ table: CollectedTable, _ name: String, _ session: inout Session, _ path: String
  ) throws(CollectProblem) {
    session.missing[name] = table.counts.missing
    var line = JSONLine()
    line.object { line in
      line.member("version", 1)
      line.key("missing")
      line.object { line in
        for (name, count) in session.missing.sorted(by: { $0.key < $1.key }) { line.member(name, count) }
      }
    }
    line.endLine()
    let octets = line.octets
    do throws(SystemError) { try Files.replace(path + "/collect.json", with: octets.span) } catch {
      throw .system(error)
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

  /// Whether everything is there that the end told of; then `session.json` is written.
  private static func complete(_ session: inout Session, _ path: String) throws(CollectProblem) {
    guard let end = session.end, !session.isComplete else { return }
    for (name, told) in end.tables {
      guard var table = session.tables[name] else { return }
      if table.next < told.from {
        table.counts.missing += told.from - table.next
        session.tables[name] = table
        try keep(table, name, &session, path)
      }
      if table.next < told.rows {
        if session.holes[name] == nil { session.holes[name] = .init(nanoseconds: 0) }
      } else {
        session.holes[name] = nil
      }
    }
    guard end.tables.allSatisfy({ session.tables[$0.key].map(\.next) ?? 0 >= $0.value.rows }) else { return }
    let document = end.document
    if !document.isEmpty {
      do throws(SystemError) { try Files.replace(path + "/session.json", with: document.span) } catch {
        throw .system(error)
      }
    }
    (session.isComplete, session.isNews, session.receiptAt) = (true, true, nil)
  }

  // MARK: Receipts

  /// What publishers are to hear now.
  package mutating func receipts(_ now: MonotonicTime) -> [(topic: String, octets: [UInt8])] {
    var receipts: [(topic: String, octets: [UInt8])] = []
    for name in sessions.keys {
      guard var session = sessions[name] else { continue }
      let holes = session.holes.filter { $0.value <= now }.map(\.key)
      let isDue = session.isNews && (session.receiptAt.map { $0 <= now } ?? true)
      guard !holes.isEmpty || isDue else { continue }
      for hole in holes {
        session.holes[hole] = now.advanced(by: Self.requestPeriod)
        session.tables[hole]?.counts.requests += 1
      }
      session.isNews = false
      session.receiptAt = now.advanced(by: Self.receiptPeriod)
      sessions[name] = session
      let receipt = Receipt(
        session: name.session, collector: self.name, tables: session.tables.mapValues(\.next), resend: holes,
        isComplete: session.isComplete)
      receipts.append((FleetTopic.receipt(publisher: name.publisher).text(below: prefix), receipt.octets))
    }
    return receipts
  }

  // MARK: Words

  package var report: CollectReport {
    var report = CollectReport(refused: refused, lastRefusal: lastRefusal)
    for (name, session) in sessions.sorted(by: { $0.key < $1.key }) where !session.tables.isEmpty {
      var part = CollectReport.Session(
        publisher: name.publisher, session: name.session, state: session.state?.rawValue ?? "unknown",
        isComplete: session.isComplete)
      for (table, state) in session.tables.sorted(by: { $0.key < $1.key }) {
        let lacking = max(0, max(state.seen, session.end?.tables[table]?.rows ?? 0) - state.next)
        part.tables.append(
          CollectReport.Table(
            name: table, rows: state.rows, received: state.counts.received,
            duplicated: state.counts.duplicated,
            missing: state.counts.missing + lacking, requests: state.counts.requests))
      }
      report.sessions.append(part)
    }
    return report
  }

  /// From the network onto a terminal.
  private static func printable(_ text: String) -> String {
    String(
      decoding: text.utf8.prefix(160).map { $0 >= 0x20 && $0 < 0x7F ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
  }
}
