public import BLELinux
import BLEWire
import Synchronization

/// Collects what publishers send, on a thread of its own.
public final class CollectRun: Sendable {
  public struct Plan: Sendable {
    public var broker: BrokerAddress
    /// PEM; `nil`: those certificates that the system trusts.
    public var certificates: String?
    public var directory: String
    /// Of the collector: the broker keeps for it what comes while it is away.
    public var name: String
    /// Collectors that share the publishers, each with another name; `nil`: this one has all.
    public var group: String?
    public var duration: Duration?
    /// End after so many rows.
    public var count: Int?
    /// End when so many sessions are complete.
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

  /// The end of a session is the longest: its document, the line before it, its topic.
  static let packetByteCount = Limit(
    2_105_344, "bytes of a message to a collector", by: .broker,
    whenFull:
      "an MQTT 5 broker keeps it to itself; by 3.1.1 it is read, refused, and takes its memory meanwhile",
    counted: "by the broker; by 3.1.1 a warning at the start")

  /// How long the broker keeps what is for a collector that is away: a week.
  private static let sessionSeconds = 7 * 24 * 3600
  private static let longestPause = Duration.seconds(10)
  private static let turnMilliseconds = 200
  private static let progressPeriod = Duration.milliseconds(500)
  /// While a sync runs, whose receipts a publisher may wait for, and while the last ones leave.
  private static let shortTurnMilliseconds = 10
  /// For the last receipts to leave; less after Ctrl-C. What no receipt told of is sent again, and recognised.
  private static let farewellPeriod = Duration.seconds(3)
  private static let shortFarewellPeriod = Duration.milliseconds(400)
  static let unansweredLimit = Limit(
    256, "receipts of a collector that the broker has not acknowledged", by: .broker,
    whenFull: "further ones wait: what they tell stays in the collector's sessions",
    counted: "nowhere: the next receipt has the same numbers")

  private let plan: Plan
  private let note: @Sendable (String) -> Void
  private let progress: @Sendable (Progress) -> Void
  private let hasToEnd = Atomic(false)
  private let result = OneShot<Result<CollectReport, PublishProblem>>()
  private let wake: WakeEvent
  private let begunAt = SystemClock.monotonic()

  /// - Parameters:
  ///   - plan: which broker, and where captures go.
  ///   - note: gets a line about the broker when that changes.
  ///   - progress: hears twice a second how it goes.
  public init(
    _ plan: Plan, note: @escaping @Sendable (String) -> Void, progress: @escaping @Sendable (Progress) -> Void
  ) throws(SystemError) {
    self.plan = plan
    self.note = note
    self.progress = progress
    wake = try WakeEvent()
  }

  /// Collects until there is a reason to end, or its task is cancelled.
  ///
  /// - Throws: what the broker refuses from the first, or a file that cannot be written.
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
      // Whatever came is in files, if not on the disk: the report counts it.
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
    var (pause, told) = (Duration.milliseconds(250), "")
    var version = ProtocolVersion()
    var group = plan.group.map { CollectorGroup($0, member: plan.name, below: plan.broker.prefix) }
    while !isOver(collector) {
      do throws(PublishProblem) {
        try session(&collector, &group, commits, version) {
          connections += 1
          pause = .milliseconds(250)
          note(
            told.isEmpty
              ? "collecting from \(plan.broker) into \(plan.directory)   (Ctrl-C ends)" : "connected again")
          told = ""
        }
      } catch {
        if version.fallsBack(after: error) {
          note("\(error); \(ProtocolVersion.warning)")
          continue
        }
        // Whoever starts it should see at once that it cannot work; later the broker is waited for.
        guard connections > 0, case .broker(let text) = error else { throw error }
        if told != text { note("\(text); waiting for it") }
        told = text
        guard !isOver(collector) else { break }
        _ = try commits.last(&collector, SystemClock.monotonic())
        let milliseconds =
          pause.components.seconds * 1000 + pause.components.attoseconds / 1_000_000_000_000_000
        wake.sleep(milliseconds: Int(milliseconds)) { !isEnding }
        pause = min(pause * 2, Self.longestPause)
      }
    }
  }

  private func isOver(_ collector: Collector) -> Bool {
    if isEnding { return true }
    if let duration = plan.duration, begunAt.advanced(by: duration) <= SystemClock.monotonic() { return true }
    if let count = plan.count, collector.received >= count { return true }
    return plan.sessionCount.map { collector.completeCount >= $0 } ?? false
  }

  /// One connection, to its end.
  private func session(
    _ collector: inout Collector, _ group: inout CollectorGroup?, _ commits: CollectorCommits,
    _ version: ProtocolVersion, connected: () -> Void
  ) throws(PublishProblem) {
    var options = MQTTClient.Options(
      client: "ringtap-collect-\(plan.name)", host: plan.broker.host, port: plan.broker.port,
      packetByteCount: Self.packetByteCount.count)
    options.isVersion5 = version.is5
    (options.user, options.password) = (plan.broker.user, plan.broker.password)
    (options.isEncrypted, options.certificateFile) = (plan.broker.isEncrypted, plan.certificates)
    // Of a group the others take over at once.
    options.sessionSeconds = group == nil ? Self.sessionSeconds : 0
    options.will = group.map { ($0.will.topic, $0.will.octets) }
    let client = try attempt { () throws(MQTTError) in try MQTTClient(options) }
    let intake = Intake(collector, group, commits, below: plan.broker.prefix) { self.isEnding }
    client.onMessage = { topic, payload, _ in intake.take(topic, payload) }
    defer { (collector, group) = (intake.collector, intake.group) }
    try attempt { () throws(MQTTError) in try client.connect() }
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

  /// Publishers wait for the word that all is here, and on the disk.
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
      unanswered.insert(
        try attempt { () throws(MQTTError) in try client.publish(octets.span, to: receipt.topic) })
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
            try attempt { () throws(MQTTError) in try client.subscribe(to: topic) }
          }
        }
      case .subscribed(let reason) where reason >= 0x80:
        throw .final(refusal)
      case .subscribed: break
      case .acknowledged(let message, _): unanswered.remove(message)
      case .ended(let error): throw plan.broker.problem(error, certificates: plan.certificates)
      }
    }
    if case .system(let error)? = intake.problem { throw .system(error) }
    if intake.isConnected, let actions = intake.group?.decide(SystemClock.monotonic()) {
      try act(actions, client, intake)
    }
  }

  /// Does what the group needs.
  private func act(
    _ actions: CollectorGroup.Actions, _ client: MQTTClient, _ intake: Intake
  ) throws(PublishProblem) {
    try attempt { () throws(MQTTError) in
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
  }

  private var refusal: String {
    "the broker refuses the subscription to \(plan.broker.prefix)/#; allow it in the broker's access control"
  }

  private func attempt<Value>(_ body: () throws(MQTTError) -> Value) throws(PublishProblem) -> Value {
    do throws(MQTTError) { return try body() } catch {
      throw plan.broker.problem(error, certificates: plan.certificates)
    }
  }
}

/// Where messages arrive within a turn of the connection. For one thread.
private final class Intake {
  var collector: Collector
  /// Whose publishers are collected.
  var group: CollectorGroup?
  let commits: CollectorCommits
  private let prefix: String
  private let isEnding: () -> Bool
  var isConnected = false
  /// A file cannot be written.
  private(set) var problem: CollectProblem?

  init(
    _ collector: Collector, _ group: CollectorGroup?, _ commits: CollectorCommits, below prefix: String,
    isEnding: @escaping () -> Bool
  ) {
    (self.collector, self.group, self.commits, self.prefix) = (collector, group, commits, prefix)
    self.isEnding = isEnding
  }

  func take(_ topic: String, _ payload: Span<UInt8>) {
    // No receipt tells of what follows: it is sent again. After Ctrl-C a thousand messages may be on their way.
    guard problem == nil, !isEnding(), isOurs(topic, payload) else { return }
    do throws(CollectProblem) { try collector.take(topic, payload, SystemClock.monotonic()) } catch {
      problem = error
      return
    }
    do throws(PublishProblem) { try commits.holdBack(&collector) } catch {
      if case .system(let error) = error { problem = .system(error) }
    }
  }

  /// Whether this collector is to have it; of a group each has its own.
  private func isOurs(_ topic: String, _ payload: Span<UInt8>) -> Bool {
    guard group != nil else { return true }
    if group?.take(topic, payload) == true { return false }
    guard let place = FleetTopic(topic, below: prefix) else { return true }
    if case .status(let publisher) = place { group?.take(publisher, status: payload) }
    return group?.owned.contains(place.publisher) ?? true
  }
}
