public import BLEHost
import BLELinux
import BLEStack
import BLEWire
public import ColmiRing

/// Requests to a connected ring, and its answers.
///
/// Only the opcode relates a reply to its request, and rings also send unsolicited data. Each frame is
/// therefore dispatched by its content: the pending request examines it first; if that request does not use
/// it, it is counted and ignored. Rings handle one request at a time (reference `colmi-ring-protocol.md`,
/// 1.4); others queue. The actor runs on the connection's loop.
public actor RingConversation {
  public struct Counters: Hashable, Sendable, BitwiseCopyable {
    /// Damaged frames and messages, which were skipped.
    public internal(set) var malformed = 0
    /// Replies that no request was waiting for: late replies, and replies to another command.
    public internal(set) var foreign = 0
    /// Unsolicited frames and messages from the ring.
    public internal(set) var unasked = 0
    /// Requests without an answer, and incomplete logs.
    public internal(set) var timeouts = 0
  }

  /// Data received from the ring.
  enum Arrival {
    case reply(RingReply, frame: [UInt8])
    case message(RingBigData)
  }

  /// Meaning of received data for the pending request.
  enum Turn {
    /// Belongs to another request.
    case foreign
    /// Repeats earlier data; no progress.
    case known
    /// A part of the answer; restarts the timeout.
    case part
    case last
  }

  enum Outgoing {
    case command(RingCommand)
    case message(RingBigData)
  }

  enum Ending: Hashable, Sendable {
    case answered, timedOut, interrupted
    case link(BearerEnd)
  }

  private struct Pending {
    let patience: Duration
    let take: (Arrival) -> Turn
    /// Time of the latest part of the answer, or of the request before any part.
    var latest: MonotonicTime
    let ending: OneShot<Ending>
  }

  /// Timeout for a reply, or for the next frame of a log. With a peripheral latency of 4, a ring takes 0.6 s
  /// (reference, 1.4).
  public static let defaultPatience = Duration.seconds(3)

  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }
  public nonisolated let patience: Duration
  let ring: RingLink

  public internal(set) var counters = Counters()
  /// Description of the latest damaged frame.
  public private(set) var lastMalformed: String?
  /// Capabilities of the ring; `nil` until its time is set, because it reports them only then.
  public internal(set) var capabilities: RingCapabilities?

  /// Unsolicited naps from the ring, each once; rings send them before the answer about nights.
  public private(set) var naps: [RingBigDataAnswer] = []
  /// Maximum number of naps kept: more than those of a week.
  private static let napLimit = 64

  private var pending: Pending?
  private let turns = Turns()
  private var reassembler = RingBigDataReassembler()
  /// Called with each measurement frame while measuring.
  var measurementListener: ((RingMeasurementFrame, ReceiveTime) -> Void)?
  /// Signalled when the measurement's time or the link ends.
  var measurementEnd: OneShot<Void>?

  private init(_ ring: RingLink, patience: Duration) {
    self.ring = ring
    connection = ring.connection
    self.patience = patience
  }

  /// Discovers the ring's services and subscribes to its replies.
  ///
  /// - Throws: `unsuitable` if the device has no ring service, and errors of the link.
  public static func begin(
    on connection: Connection, patience: Duration = defaultPatience
  ) async throws(HostError) -> RingConversation {
    do throws(HostError) { return try await start(on: connection, patience) } catch {
      // A ring that has changed may refuse requests for handles from an earlier discovery.
      guard case .gatt(.refused) = error, await connection.usesEarlierDiscovery else { throw error }
      await connection.attributesChanged(in: .all)
      await connection.endSubscriptions()
      return try await start(on: connection, patience)
    }
  }

  private static func start(
    on connection: Connection, _ patience: Duration
  ) async throws(HostError) -> RingConversation {
    let conversation = RingConversation(try await RingLink(connection), patience: patience)
    do throws(GATTError) {
      try await conversation.listen()
      // Answers on the big data channel are as long as the MTU allows.
      try await conversation.ring.client.validate()
    } catch { throw .gatt(error) }
    return conversation
  }

  private func listen() async throws(GATTError) {
    // The sinks run on the loop's thread, which is this actor's executor.
    _ = try await ring.client.subscribe(ring.attributes.replies) { [weak self] notification, time in
      let frame = copy(notification.value)
      self?.assumeIsolated { $0.received(frame: frame, at: time) }
    }
    if let bigData = ring.attributes.bigData, bigData.properties.contains(.notify) {
      _ = try await ring.client.subscribe(bigData) { [weak self] notification, _ in
        let octets = copy(notification.value)
        self?.assumeIsolated { $0.received(bigData: octets) }
      }
    }
    let connection = connection
    connection.loop.task { [weak self] in
      await self?.linkEnded(await connection.ended())
    }
  }

  // MARK: Received data

  private func received(frame: [UInt8], at time: ReceiveTime) {
    let reply: RingReply
    do throws(WireError) {
      reply = try RingReply(decoding: RingFrame(validating: frame.span))
    } catch { return damaged("\(error)") }
    if case .measurement(let measured) = reply, let measurementListener {
      measurementListener(measured, time)
      _ = offer(.reply(reply, frame: frame))
      return
    }
    if offer(.reply(reply, frame: frame)) { return }
    switch reply {
    case .notification, .packetSize, .raw: counters.unasked += 1
    default: counters.foreign += 1
    }
  }

  private func received(bigData octets: [UInt8]) {
    var events: [RingBigDataReassembler.Event] = []
    reassembler.receive(octets.span) { events.append($0) }
    // A part of a message counts as progress, even if no message is complete.
    if events.isEmpty { pending?.latest = connection.loop.clock.monotonic() }
    for event in events {
      switch event {
      case .message(let message):
        if !offer(.message(message)) { unclaimed(message) }
      case .raw: counters.unasked += 1
      case .failed(let error): damaged("\(error)")
      }
    }
  }

  /// Naps arrive unsolicited; section 4 of the reference.
  private func unclaimed(_ message: RingBigData) {
    guard let reply = try? RingBigDataReply(decoding: message), case .nap = reply else {
      counters.foreign += 1
      return
    }
    counters.unasked += 1
    let answer = RingBigDataAnswer(message: message, reply: reply)
    if !naps.contains(answer), naps.count < Self.napLimit { naps.append(answer) }
  }

  private func damaged(_ why: String) {
    counters.malformed += 1
    lastMalformed = why
  }

  /// - Returns: whether the pending request used the data.
  private func offer(_ arrival: Arrival) -> Bool {
    guard let waiting = pending, waiting.ending.current == nil else { return false }
    switch waiting.take(arrival) {
    case .foreign: return false
    case .known: break
    case .part: pending?.latest = connection.loop.clock.monotonic()
    case .last: waiting.ending.set(.answered)
    }
    return true
  }

  private func linkEnded(_ end: BearerEnd) {
    pending?.ending.set(.link(end))
    measurementEnd?.set(())
  }

  // MARK: Requests

  /// Sends a request and passes received data to `take` until the answer is complete, or until no part of it
  /// arrived for `patience`.
  ///
  /// - Throws: `interrupted` if the task is cancelled, also while it waits for other requests; otherwise
  ///   errors of the link.
  /// - Returns: `false` if the request timed out.
  func exchange(
    _ request: Outgoing, patience: Duration? = nil, _ take: @escaping (Arrival) -> Turn
  ) async throws(RingError) -> Bool {
    if case .message = request, !ring.hasBigData { throw .noBigData }
    do { try await turns.takeUnlessCancelled() } catch { throw .interrupted }
    defer { turns.end() }
    if Task.isCancelled { throw .interrupted }
    let ending = OneShot<Ending>()
    pending = Pending(
      patience: patience ?? self.patience, take: take, latest: connection.loop.clock.monotonic(),
      ending: ending)
    defer { pending = nil }
    // Check this now that `linkEnded` can see the request, so that the end of the link is not missed.
    if let end = await connection.end { throw .host(.gatt(.closed(end))) }
    do throws(GATTError) {
      switch request {
      case .command(let command): try await ring.write(command)
      case .message(let message):
        reassembler.abandon { _ in }
        try await ring.write(message)
      }
    } catch { throw .host(.gatt(error)) }
    let timer = connection.loop.task { await self.watch(ending) }
    defer { timer.cancel() }
    switch await ending.value(ifCancelled: .interrupted) {
    case .answered: return true
    case .timedOut:
      counters.timeouts += 1
      return false
    case .interrupted: throw .interrupted
    case .link(let end): throw .host(.gatt(.closed(end)))
    }
  }

  /// Sends a command without a reply.
  func send(_ command: RingCommand) async throws(RingError) {
    do throws(GATTError) { try await ring.write(command) } catch { throw .host(.gatt(error)) }
  }

  /// Ends a request when no part of its answer arrived within its timeout.
  private func watch(_ ending: OneShot<Ending>) async {
    let clock = connection.loop.clock
    while let pending, pending.ending === ending, ending.current == nil {
      let rest = clock.monotonic().duration(to: pending.latest.advanced(by: pending.patience))
      guard rest > .zero else {
        ending.set(.timedOut)
        return
      }
      guard (try? await connection.loop.wait(for: rest)) != nil else { return }
    }
  }
}

private func copy(_ value: Span<UInt8>) -> [UInt8] {
  [UInt8](encoding: value.count) { $0.append(value) }
}
