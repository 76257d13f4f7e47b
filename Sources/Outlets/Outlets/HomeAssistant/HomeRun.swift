import BLELinux
import BLEWire
import Fleet
package import Recording
import Synchronization

/// Publishes one device to Home Assistant on its own thread. A recording does not wait for the run, and the
/// run's errors do not affect the recording.
package final class HomeRun: Sendable {
  static let packetByteCount = Limit(
    4096, "bytes of a message from Home Assistant", by: .broker,
    whenFull: "an MQTT 5 broker does not forward it; with 3.1.1 it is read and ignored",
    counted: "by the broker; with 3.1.1 a warning at the start")

  /// Maximum time between two runs of the connection's loop, in milliseconds.
  private static let turnMilliseconds = 200
  /// Time without an acknowledgement after which the user is notified.
  private static let slowness = Duration.seconds(5)
  /// Time limit for finishing.
  private static let patience = Duration.seconds(3)

  private let plan: HomePlan
  private let feed: HomeFeed
  private let client: String
  private let note: @Sendable (String) -> Void
  /// The reason why messages cannot be published; `nil` if there is no problem.
  private let trouble = Mutex<String?>(nil)
  private let outbox: Outbox

  init(
    _ device: HomeDevice, _ plan: HomePlan, note: @escaping @Sendable (String) -> Void
  ) throws(SystemError) {
    (self.plan, self.note) = (plan, note)
    feed = HomeFeed(device)
    // The client ID is fixed, so that the broker drops an earlier, broken connection at once.
    client = "ringtap-ha-" + device.digits
    outbox = Outbox(try WakeEvent())
    try outbox.start(named: "home-assistant") { self.main() }
  }

  /// The watcher for the recordings of the device, used by one recording after the other.
  package var watcher: any RecordingWatcher { feed }

  /// Publishes that the device is unavailable. Then waits until the broker has acknowledged all messages, or
  /// cannot be reached.
  ///
  /// - Returns: the reason why a message was not published; `nil` if all messages were published.
  package func finish() async -> String? {
    feed.withBoard { $0.end() }
    // Connecting to a host that does not respond may take longer than the time limit.
    await outbox.finish(within: Self.patience)
    let isSettled = feed.withBoard { $0.isSettled }
    return trouble.withLock { $0 } ?? (isSettled ? nil : "\(plan.broker) did not answer")
  }

  /// Ends the run as soon as possible.
  func abandon() { outbox.abandon() }

  // MARK: The thread

  private var isOver: Bool {
    switch outbox.phase {
    case .open: false
    case .ending: feed.withBoard { $0.isSettled }
    case .abandoned: true
    }
  }

  private func main() {
    var (delay, version) = (Outbox.RetryDelay(), ProtocolVersion())
    repeat {
      do throws(PublishProblem) {
        try session(version) { delay = Outbox.RetryDelay() }
      } catch {
        if version.fallsBack(after: error, note) { continue }
        tell("\(error)")
        // Retrying cannot succeed after a final error.
        if case .final = error { return }
        outbox.rest(milliseconds: delay.next(in: .open), in: .open)
      }
    } while outbox.phase == .open
  }

  /// Notifies the user of a change, once.
  private func tell(_ text: String?) {
    let told = trouble.withLock { trouble in
      defer { trouble = text }
      return trouble
    }
    guard told != text else { return }
    if let text {
      note("\(text); the recording continues without Home Assistant")
    } else {
      note("\(plan.broker): publishing to Home Assistant again")
    }
  }

  /// Runs one connection until it ends.
  private func session(_ version: ProtocolVersion, connected: () -> Void) throws(PublishProblem) {
    let board = feed.withBoard { $0 }
    var options = MQTTClient.Options(
      client: self.client, plan.broker, certificates: plan.certificates,
      packetByteCount: Self.packetByteCount.count, version)
    options.will = board.will
    let client = try MQTTClient(options)
    let birth = HomeBirth(board.device.birthTopic)
    client.onMessage = { topic, payload, isRetained in birth.take(topic, payload, isRetained) }
    try client.connect()
    var isConnected = false
    repeat {
      if isConnected { try send(client) }
      for event in client.turn(milliseconds: Self.turnMilliseconds) {
        switch event {
        case .connected:
          isConnected = true
          connected()
          feed.withBoard { $0.connected() }
          try client.subscribe(to: birth.topic)
        case .acknowledged(let message, let reason):
          feed.withBoard { $0.acknowledged(message, reason: reason) }
        // The subscription is optional: all messages are retained, so Home Assistant receives them when it
        // starts.
        case .subscribed: break
        case .ended(let problem): throw problem
        }
      }
      if birth.hasCome() { feed.withBoard { $0.repeatAll() } }
      if isConnected { tell(complaint) }
    } while !isOver
    client.disconnect(publishesWill: !feed.withBoard { $0.isSettled })
  }

  private func send(_ client: MQTTClient) throws(PublishProblem) {
    let now = SystemClock.monotonic()
    while let outgoing = feed.withBoard({ $0.next(now) }) {
      let octets = outgoing.octets
      let message = try client.publish(octets.span, to: outgoing.topic, isRetained: true)
      feed.withBoard { $0.left(message, outgoing, now) }
    }
  }

  /// A problem with the broker while the connection is up.
  private var complaint: String? {
    let (refusal, since) = feed.withBoard { ($0.refusal, $0.waitingSince) }
    if let refusal {
      return "the broker refuses messages to \(refusal.topic) (\(MQTTClient.name(ofReason: refusal.reason)), "
        + "\(refusal.reason)); allow it in the broker's access control"
    }
    guard let since, since.advanced(by: Self.slowness) <= SystemClock.monotonic() else { return nil }
    return "\(plan.broker) has not answered for \(Self.slowness.components.seconds) s"
  }
}

/// Detects that Home Assistant has started. Only one thread uses it.
private final class HomeBirth {
  let topic: String
  private var isNew = false

  init(_ topic: String) { self.topic = topic }

  /// Handles a message on the birth topic. Ignores a retained message, which reports an earlier start.
  func take(_ topic: String, _ payload: Span<UInt8>, _ isRetained: Bool) {
    guard topic == self.topic, !isRetained, payload.count == 6 else { return }
    isNew = [UInt8](encoding: payload.count) { $0.append(payload) } == Array("online".utf8)
  }

  func hasCome() -> Bool {
    defer { isNew = false }
    return isNew
  }
}
