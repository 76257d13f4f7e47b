public import BLEHost
import BLELinux
import BLEStack
import BLEWire
public import ColmiRing

/// Questions to a connected ring, and what it says to them.
///
/// Nothing but the opcode ties a reply to its request, and rings tell things unasked, so each frame is dispatched on
/// what it is: the request that waits looks at it first, and what is not for it is counted and left alone. One
/// request waits at a time, as the rings want it (reference `colmi-ring-protocol.md`, 1.4); others queue. Lives on
/// the connection's loop.
public actor RingConversation {
  public struct Counters: Hashable, Sendable, BitwiseCopyable {
    /// Frames and messages that are damaged. They are skipped.
    public internal(set) var malformed = 0
    /// Replies that nobody waited for: late ones, and those of another command.
    public internal(set) var foreign = 0
    /// What the ring told of its own accord.
    public internal(set) var unasked = 0
    /// Requests that nothing answered, and logs that stopped half-way.
    public internal(set) var timeouts = 0
  }

  /// What came from the ring.
  enum Arrival {
    case reply(RingReply, frame: [UInt8])
    case message(RingBigData)
  }

  /// What an arrival is to the request that waits.
  enum Turn {
    /// Not for it.
    case foreign
    /// Known already: no progress.
    case known
    /// A part of the answer: the time runs anew.
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
    /// When a part of the answer came, before that when the request went out.
    var latest: MonotonicTime
    let ending: OneShot<Ending>
  }

  /// How long a reply, or the next frame of a log, may take. With a peripheral latency of 4 a ring takes 0.6 s
  /// (reference, 1.4).
  public static let defaultPatience = Duration.seconds(3)

  public nonisolated let connection: Connection
  public nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.executor }
  public nonisolated let patience: Duration
  let ring: RingLink

  public internal(set) var counters = Counters()
  /// The latest damaged frame's error, in words.
  public private(set) var lastMalformed: String?
  /// What the ring said that it can do; `nil` until its time was set, as it tells only then.
  public internal(set) var capabilities: RingCapabilities?

  /// Naps that the ring told of its own accord, each once: rings do before they answer for the nights.
  public private(set) var naps: [RingBigDataAnswer] = []
  /// More than a week ever holds.
  private static let napLimit = 64

  private var pending: Pending?
  private let turns = Turns()
  private var reassembler = RingBigDataReassembler()
  /// Whoever follows a measurement.
  var measurementListener: ((RingMeasurementFrame, ReceiveTime) -> Void)?
  /// What the measurement waits for.
  var measurementEnd: OneShot<Void>?

  private init(_ ring: RingLink, patience: Duration) {
    self.ring = ring
    connection = ring.connection
    self.patience = patience
  }

  /// Discovers the ring's services and subscribes to its replies.
  ///
  /// - Throws: `unsuitable` where the device has no ring service, and what the link says.
  public static func begin(
    on connection: Connection, patience: Duration = defaultPatience
  ) async throws(HostError) -> RingConversation {
    do throws(HostError) { return try await start(on: connection, patience) } catch {
      // A ring that has changed may refuse what is asked of handles that an earlier link found.
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
      // Answers of the big data channel are as long as the MTU allows.
      try await conversation.ring.client.validate()
    } catch { throw .gatt(error) }
    return conversation
  }

  private func listen() async throws(GATTError) {
    // The sinks run on the loop's thread, which is this actor's.
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

  // MARK: What comes

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
    // A message in pieces is progress although nothing is complete.
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

  /// Of section 4 of the reference: a nap comes unasked.
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

  /// - Returns: whether the request that waits took it.
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

  /// Sends a request and offers what comes to `take`, until that has the last of the answer or nothing of it came for
  /// `patience`.
  ///
  /// - Throws: also `interrupted` where the task is cancelled, while it waits for others' requests too.
  /// - Returns: `false` where the time ran out.
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
    // Looked at now that `linkEnded` finds this request: a link that ends meanwhile is not missed.
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

  /// Sends a command that has no reply.
  func send(_ command: RingCommand) async throws(RingError) {
    do throws(GATTError) { try await ring.write(command) } catch { throw .host(.gatt(error)) }
  }

  /// Ends a request once nothing of its answer came for its patience.
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
