public import BLELinux
import BLEWire
import Synchronization

/// Publishes a capture's directory on its own thread. A recording does not wait for the run, and the run's
/// errors do not affect the recording.
public final class PublishRun: Sendable {
  /// Broker, publisher name and limits.
  public struct Plan: Hashable, Sendable {
    public var broker: BrokerAddress
    /// PEM file of CA certificates; `nil` for the system's certificates.
    public var certificates: String?
    /// Name of the publisher; `nil` to combine the names of this machine and the device.
    public var name: String?
    /// Maximum size of the unsent rows of a table, in bytes. If a table exceeds this size, the publisher
    /// skips the oldest rows.
    public var backlogByteCount = 1 << 30
    /// After the end of the capture, time without progress after which publishing stops.
    public var patience = Duration.seconds(10)

    public init(_ broker: BrokerAddress) { self.broker = broker }
  }

  /// Maximum duration of a turn of the connection, in milliseconds.
  private static let turnMilliseconds = 200

  public let directory: String
  private let plan: Plan
  private let note: @Sendable (String) -> Void
  private let latest = Mutex<PublishReport?>(nil)
  private let outbox: Outbox

  /// Creates a run. `start()` starts it.
  ///
  /// - Parameters:
  ///   - directory: the capture's directory.
  ///   - plan: the broker and the limits.
  ///   - note: called with a line of text when the state of the broker changes.
  public init(
    _ directory: String, _ plan: Plan, note: @escaping @Sendable (String) -> Void
  ) throws(SystemError) {
    self.directory = directory
    self.plan = plan
    self.note = note
    outbox = Outbox(try WakeEvent())
  }

  /// Starts publishing. The capture's directory need not exist yet.
  public func start() throws(SystemError) {
    try outbox.start(named: "publisher") { self.main() }
  }

  /// Waits until a collector has confirmed all rows, or until progress stops. Call this after the capture has
  /// ended.
  ///
  /// - Returns: `nil` if there was nothing to publish.
  public func finish() async -> PublishReport? {
    // The thread ends by itself if there is no progress, unless it is blocked: connecting to a host that does
    // not respond may exceed the time limit.
    await outbox.finish(within: plan.patience + .seconds(2))
    return report
  }

  /// Ends the run as soon as possible. Unpublished rows remain in the directory.
  public func abandon() { outbox.abandon() }

  /// The latest report; `nil` if publishing has not started.
  public var report: PublishReport? { latest.withLock { $0 } }

  // MARK: The thread

  private var isEnding: Bool { outbox.phase != .open }

  private func main() {
    // The capture creates the file after it has identified the device.
    while !Files.exists(directory + "/session.json"), !isEnding {
      outbox.rest(milliseconds: 100, in: .open)
    }
    guard Files.exists(directory) else { return }
    do throws(PublishProblem) {
      var publisher = try Publisher(
        directory, prefix: plan.broker.prefix, name: plan.name, backlogByteCount: plan.backlogByteCount,
        now: SystemClock.monotonic())
      keep(publisher.report)
      try run(&publisher)
    } catch {
      fail(error)
    }
  }

  private func keep(_ report: PublishReport) {
    var report = report
    report.processorTime = .nanoseconds(ThreadUsage.current().processorNanoseconds)
    latest.withLock { latest in
      report.problem = report.problem ?? latest?.problem
      latest = report
    }
  }

  private func fail(_ problem: PublishProblem) {
    let text = "\(problem)"
    latest.withLock { latest in
      if latest == nil { latest = PublishReport(publisher: "", session: "") }
      latest?.problem = text
      latest?.isCapturesFault = !problem.isBrokers
    }
    note(text)
  }

  /// Connects, and reconnects, until all rows are published.
  private func run(_ publisher: inout Publisher) throws(PublishProblem) {
    var (delay, version, told) = (Outbox.RetryDelay(), ProtocolVersion(), "")
    while !publisher.isDone, !isOver(&publisher) {
      do throws(PublishProblem) {
        try session(&publisher, version) {
          delay = Outbox.RetryDelay()
          if !told.isEmpty { note("\(plan.broker): connected") }
          told = ""
        }
      } catch {
        if version.fallsBack(after: error, note) { continue }
        guard case .broker(var text) = error else {
          try? publisher.writeCursor()
          throw error
        }
        if publisher.refusal != nil { text = why(publisher, "") }
        // Count waiting rows even without a connection.
        try publisher.look(SystemClock.monotonic())
        keep(publisher.report)
        if told != text, !publisher.isDone { note("\(text); recorded rows wait in \(directory)") }
        told = text
        guard !isOver(&publisher) else { break }
        let phase: Outbox.Phase = publisher.isEnding ? .ending : .open
        outbox.rest(milliseconds: delay.next(in: phase), in: phase)
      }
    }
    try publisher.writeCursor()
    var report = publisher.report
    report.problem = publisher.isDone ? nil : why(publisher, told)
    keep(report)
  }

  private func why(_ publisher: Publisher, _ told: String) -> String {
    if !told.isEmpty { return told }
    switch publisher.refusal ?? publisher.reception {
    case .nobody:
      return "no collector is subscribed to \(plan.broker); start `ringtap collect \(plan.broker) --output "
        + "DIR`"
    case .refused(let reason, let topic):
      return
        "the broker refuses messages to \(topic) (\(MQTTClient.name(ofReason: reason)), \(reason)); allow it "
        + "in the broker's access control, or change the prefix in the URL"
    case .good where publisher.waitingByteCount == 0:
      guard let collector = publisher.report.collector else {
        return "no collector confirmed what was sent; start `ringtap collect \(plan.broker) --output DIR`"
      }
      return "\(collector) did not confirm everything; check that it runs"
    case .good: return "the time limit was reached; raise --patience, or ?patience=SECONDS in the URL of --to"
    }
  }

  /// Returns whether to stop before all rows are published.
  private func isOver(_ publisher: inout Publisher) -> Bool {
    let now = SystemClock.monotonic()
    outbox.noteProgress()
    let phase = outbox.phase
    if phase != .open { publisher.end(now) }
    if phase == .abandoned { return true }
    return publisher.isEnding && publisher.lastProgress.advanced(by: plan.patience) <= now
  }

  /// Runs one connection until it ends.
  private func session(
    _ publisher: inout Publisher, _ version: ProtocolVersion, connected: () -> Void
  ) throws(PublishProblem) {
    var options = MQTTClient.Options(
      client: "ringtap-\(publisher.cursor.session)", plan.broker, certificates: plan.certificates,
      packetByteCount: ReceivedMessages.byteCountLimit.count, version)
    options.will = publisher.will
    let client = try MQTTClient(options)
    let received = ReceivedMessages()
    client.onMessage = { _, payload, _ in received.append(payload) }
    try client.connect()
    var (isConnected, isWaiting) = (false, false)
    var reception = Publisher.Reception.good
    while !publisher.isDone, !isOver(&publisher) {
      for event in client.turn(milliseconds: try send(&publisher, client, isConnected)) {
        let now = SystemClock.monotonic()
        switch event {
        case .connected:
          isConnected = true
          publisher.connected(now)
          connected()
          try client.subscribe(to: publisher.receiptTopic)
        case .acknowledged(let message, let reason): publisher.acknowledged(message, reason: reason, now)
        // If the subscription fails, there are no receipts; the broker's acknowledgements still arrive.
        case .subscribed: break
        case .ended(let problem): throw problem
        }
      }
      for payload in received.take() { try publisher.receive(payload.span, SystemClock.monotonic()) }
      tell(&reception, publisher)
      keep(publisher.report)
      if !isWaiting, publisher.isWaiting(SystemClock.monotonic()) {
        isWaiting = true
        note(
          "\(plan.broker) has all rows; waiting for a collector to confirm them, "
            + "\(max(1, plan.patience.components.seconds)) s at most without progress")
      }
    }
    client.disconnect(publishesWill: !publisher.isDone)
  }

  /// Sends the messages that are due.
  ///
  /// - Returns: maximum time that the connection may wait, in milliseconds.
  private func send(
    _ publisher: inout Publisher, _ client: MQTTClient, _ isConnected: Bool
  ) throws(PublishProblem) -> Int {
    guard isConnected else { return Self.turnMilliseconds }
    try publisher.look(SystemClock.monotonic())
    while let outgoing = try publisher.next(SystemClock.monotonic()) {
      let octets = outgoing.octets
      let message = try client.publish(
        octets.span, to: outgoing.topic, isRetained: outgoing.isRetained)
      publisher.left(message, outgoing)
    }
    return Self.turnMilliseconds
  }

  /// Notifies the user of each change of `reception`, once.
  private func tell(_ told: inout Publisher.Reception, _ publisher: Publisher) {
    guard publisher.reception != told else { return }
    told = publisher.reception
    if told == .good {
      note("\(plan.broker): accepting rows")
    } else {
      note(why(publisher, "") + "; rows wait in \(directory)")
    }
  }
}

/// Messages received during a turn of the connection. Only one thread uses it.
final class ReceivedMessages {
  static let byteCountLimit = Limit(
    69_632, "bytes of a message to a publisher", by: .broker,
    whenFull: "an MQTT 5 broker does not forward it; with 3.1.1 it is read and ignored",
    counted: "by the broker; with 3.1.1 a warning at the start")
  private static let limit = Limit(
    256, "receipts that a publisher queues", by: .broker, whenFull: "further ones are left out",
    counted: "nowhere: the next receipt has the same numbers")
  private var payloads: [[UInt8]] = []

  func append(_ payload: Span<UInt8>) {
    guard payloads.count < Self.limit.count, payload.count <= FleetMessage.lineByteCountLimit else { return }
    payloads.append([UInt8](encoding: payload.count) { $0.append(payload) })
  }

  func take() -> [[UInt8]] {
    defer { payloads = [] }
    return payloads
  }
}

/// Result of publishing a capture.
public struct PublishReport: Hashable, Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Number of rows that a collector has in files, including rows of earlier runs.
    public var confirmed: Int
    /// Number of counted rows that no collector has confirmed.
    public var waiting: Int
  }

  public var publisher: String
  public var session: String
  /// Number of rows sent, including resent rows.
  public var sent = 0
  public var batches = 0
  /// Number of rows that the broker has acknowledged, including rows of earlier runs.
  public var acknowledged = 0
  /// Number of rows that a collector has in files, including rows of earlier runs.
  public var confirmed = 0
  public var tables: [Table] = []
  /// Whether `session.json` was too large to send.
  public var isDocumentLeftOut = false
  /// Number of rows that were skipped because the backlog was too large.
  public var skipped = 0
  /// Number of times that a table was resent from an earlier row, because a collector lacked rows.
  public var resent = 0
  public var connections = 0
  /// Name of the collector that confirmed rows; `nil` if no collector has.
  public var collector: String?
  /// Whether a collector has all rows in files.
  public var isConfirmed = false
  /// CPU time of the publisher's thread.
  public var processorTime = Duration.zero
  /// The reason why rows were not published; `nil` if all rows were published.
  public var problem: String?
  /// Whether the problem is in this capture's files, so that other captures can still be published.
  public var isCapturesFault = false

  /// Number of counted rows that no collector has confirmed.
  public var waiting: Int { tables.reduce(0) { $0 + $1.waiting } }

  init(publisher: String, session: String) {
    self.publisher = publisher
    self.session = session
  }
}
