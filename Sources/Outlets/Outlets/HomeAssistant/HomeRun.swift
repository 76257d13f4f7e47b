import BLELinux
import BLEWire
import Fleet
package import Recording
import Synchronization

/// Tells Home Assistant of one device, on a thread of its own, which a recording neither waits for nor is hurt by.
package final class HomeRun: Sendable {
  private enum Phase: Int, AtomicRepresentable {
    case open
    /// Nothing more comes: what is not told is told, if the broker is there.
    case ending
    case abandoned
  }

  static let packetByteCount = Limit(
    4096, "bytes of a message of Home Assistant's", by: .broker,
    whenFull: "an MQTT 5 broker keeps it to itself; by 3.1.1 it is read and left out",
    counted: "by the broker; by 3.1.1 a warning at the start")

  /// At most from one turn of the connection to the next, in milliseconds.
  private static let turnMilliseconds = 200
  /// Milliseconds from one attempt to connect to the next.
  private static let pauses = 250...10_000
  /// A broker that has not answered for so long is told of.
  private static let slowness = Duration.seconds(5)
  /// How long the end may take.
  private static let patience = Duration.seconds(3)

  private let plan: HomePlan
  private let feed: HomeFeed
  private let client: String
  private let note: @Sendable (String) -> Void
  private let phase = Atomic<Phase>(.open)
  /// Why something is not told.
  private let trouble = Mutex<String?>(nil)
  private let over = OneShot<Void>()
  private let wake: WakeEvent

  init(
    _ device: HomeDevice, _ plan: HomePlan, note: @escaping @Sendable (String) -> Void
  ) throws(SystemError) {
    (self.plan, self.note) = (plan, note)
    feed = HomeFeed(device)
    // The same each time: a broker that still waits for a connection that broke off gives that up at once.
    client = "ringtap-ha-" + device.digits
    wake = try WakeEvent()
    try SystemThread.start(named: "home-assistant", as: .patient) { self.main() }
  }

  /// Of each recording of the device, one after the other.
  package var watcher: any RecordingWatcher { feed }

  /// Says that the device is not available, and waits until the broker has that, or is not there.
  ///
  /// - Returns: why something was not told; `nil` where all was.
  package func finish() async -> String? {
    feed.withBoard { $0.end() }
    _ = phase.compareExchange(expected: .open, desired: .ending, ordering: .sequentiallyConsistent)
    wake.interrupt()
    // A connect where nothing answers takes longer than anybody wants to wait.
    let limit = Task {
      try await Task.sleep(for: Self.patience)
      abandon()
      over.set(())
    }
    await withTaskCancellationHandler {
      await over.value()
    } onCancel: {
      abandon()
      over.set(())
    }
    limit.cancel()
    let isSettled = feed.withBoard { $0.isSettled }
    return trouble.withLock { $0 } ?? (isSettled ? nil : "\(plan.broker) did not answer")
  }

  /// Ends as soon as it can.
  func abandon() {
    phase.store(.abandoned, ordering: .sequentiallyConsistent)
    wake.interrupt()
  }

  // MARK: The thread

  private var isEnding: Bool { phase.load(ordering: .sequentiallyConsistent) != .open }
  private var isOver: Bool {
    switch phase.load(ordering: .sequentiallyConsistent) {
    case .open: false
    case .ending: feed.withBoard { $0.isSettled }
    case .abandoned: true
    }
  }

  private func main() {
    defer { over.set(()) }
    var (pause, version) = (Self.pauses.lowerBound, ProtocolVersion())
    repeat {
      do throws(PublishProblem) {
        try session(version) { pause = Self.pauses.lowerBound }
      } catch {
        if version.fallsBack(after: error) {
          note("\(error); \(ProtocolVersion.warning)")
          continue
        }
        tell("\(error)")
        // Trying again is of no use.
        if case .final = error { return }
        wake.sleep(milliseconds: pause) { !isEnding }
        pause = min(pause * 2, Self.pauses.upperBound)
      }
    } while !isEnding
  }

  /// Once for each change.
  private func tell(_ text: String?) {
    let told = trouble.withLock { trouble in
      defer { trouble = text }
      return trouble
    }
    guard told != text else { return }
    if let text {
      note("\(text); the recording goes on, without Home Assistant")
    } else {
      note("\(plan.broker): Home Assistant is told again")
    }
  }

  /// One connection, to its end.
  private func session(_ version: ProtocolVersion, connected: () -> Void) throws(PublishProblem) {
    let board = feed.withBoard { $0 }
    let client = try attempt { () throws(MQTTError) in try MQTTClient(options(version, board)) }
    let birth = HomeBirth(board.device.birthTopic)
    client.onMessage = { topic, payload, isRetained in birth.take(topic, payload, isRetained) }
    try attempt { () throws(MQTTError) in try client.connect() }
    var isConnected = false
    repeat {
      if isConnected { try send(client) }
      for event in client.turn(milliseconds: Self.turnMilliseconds) {
        switch event {
        case .connected:
          isConnected = true
          connected()
          feed.withBoard { $0.connected() }
          try attempt { () throws(MQTTError) in try client.subscribe(to: birth.topic) }
        case .acknowledged(let message, let reason):
          feed.withBoard { $0.acknowledged(message, reason: reason) }
        // All is retained: Home Assistant has it without a word of its own, too.
        case .subscribed: break
        case .ended(let error): throw problem(error)
        }
      }
      if birth.hasCome() { feed.withBoard { $0.repeatAll() } }
      if isConnected { tell(complaint) }
    } while !isOver
    client.disconnect(publishesWill: !feed.withBoard { $0.isSettled })
  }

  private func options(_ version: ProtocolVersion, _ board: HomeBoard) -> MQTTClient.Options {
    var options = MQTTClient.Options(
      client: client, host: plan.broker.host, port: plan.broker.port,
      packetByteCount: Self.packetByteCount.count)
    options.isVersion5 = version.is5
    (options.user, options.password) = (plan.broker.user, plan.broker.password)
    (options.isEncrypted, options.certificateFile) = (plan.broker.isEncrypted, plan.certificates)
    options.will = board.will
    return options
  }

  private func send(_ client: MQTTClient) throws(PublishProblem) {
    let now = SystemClock.monotonic()
    while let outgoing = feed.withBoard({ $0.next(now) }) {
      let octets = outgoing.octets
      let message = try attempt { () throws(MQTTError) in
        try client.publish(octets.span, to: outgoing.topic, isRetained: true)
      }
      feed.withBoard { $0.left(message, outgoing, now) }
    }
  }

  /// What is wrong although there is a connection.
  private var complaint: String? {
    let (refusal, since) = feed.withBoard { ($0.refusal, $0.waitingSince) }
    if let refusal {
      return "the broker refuses what is published to \(refusal.topic) "
        + "(\(MQTTClient.name(ofReason: refusal.reason)), \(refusal.reason)); allow it in the broker's access control"
    }
    guard let since, since.advanced(by: Self.slowness) <= SystemClock.monotonic() else { return nil }
    return "\(plan.broker) has not answered for \(Self.slowness.components.seconds) s"
  }

  private func attempt<Value>(_ body: () throws(MQTTError) -> Value) throws(PublishProblem) -> Value {
    do throws(MQTTError) { return try body() } catch { throw problem(error) }
  }

  private func problem(_ error: MQTTError) -> PublishProblem {
    plan.broker.problem(error, certificates: plan.certificates, option: "--home-assistant")
  }
}

/// Hears within a turn of the connection that Home Assistant has started. For one thread.
private final class HomeBirth {
  let topic: String
  private var isNew = false

  init(_ topic: String) { self.topic = topic }

  /// What the broker had kept is of the past: all was sent since.
  func take(_ topic: String, _ payload: Span<UInt8>, _ isRetained: Bool) {
    guard topic == self.topic, !isRetained, payload.count == 6 else { return }
    isNew = [UInt8](encoding: payload.count) { $0.append(payload) } == Array("online".utf8)
  }

  func hasCome() -> Bool {
    defer { isNew = false }
    return isNew
  }
}
