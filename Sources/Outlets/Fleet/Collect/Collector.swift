import BLELinux
package import BLEWire

/// Converts messages of publishers to capture directories, `DIR/PUBLISHER/SESSION`, without network I/O.
///
/// The input comes from the network: names are validated before they become paths, and all sizes and counts
/// are limited.
package struct Collector {
  /// First interval between requests to resend a table's rows. After each request without a result, the
  /// interval doubles, up to `longestRequestPeriod`.
  static let requestPeriod = Duration.seconds(1)
  static let longestRequestPeriod = Duration.seconds(30)
  /// Interval between receipts that only update the number of rows.
  static let receiptPeriod = Duration.seconds(1)

  let directory: String
  let prefix: String
  let name: String
  package private(set) var refusals = Refusals()
  private var sessions: HeldSessions
  /// Sessions that may need a receipt.
  private var pending: Set<SessionName> = []
  /// Sessions that may have unsynced data.
  private var unsynced: Set<SessionName> = []
  private var unsyncedFolders: Set<String> = []

  struct SessionName: Hashable, Comparable, Sendable {
    var publisher: String
    var session: String

    static func < (a: SessionName, b: SessionName) -> Bool {
      (a.publisher, a.session) < (b.publisher, b.session)
    }
  }

  /// Number of rows written, for progress reports.
  private(set) var received = 0
  private(set) var duplicated = 0

  package init(_ directory: String, prefix: String, name: String) {
    self.init(directory, prefix: prefix, name: name, HeldSessions())
  }

  /// Creates a collector.
  ///
  /// - Parameter sessions: an empty set of sessions with the limits to apply.
  init(_ directory: String, prefix: String, name: String, _ sessions: HeldSessions) {
    self.directory = directory
    self.prefix = prefix
    self.name = name
    self.sessions = sessions
  }

  /// Number of complete sessions.
  var completeCount: Int { sessions.completeCount }
  var publisherCount: Int { sessions.publisherCount }
  /// Number of sessions and tables in memory.
  var places: Int { sessions.room.places }

  /// Returns a line about rejected messages; `nil` if no line is due.
  mutating func refusalLine(_ now: MonotonicTime) -> String? { refusals.line(now) }

  // MARK: Messages

  /// Handles a message. The next sync writes the message's rows.
  ///
  /// - Throws: only `system`, if a file cannot be written.
  package mutating func take(_ topic: String, _ payload: Span<UInt8>, _ now: MonotonicTime)
    throws(CollectProblem)
  {
    let place = FleetTopic(topic, below: prefix)
    do throws(CollectProblem) { try read(place, payload, now) } catch {
      guard case .refused(let why) = error else { throw error }
      refusals.add(
        place?.publisher, why.reason, "\(Self.printable(topic)): \(Self.printable(why.description))", now)
    }
  }

  private mutating func read(_ topic: FleetTopic?, _ payload: Span<UInt8>, _ now: MonotonicTime)
    throws(CollectProblem)
  {
    do {
      switch topic {
      case .table(let publisher, let session, let table):
        let batch = try Batch(parsing: payload, publisher: publisher, session: session, table: table)
        try take(batch, now)
      case .end(let publisher, let session):
        let end = try SessionEnd(parsing: payload, session: session)
        let name = SessionName(publisher: publisher, session: session)
        try change(name, tables: end.tables.keys, now) { session throws(CollectProblem) in
          try session.take(end)
        }
      case .status(let publisher):
        // An empty payload means that the broker has removed the retained status.
        guard !payload.isEmpty else { return }
        let status = try PublisherStatus(parsing: payload)
        let name = SessionName(publisher: publisher, session: status.session)
        try change(name, tables: [], makes: false, now) { $0.state = status.state }
      case .receipt: break
      case nil: throw Batch.Refusal("not a topic of a publisher", .topic)
      }
    } catch let error as Batch.Refusal { throw .refused(error) } catch let error as CollectProblem {
      throw error
    } catch { throw .refused(Batch.Refusal("\(error)")) }
  }

  /// Changes a session.
  ///
  /// - Parameters:
  ///   - tables: tables that the session must have room for.
  ///   - makes: whether to create a missing directory for the session.
  private mutating func change(
    _ name: SessionName, tables: some Sequence<String>, makes: Bool = true, _ now: MonotonicTime,
    _ body: (inout CollectedSession) throws(CollectProblem) -> Void
  ) throws(CollectProblem) {
    let path = "\(directory)/\(name.publisher)/\(name.session)"
    let known = sessions[name]
    let needed =
      known?.room(with: tables)
      ?? tables.reduce(CollectedSession.room(of: path)) { $0 + CollectedSession.room(ofTable: $1, in: path) }
    try sessions.makeRoom(needed, for: name, now)
    if makes { do throws(SystemError) { try Files.createDirectory(path) } catch { throw .system(error) } }
    var session = known ?? CollectedSession(path, now)
    if makes, session.tables.isEmpty {
      unsyncedFolders.formUnion([Files.folder(of: directory), directory, "\(directory)/\(name.publisher)"])
    }
    session.heardAt = now
    try body(&session)
    sessions[name] = session
    if session.isNews || !session.holes.isEmpty { pending.insert(name) }
    if session.isUnsynced {
      unsynced.insert(name)
      isSyncUrgent = isSyncUrgent || session.isSyncUrgent
    }
  }

  private mutating func take(_ batch: Batch, _ now: MonotonicTime) throws(CollectProblem) {
    let name = SessionName(publisher: batch.publisher, session: batch.session)
    let before = counts(name, batch.table)
    try change(name, tables: CollectionOfOne(batch.table), now) { session throws(CollectProblem) in
      try session.take(batch)
    }
    pendingByteCount += batch.rows.count
    let after = counts(name, batch.table)
    received += after.received - before.received
    duplicated += after.duplicated - before.duplicated
  }

  private func counts(_ name: SessionName, _ table: String) -> CollectedTable.Counts {
    sessions[name]?.tables[table]?.counts ?? CollectedTable.Counts()
  }

  // MARK: The disk

  /// Whether a publisher is waiting only for a sync.
  private(set) var isSyncUrgent = false
  var isUnsynced: Bool { !unsynced.isEmpty || !unsyncedFolders.isEmpty || !sessions.unwritten.isEmpty }
  /// Size in bytes of the rows received since the last sync started.
  private(set) var pendingByteCount = 0

  /// Starts a sync of all received data. Receipts for the data are sent after the sync has ended.
  mutating func beginSync() -> CollectorSync {
    var sync = CollectorSync(writes: sessions.takeUnwritten(), folders: unsyncedFolders)
    for name in unsynced {
      guard var session = sessions[name], session.isUnsynced else { continue }
      let (part, writes) = session.beginSync()
      sync.sessions[name] = part
      sync.writes += writes
      sessions[name] = session
    }
    (unsynced, unsyncedFolders, isSyncUrgent, pendingByteCount) = ([], [], false, 0)
    return sync
  }

  /// Ends a sync.
  ///
  /// - Parameter missing: files that no longer exist.
  mutating func endSync(_ sync: CollectorSync, missing: Set<String>) {
    for (name, part) in sync.sessions {
      guard var session = sessions[name] else { continue }
      session.endSync(part, missing: missing)
      sessions[name] = session
      if session.isNews || !session.holes.isEmpty { pending.insert(name) }
    }
  }

  /// Writes all received rows to files without syncing. Rows of a sync in progress have already been written.
  mutating func write() throws(CollectProblem) {
    do throws(SystemError) {
      for write in sessions.takeUnwritten() {
        try Files.write(write.octets.span, to: write.path, at: write.offset)
      }
      for (_, session) in sessions.all { try session.write() }
    } catch { throw .system(error) }
  }

  /// Writes and syncs all received data.
  package mutating func sync() throws(CollectProblem) {
    let sync = beginSync()
    do throws(SystemError) { endSync(sync, missing: try sync.run()) } catch { throw .system(error) }
  }

  // MARK: Receipts

  /// Returns the receipts that are due. Receipts confirm only synced rows.
  ///
  /// - Parameter limit: maximum number of receipts. The next call returns the remaining receipts.
  package mutating func receipts(_ now: MonotonicTime, limit: Int = .max) -> [(
    topic: String, octets: [UInt8]
  )] {
    var receipts: [(topic: String, octets: [UInt8])] = []
    for name in pending {
      guard receipts.count < limit else { break }
      guard var session = sessions[name], session.isNews || !session.holes.isEmpty else {
        pending.remove(name)
        continue
      }
      let holes = session.holes(now)
      let isDue = session.isNews && (session.receiptAt.map { $0 <= now } ?? true)
      guard !holes.isEmpty || isDue else { continue }
      for hole in holes { session.isAsked(hole, now) }
      session.isNews = false
      session.receiptAt = now.advanced(by: Self.receiptPeriod)
      sessions[name] = session
      let receipt = Receipt(
        session: name.session, collector: self.name, tables: session.tables.mapValues(\.synced),
        resend: holes,
        isComplete: session.isCompleteOnDisk)
      receipts.append((FleetTopic.receipt(publisher: name.publisher).text(below: prefix), receipt.octets))
    }
    return receipts
  }

  /// Returns a receipt that requests all rows of a session again, after this collector has taken the session
  /// over from a disconnected collector.
  func request(_ publisher: String, session: String) -> (topic: String, octets: [UInt8]) {
    let known = sessions[SessionName(publisher: publisher, session: session)]
    let receipt = Receipt(
      session: session, collector: name, tables: known?.tables.mapValues(\.synced) ?? [:],
      resend: [Receipt.all]
    )
    return (FleetTopic.receipt(publisher: publisher).text(below: prefix), receipt.octets)
  }

  // MARK: Texts

  package var report: CollectReport {
    var report = CollectReport(
      received: received, duplicated: duplicated, setAside: sessions.setAside,
      setAsideMissing: sessions.setAsideMissing, refusals: refusals)
    for (name, session) in sessions.all where !session.tables.isEmpty {
      var part = CollectReport.Session(
        publisher: name.publisher, session: name.session, state: session.state?.rawValue ?? "unknown",
        isComplete: session.isComplete)
      for (table, state) in session.tables.sorted(by: { $0.key < $1.key }) {
        part.tables.append(
          CollectReport.Table(
            name: table, rows: state.rows, received: state.counts.received,
            duplicated: state.counts.duplicated, missing: session.missingRows(of: table),
            requests: state.counts.requests))
      }
      report.sessions.append(part)
    }
    return report
  }

  /// Replaces control and non-ASCII bytes. The text comes from the network, and a terminal will show it.
  private static func printable(_ text: String) -> String {
    String(
      decoding: text.utf8.prefix(160).map { $0 >= 0x20 && $0 < 0x7F ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
  }
}
