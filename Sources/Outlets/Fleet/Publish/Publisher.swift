import BLELinux
package import BLEWire
import JSONText
import Recording

/// Decides which part of a capture to send to the broker next, without a connection or clock.
///
/// The publisher reads rows from the capture's tables each time it sends or resends them. A row counts as
/// sent when the broker has acknowledged it. A row counts as published when a collector's receipt has
/// confirmed it, because a broker may lose an acknowledged message.
package struct Publisher {
  /// Maximum number of batches that the broker has not acknowledged.
  static let inFlightLimit = 16
  /// Interval between checks for new rows in the tables.
  static let lookPeriod = Duration.seconds(1)
  static let statusPeriod = Duration.seconds(10)
  /// Interval between writes of the cursor. If a run is killed, the next run resends the rows confirmed since
  /// the last write. A longer interval wakes a memory card less often.
  static let cursorPeriod = Duration.seconds(30)
  /// Pause after the broker has reported that there are no subscribers, or has rejected a message.
  static let pausePeriod = Duration.seconds(1)
  /// Time without a receipt after which the user is notified.
  static let silencePeriod = Duration.seconds(2)
  /// Minimum interval between responses to a collector's resend requests.
  static let rewindPeriod = Duration.milliseconds(500)

  private static let rewindLimit = Limit(
    16, "resends by a publisher without progress",
    by: .broker,
    whenFull: "it ends after its patience time", counted: "exit status 4; `resent` of `publish`")

  /// A message to send, and the meaning of its acknowledgement.
  package struct Outgoing: Sendable {
    enum Purpose: Hashable, Sendable {
      case batch(table: String, end: TableFollower.Position, generation: Int)
      case end
      case status(PublisherStatus.State)
    }

    package var topic: String
    package var octets: [UInt8]
    var isRetained = false
    var purpose: Purpose
  }

  /// The broker's response to messages.
  enum Reception: Hashable, Sendable {
    case good
    /// The broker accepts messages, but there are no subscribers.
    case nobody
    /// The broker rejects messages.
    case refused(reason: Int, topic: String)
  }

  let directory: String
  let prefix: String
  let backlogByteCount: Int
  private(set) var cursor: PublishCursor
  package private(set) var report: PublishReport
  private(set) var reception = Reception.good
  /// The last rejection since the broker accepted a batch. The broker may end the connection at the same
  /// time.
  private(set) var refusal: Reception?
  /// Whether only one message is sent at a time, until the broker accepts a batch. Otherwise the response
  /// could be lost if the broker rejects a message and ends the connection.
  private var isProbing = true
  private(set) var lastProgress: MonotonicTime
  private var tables: [TableFollower] = []
  private var turn = 0
  private var inFlight: [Int: Outgoing.Purpose] = [:]
  private var pausedUntil: MonotonicTime
  private var lookAt: MonotonicTime
  private var statusAt: MonotonicTime
  private var cursorAt: MonotonicTime
  private var writtenCursor: PublishCursor?
  private var rewoundAt: MonotonicTime?
  /// The highest number of confirmed rows.
  private var confirmedMost = 0
  /// Number of rewinds of tables since `confirmedMost` was reached.
  private var rewinds = 0
  private var device: String?

  /// The steps after the end of the capture.
  private enum Ending: Hashable {
    case no, rows, end, receipt(since: MonotonicTime), status, done
  }
  private var ending = Ending.no

  /// Creates a publisher for a capture's directory.
  ///
  /// - Parameter name: name of the publisher; `nil` for the name of an earlier run, otherwise a name made of
  ///   the names of this machine and the device.
  /// - Throws: `damaged` if `publish.json` is invalid; `system` if it cannot be written.
  package init(
    _ directory: String, prefix: String, name: String?, backlogByteCount: Int, now: MonotonicTime
  ) throws(PublishProblem) {
    self.directory = directory
    self.prefix = prefix
    self.backlogByteCount = backlogByteCount
    device = (try? SessionDocument.read(in: directory))?["device"]?["address"]?.text
    let earlier = try PublishCursor.read(in: directory)
    cursor =
      earlier
      ?? PublishCursor(
        session: PublishCursor.newSession(), publisher: name ?? Self.name(of: directory, device: device))
    if let name { cursor.publisher = name }
    cursor.isComplete = false
    report = PublishReport(publisher: cursor.publisher, session: cursor.session)
    (pausedUntil, lookAt, statusAt, cursorAt, lastProgress) = (now, now, now, now, now)
    try look(now)
    // The cursor must be stored before any message of the session is sent.
    try writeCursor()
  }

  /// Returns a name made of the names of this machine and the device, such as `ward-3-70-CB-0D-00-A1-B2`. If
  /// the device is unknown, the directory's name replaces the device's name.
  private static func name(of directory: String, device: String?) -> String {
    let path = Files.absolute(directory) ?? directory
    let part = device ?? path.split(separator: "/").last.map(String.init) ?? "capture"
    return FleetName.made(of: "\(ProcessFacts.hostName)-\(part)")
  }

  /// The last will: the message that the broker publishes if the connection is lost.
  var will: (topic: String, octets: [UInt8]) {
    let status = PublisherStatus(state: .offline, session: cursor.session, device: device)
    return (FleetTopic.status(publisher: cursor.publisher).text(below: prefix), status.octets)
  }

  var receiptTopic: String { FleetTopic.receipt(publisher: cursor.publisher).text(below: prefix) }
  var isDone: Bool { ending == .done }
  var isEnding: Bool { ending != .no }
  /// Whether the broker has acknowledged all known rows.
  var isDrained: Bool { tables.allSatisfy(\.isDrained) }
  var waitingByteCount: Int { tables.reduce(0) { $0 + $1.waitingByteCount } }

  // MARK: Rows

  /// Checks for new rows and new tables, if a check is due.
  package mutating func look(_ now: MonotonicTime) throws(PublishProblem) {
    guard now >= lookAt else { return }
    lookAt = now.advanced(by: Self.lookPeriod)
    let known = Set(tables.map(\.name))
    for file in Files.names(in: directory).sorted() where file.hasSuffix(".csv") {
      let name = String(file.dropLast(4))
      guard FleetTopic.isTable(name), !known.contains(name), tables.count < SessionEnd.tableLimit.count else {
        continue
      }
      guard let table = try TableFollower(name, in: directory, cursor.tables[name]) else { continue }
      tables.append(table)
    }
    for index in tables.indices {
      try tables[index].look()
      try tables[index].bound(byteCount: backlogByteCount)
    }
    tellTables()
    confirmedMost = max(confirmedMost, confirmedRows)
    if now >= cursorAt { try writeCursor(now) }
  }

  private var confirmedRows: Int { tables.reduce(0) { $0 + $1.confirmed.row } }

  private mutating func tellTables() {
    report.skipped = tables.reduce(0) { $0 + $1.skipped }
    report.confirmed = confirmedRows - report.skipped
    report.tables = tables.map {
      PublishReport.Table(
        name: $0.name, confirmed: $0.confirmed.row - $0.skipped, waiting: $0.unconfirmedRows)
    }
  }

  /// Stores the position after the rows that a collector has confirmed. First syncs these rows of the tables,
  /// so that the cursor never points past the synced end of a file.
  mutating func writeCursor(_ now: MonotonicTime? = nil) throws(PublishProblem) {
    for table in tables { cursor.tables[table.name] = table.cursor }
    if let now { cursorAt = now.advanced(by: Self.cursorPeriod) }
    guard cursor != writtenCursor else { return }
    do throws(SystemError) {
      _ = try Files.sync(files: tables.map(\.path), folders: [])
      try cursor.write(in: directory)
    } catch { throw .system(error) }
    writtenCursor = cursor
  }

  /// Marks the end of the capture: no further rows are recorded.
  package mutating func end(_ now: MonotonicTime) {
    guard ending == .no else { return }
    ending = .rows
    (lookAt, lastProgress) = (now, now)
  }

  // MARK: The connection

  /// Resets the state for a new connection. Messages that were not acknowledged on the previous connection
  /// are sent again.
  package mutating func connected(_ now: MonotonicTime) {
    for index in tables.indices { tables[index].takeBack() }
    inFlight = [:]
    report.connections += 1
    statusAt = now
    reception = .good
    isProbing = true
    pausedUntil = now
    if case .receipt = ending { ending = .rows }
    if ending == .end || ending == .status { ending = .rows }
  }

  /// Returns the next message; `nil` if no message is due.
  package mutating func next(_ now: MonotonicTime) throws(PublishProblem) -> Outgoing? {
    guard now >= pausedUntil, ending != .done else { return nil }
    if now >= statusAt {
      statusAt = now.advanced(by: Self.statusPeriod)
      return message(.online)
    }
    guard inFlight.count < (reception == .good && !isProbing ? Self.inFlightLimit : 1) else { return nil }
    if let batch = try nextBatch() { return batch }
    return nextOfEnd(now)
  }

  private mutating func nextBatch() throws(PublishProblem) -> Outgoing? {
    for step in tables.indices {
      let index = (turn + step) % tables.count
      guard let cut = try tables[index].next() else { continue }
      turn = index + 1
      let table = tables[index]
      let batch = Batch(
        publisher: cursor.publisher, session: cursor.session, table: table.name, header: table.header,
        row: cut.row,
        count: cut.count, from: table.from, rows: cut.rows)
      report.sent += cut.count
      report.batches += 1
      let topic = FleetTopic.table(publisher: cursor.publisher, session: cursor.session, table: table.name)
      return Outgoing(
        topic: topic.text(below: prefix), octets: batch.octets,
        purpose: .batch(table: table.name, end: cut.end, generation: cut.generation))
    }
    return nil
  }

  private mutating func nextOfEnd(_ now: MonotonicTime) -> Outgoing? {
    if case .receipt = ending {
      guard report.isConfirmed else { return nil }
      ending = .status
      return message(.ended)
    }
    guard ending == .rows, isDrained, inFlight.isEmpty else { return nil }
    ending = .end
    var message = SessionEnd(session: cursor.session, tables: [:], document: [])
    for table in tables {
      message.tables[table.name] = SessionEnd.Table(
        header: table.header, rows: table.acknowledged.row, from: table.from)
    }
    message.document = document(besides: message.octets.count)
    report.isDocumentLeftOut = message.document.isEmpty && Files.exists(directory + "/session.json")
    let topic = FleetTopic.end(publisher: cursor.publisher, session: cursor.session)
    return Outgoing(topic: topic.text(below: prefix), octets: message.octets, purpose: .end)
  }

  /// Returns whether all rows have been sent, but no receipt has arrived for a while.
  func isWaiting(_ now: MonotonicTime) -> Bool {
    guard case .receipt(let since) = ending, !report.isConfirmed else { return false }
    return since.advanced(by: Self.silencePeriod) <= now
  }

  /// Returns the contents of `session.json`; empty if the file is missing, invalid or too large for the
  /// message.
  private func document(besides line: Int) -> [UInt8] {
    let path = directory + "/session.json"
    guard let octets = try? Files.octets(of: path, limit: SessionEnd.documentByteCountLimit.count - line),
      (try? JSONDocument(octets)) != nil
    else { return [] }
    return octets
  }

  private func message(_ state: PublisherStatus.State) -> Outgoing {
    Outgoing(
      topic: FleetTopic.status(publisher: cursor.publisher).text(below: prefix), octets: status(state).octets,
      isRetained: true, purpose: .status(state))
  }

  private func status(_ state: PublisherStatus.State) -> PublisherStatus {
    var status = PublisherStatus(state: state, session: cursor.session, device: device)
    status.counts = PublisherStatus.Counts(
      time: SystemClock.now(), rows: tables.reduce(0) { $0 + $1.sent.row },
      acknowledged: tables.reduce(0) { $0 + $1.acknowledged.row }, skipped: report.skipped)
    return status
  }

  // MARK: Answers

  /// Records that a message was sent, and its number.
  package mutating func left(_ message: Int, _ outgoing: Outgoing) { inFlight[message] = outgoing.purpose }

  /// Handles the broker's acknowledgement. The reason is 0, 0x10 if there are no subscribers, or an error
  /// (MQTT 5.0, 3.4.2.1).
  package mutating func acknowledged(_ message: Int, reason: Int, _ now: MonotonicTime) {
    guard let purpose = inFlight.removeValue(forKey: message) else { return }
    switch purpose {
    case .status(.ended): (ending, cursor.isComplete) = (.done, true)
    // The broker retains the message for later subscribers.
    case .status: break
    case .batch(let name, let end, let generation):
      guard reason == 0 else { return hold(reason, name, now) }
      (reception, refusal, isProbing) = (.good, nil, false)
      // Repeated requests for the same rows must not count as progress, so that the publisher can end.
      if rewinds <= Self.rewindLimit.count { lastProgress = now }
      guard let index = tables.firstIndex(where: { $0.name == name }) else { return }
      tables[index].acknowledge(end, generation)
      report.acknowledged = tables.reduce(0) { $0 + $1.acknowledged.row }
      tellTables()
    case .end:
      guard reason == 0 else {
        if ending == .end { ending = .rows }
        return hold(reason, "end", now)
      }
      (reception, refusal, isProbing) = (.good, nil, false)
      if rewinds <= Self.rewindLimit.count { lastProgress = now }
      if ending == .end { ending = .receipt(since: now) }
    }
  }

  /// Pauses sending. Rows wait in their tables until there is a subscriber.
  private mutating func hold(_ reason: Int, _ table: String, _ now: MonotonicTime) {
    let topic = "\(prefix)/\(cursor.publisher)/\(cursor.session)/\(table)"
    reception = reason == 0x10 ? .nobody : .refused(reason: reason, topic: topic)
    if case .refused = reception { refusal = reception }
    pausedUntil = now.advanced(by: Self.pausePeriod)
    for index in tables.indices { tables[index].takeBack() }
  }

  /// Handles a collector's receipt: the number of rows that the collector has, and the tables to resend.
  package mutating func receive(_ payload: Span<UInt8>, _ now: MonotonicTime) throws(PublishProblem) {
    guard let receipt = try? Receipt(parsing: payload), receipt.session == cursor.session else { return }
    report.collector = receipt.collector
    confirm(receipt, now)
    guard !receipt.resend.isEmpty, rewoundAt.map({ $0.advanced(by: Self.rewindPeriod) <= now }) ?? true else {
      return
    }
    // A collector that has taken over from a disconnected collector has no tables yet.
    let isAll = receipt.resend.contains(Receipt.all)
    for index in tables.indices where isAll || receipt.resend.contains(tables[index].name) {
      guard let rows = receipt.tables[tables[index].name] ?? (isAll ? 0 : nil) else { continue }
      if try tables[index].rewind(to: rows) {
        rewoundAt = now
        report.resent += 1
        rewinds += 1
      }
    }
    tellTables()
    report.isConfirmed = false
    // Send the end-of-session message again after the resent rows.
    if case .receipt = ending { ending = .rows }
  }

  private mutating func confirm(_ receipt: Receipt, _ now: MonotonicTime) {
    for index in tables.indices {
      if let rows = receipt.tables[tables[index].name] { tables[index].confirm(rows) }
    }
    tellTables()
    if confirmedRows > confirmedMost { (confirmedMost, rewinds, lastProgress) = (confirmedRows, 0, now) }
    // An older receipt may refer to an earlier end-of-session message.
    guard receipt.isComplete, tables.allSatisfy({ receipt.tables[$0.name] ?? 0 >= $0.sent.row }) else {
      return
    }
    switch ending {
    case .end, .receipt: report.isConfirmed = true
    default: break
    }
  }
}
