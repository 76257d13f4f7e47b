public import BLELinux
import BLEWire
package import JSONText
import Synchronization

/// Collects the messages of publishers on its own thread.
public final class CollectRun: Sendable {
  public struct Plan: Sendable {
    public var broker: BrokerAddress
    /// PEM file of CA certificates; `nil` for the system's certificates.
    public var certificates: String?
    public var directory: String
    /// Name of the collector. The broker queues messages for this name while the collector is disconnected.
    public var name: String
    /// Name of a group of collectors that share the publishers. Each collector needs its own `name`. `nil` if
    /// this collector handles all publishers.
    public var group: String?
    public var duration: Duration?
    /// Number of rows after which the run ends; `nil` for no limit.
    public var count: Int?
    /// Number of complete sessions after which the run ends; `nil` for no limit.
    public var sessionCount: Int?

    public init(_ broker: BrokerAddress, into directory: String, name: String) {
      self.broker = broker
      self.directory = directory
      self.name = name
    }
  }

  public struct Progress: Sendable {
    public var elapsed: Duration
    public var publishers: Int
    public var received: Int
    public var duplicated: Int
  }

  /// Maximum size of an MQTT packet. The largest message is the end of a session: a line, the document, and
  /// the topic.
  static let packetByteCount = Limit(
    2_105_344, "bytes of a message to a collector", by: .broker,
    whenFull:
      "an MQTT 5 broker does not forward it; with 3.1.1 it is read into memory and refused",
    counted: "by the broker; with 3.1.1 a warning at the start")

  /// Time for which the broker queues messages for a disconnected collector, in seconds: one week.
  private static let sessionSeconds = 7 * 24 * 3600
  private static let turnMilliseconds = 200
  private static let progressPeriod = Duration.milliseconds(500)
  /// Maximum duration of a turn in milliseconds, while a publisher may be waiting for a sync, and while the
  /// last receipts are sent.
  private static let shortTurnMilliseconds = 10
  /// Time limit for sending the last receipts. Without a receipt, a publisher resends rows, and the collector
  /// detects the duplicates.
  private static let farewellPeriod = Duration.seconds(3)
  /// Time limit for sending the last receipts after Ctrl-C.
  private static let shortFarewellPeriod = Duration.milliseconds(400)
  private static let unansweredLimit = Limit(
    256, "receipts of a collector that the broker has not acknowledged", by: .broker,
    whenFull: "further ones wait: the collector's sessions keep their contents",
    counted: "nowhere: the next receipt has the same numbers")

  private let plan: Plan
  private let note: @Sendable (String) -> Void
  private let progress: @Sendable (Progress) -> Void
  private let hasToEnd = Atomic(false)
  private let result = OneShot<Result<CollectReport, PublishProblem>>()
  private let wake: WakeEvent
  private let begunAt = SystemClock.monotonic()

  /// Creates a run. `run()` starts it.
  ///
  /// - Parameters:
  ///   - plan: the broker and the directory for captures.
  ///   - note: called with a line of text when the state of the broker changes.
  ///   - progress: called twice per second.
  public init(
    _ plan: Plan, note: @escaping @Sendable (String) -> Void, progress: @escaping @Sendable (Progress) -> Void
  ) throws(SystemError) {
    self.plan = plan
    self.note = note
    self.progress = progress
    wake = try WakeEvent()
  }

  /// Collects until a limit of the plan is reached or its task is cancelled.
  ///
  /// - Throws: an error if the broker rejects the first connection, or if a file cannot be written.
  public func run() async throws(PublishProblem) -> CollectReport {
    do throws(SystemError) {
      try Files.createDirectory(plan.directory)
      try SystemThread.start(named: "collector") { self.main() }
    } catch { throw .system(error) }
    let result = await withTaskCancellationHandler {
      await self.result.value()
    } onCancel: {
      hasToEnd.store(true, ordering: .sequentiallyConsistent)
      wake.interrupt()
    }
    return try result.get()
  }

  // MARK: The thread

  private var isEnding: Bool { hasToEnd.load(ordering: .sequentiallyConsistent) }

  private func main() {
    var collector = Collector(plan.directory, prefix: plan.broker.prefix, name: plan.name)
    var connections = 0
    do throws(PublishProblem) {
      let disk: CollectorDisk
      do throws(SystemError) { disk = try CollectorDisk() } catch { throw .system(error) }
      defer { disk.end() }
      let ended = Result { () throws(PublishProblem) in
        try run(&collector, CollectorCommits(disk), &connections)
      }
      // The report counts all received rows, so wait until they are in files, even if not yet synced.
      disk.waitForWrites()
      do throws(CollectProblem) { try collector.write() } catch {
        if case .system(let error) = error { throw PublishProblem.system(error) }
      }
      try ended.get()
      var report = collector.report
      report.connections = connections
      result.set(.success(report))
    } catch { result.set(.failure(error)) }
  }

  private func run(
    _ collector: inout Collector, _ commits: CollectorCommits, _ connections: inout Int
  ) throws(PublishProblem) {
    var (delay, version, told) = (Outbox.RetryDelay(), ProtocolVersion(), "")
    var group = plan.group.map { CollectorGroup($0, member: plan.name, below: plan.broker.prefix) }
    while !isOver(collector) {
      do throws(PublishProblem) {
        try session(&collector, &group, commits, version) {
          connections += 1
          delay = Outbox.RetryDelay()
          note(
            told.isEmpty
              ? "collecting from \(plan.broker) into \(plan.directory)   (Ctrl-C ends)" : "connected again")
          told = ""
        }
      } catch {
        if version.fallsBack(after: error, note) { continue }
        // If the first connection fails, throw the error, so that the user sees it. Retry later connections.
        guard connections > 0, case .broker(let text) = error else { throw error }
        if told != text { note("\(text); waiting for it") }
        told = text
        guard !isOver(collector) else { break }
        _ = try commits.last(&collector, SystemClock.monotonic())
        wake.sleep(milliseconds: delay.next(in: .open)) { !isEnding }
      }
    }
  }

  private func isOver(_ collector: Collector) -> Bool {
    if isEnding { return true }
    if let duration = plan.duration, begunAt.advanced(by: duration) <= SystemClock.monotonic() { return true }
    if let count = plan.count, collector.received >= count { return true }
    return plan.sessionCount.map { collector.completeCount >= $0 } ?? false
  }

  /// Runs one connection until it ends.
  private func session(
    _ collector: inout Collector, _ group: inout CollectorGroup?, _ commits: CollectorCommits,
    _ version: ProtocolVersion, connected: () -> Void
  ) throws(PublishProblem) {
    var options = MQTTClient.Options(
      client: "ringtap-collect-\(plan.name)", plan.broker, certificates: plan.certificates,
      packetByteCount: Self.packetByteCount.count, version)
    // In a group the broker need not queue messages, because another collector takes over at once.
    options.sessionSeconds = group == nil ? Self.sessionSeconds : 0
    options.will = group.map { ($0.will.topic, $0.will.octets) }
    let client = try MQTTClient(options)
    let intake = Intake(collector, group, commits, below: plan.broker.prefix) { self.isEnding }
    client.onMessage = { topic, payload, _ in intake.take(topic, payload) }
    defer { (collector, group) = (intake.collector, intake.group) }
    try client.connect()
    var unanswered: Set<Int> = []
    var progressAt = SystemClock.monotonic()
    while !isOver(intake.collector) {
      try turn(client, intake, &unanswered, connected)
      let now = SystemClock.monotonic()
      if let line = intake.collector.refusalLine(now) { note(line) }
      guard now >= progressAt else { continue }
      progressAt = now.advanced(by: Self.progressPeriod)
      progress(
        Progress(
          elapsed: begunAt.duration(to: now), publishers: intake.collector.publisherCount,
          received: intake.collector.received, duplicated: intake.collector.duplicated))
    }
    try sayFarewell(client, intake, &unanswered, connected)
    client.disconnect(publishesWill: intake.group != nil)
  }

  /// Sends the last receipts, which confirm to publishers that their rows are on the disk.
  private func sayFarewell(
    _ client: MQTTClient, _ intake: Intake, _ unanswered: inout Set<Int>, _ connected: () -> Void
  ) throws(PublishProblem) {
    let begunAt = SystemClock.monotonic()
    var hasBegun = false
    while true {
      if !hasBegun { hasBegun = try intake.commits.last(&intake.collector, SystemClock.monotonic()) }
      try turn(client, intake, &unanswered, milliseconds: Self.shortTurnMilliseconds, connected)
      let isWaiting = !hasBegun || intake.commits.isBusy || intake.collector.isSyncUrgent
      guard isWaiting || !unanswered.isEmpty else { return }
      let period = isEnding ? Self.shortFarewellPeriod : Self.farewellPeriod
      guard SystemClock.monotonic() < begunAt.advanced(by: period) else { return }
    }
  }

  private func turn(
    _ client: MQTTClient, _ intake: Intake, _ unanswered: inout Set<Int>,
    milliseconds: Int = turnMilliseconds, _ connected: () -> Void
  ) throws(PublishProblem) {
    let now = SystemClock.monotonic()
    try intake.commits.turn(&intake.collector, now)
    let room = Self.unansweredLimit.count - unanswered.count
    for receipt in intake.isConnected && room > 0 ? intake.collector.receipts(now, limit: room) : [] {
      let octets = receipt.octets
      unanswered.insert(try client.publish(octets.span, to: receipt.topic))
    }
    let wait = intake.commits.isBusy ? min(milliseconds, Self.shortTurnMilliseconds) : milliseconds
    for event in client.turn(milliseconds: wait) {
      switch event {
      case .connected:
        intake.isConnected = true
        connected()
        if let actions = intake.group?.connected(SystemClock.monotonic()) {
          try act(actions, client, intake)
        } else {
          for topic in FleetTopic.collected(below: plan.broker.prefix) {
            try client.subscribe(to: topic)
          }
        }
      case .subscribed(let reason) where reason >= 0x80:
        throw .final(refusal)
      case .subscribed: break
      case .acknowledged(let message, _): unanswered.remove(message)
      case .ended(let problem): throw problem
      }
    }
    if case .system(let error)? = intake.problem { throw .system(error) }
    if intake.isConnected, let actions = intake.group?.decide(SystemClock.monotonic()) {
      try act(actions, client, intake)
    }
  }

  /// Performs the actions that the group has returned.
  private func act(
    _ actions: CollectorGroup.Actions, _ client: MQTTClient, _ intake: Intake
  ) throws(PublishProblem) {
    for message in actions.messages {
      _ = try client.publish(message.octets.span, to: message.topic, isRetained: true)
    }
    for topic in actions.unsubscribe { try client.unsubscribe(from: topic) }
    for topic in actions.subscribe { try client.subscribe(to: topic) }
    for (publisher, session) in actions.taken.sorted(by: { $0.key < $1.key }) {
      let request = intake.collector.request(publisher, session: session)
      _ = try client.publish(request.octets.span, to: request.topic)
    }
  }

  private var refusal: String {
    "the broker refuses the subscription to \(plan.broker.prefix)/#; allow it in the broker's access control"
  }
}

/// Receives messages during a turn of the connection. Only one thread uses it.
private final class Intake {
  var collector: Collector
  /// The collector group; `nil` if this collector handles all publishers.
  var group: CollectorGroup?
  let commits: CollectorCommits
  private let prefix: String
  private let isEnding: () -> Bool
  var isConnected = false
  /// The error of a file that could not be written; `nil` if there was none.
  private(set) var problem: CollectProblem?

  init(
    _ collector: Collector, _ group: CollectorGroup?, _ commits: CollectorCommits, below prefix: String,
    isEnding: @escaping () -> Bool
  ) {
    (self.collector, self.group, self.commits, self.prefix) = (collector, group, commits, prefix)
    self.isEnding = isEnding
  }

  func take(_ topic: String, _ payload: Span<UInt8>) {
    // A message that arrives from now on gets no receipt, so its publisher resends it. After Ctrl-C, a
    // thousand messages may still be in flight.
    guard problem == nil, !isEnding(), isOurs(topic, payload) else { return }
    do throws(CollectProblem) { try collector.take(topic, payload, SystemClock.monotonic()) } catch {
      problem = error
      return
    }
    do throws(PublishProblem) { try commits.holdBack(&collector) } catch {
      if case .system(let error) = error { problem = .system(error) }
    }
  }

  /// Returns whether this collector must handle the message. In a group, each collector has its own
  /// publishers.
  private func isOurs(_ topic: String, _ payload: Span<UInt8>) -> Bool {
    guard group != nil else { return true }
    if group?.take(topic, payload) == true { return false }
    guard let place = FleetTopic(topic, below: prefix) else { return true }
    if case .status(let publisher) = place { group?.take(publisher, status: payload) }
    return group?.owned.contains(place.publisher) ?? true
  }
}

/// Result of a collection.
public struct CollectReport: Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Number of rows in the file.
    public var rows: Int
    /// Number of rows written by this run.
    public var received: Int
    /// Number of rows that were received again and dropped.
    public var duplicated: Int
    /// Number of rows that are known to exist but are not in the file.
    public var missing: Int
    /// Number of requests to the publisher to resend rows.
    public var requests: Int
  }

  public struct Session: Hashable, Sendable {
    public var publisher: String
    public var session: String
    /// State of the publisher: `online`, `offline`, `ended` or `unknown`.
    public var state: String
    /// Whether all rows of the publisher have been collected.
    public var isComplete: Bool
    public var tables: [Table] = []

    public var rows: Int { tables.reduce(0) { $0 + $1.rows } }
    public var received: Int { tables.reduce(0) { $0 + $1.received } }
    public var duplicated: Int { tables.reduce(0) { $0 + $1.duplicated } }
    public var missing: Int { tables.reduce(0) { $0 + $1.missing } }
  }

  /// Sessions that are still in memory. The totals also include sessions that were removed from memory.
  public var sessions: [Session] = []
  public var received: Int
  public var duplicated: Int
  /// Number of times that a session was set aside, which means that it was removed from memory while its
  /// files remain.
  public var setAside: Int
  /// Number of missing rows in sessions that were set aside.
  public var setAsideMissing: Int
  /// Counts of rejected messages: invalid messages, and messages of a publisher that exceeded its share.
  package var refusals: Refusals
  public var connections = 0

  public var refused: Int { refusals.count }
  public var missing: Int { sessions.reduce(setAsideMissing) { $0 + $1.missing } }

  init(received: Int, duplicated: Int, setAside: Int, setAsideMissing: Int, refusals: Refusals) {
    (self.received, self.duplicated) = (received, duplicated)
    (self.setAside, self.setAsideMissing) = (setAside, setAsideMissing)
    self.refusals = refusals
  }

  /// Encodes the report as one JSON object with a line feed.
  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("received", received)
      line.member("duplicated", duplicated)
      line.member("missing", missing)
      line.member("refused", refused)
      if let last = refusals.last { line.member("lastRefusal", last) }
      line.key("refusals")
      line.array { line in
        for entry in refusals.entries { Self.encode(entry, into: &line) }
      }
      line.member("refusalsForgotten", refusals.forgotten)
      line.member("setAside", setAside)
      line.member("connections", connections)
      line.key("sessions")
      line.array { line in
        for session in sessions { Self.encode(session, into: &line) }
      }
    }
    line.endLine()
  }

  private static func encode(_ entry: Refusals.Entry, into line: inout JSONLine) {
    line.object { line in
      if let publisher = entry.publisher { line.member("publisher", publisher) }
      line.member("reason", entry.reason.rawValue)
      line.member("count", entry.count)
      line.member("last", entry.last)
    }
  }

  private static func encode(_ session: Session, into line: inout JSONLine) {
    line.object { line in
      line.member("publisher", session.publisher)
      line.member("session", session.session)
      line.member("state", session.state)
      line.member("isComplete", session.isComplete)
      line.key("tables")
      line.array { line in
        for table in session.tables {
          line.object {
            $0.member("name", table.name)
            $0.member("rows", table.rows)
            $0.member("received", table.received)
            $0.member("duplicated", table.duplicated)
            $0.member("missing", table.missing)
            $0.member("requests", table.requests)
          }
        }
      }
    }
  }
}
