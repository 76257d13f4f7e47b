public import BLEHost
public import BLELinux
import BLEPacketLog
import BLEStack
public import BLEWire
import Synchronization

/// A packet log in place of a controller: our host gets what the recorded one got, with the recorded stamps, and what
/// it says is compared with what the recorded one said.
///
/// A log of our own host from Reset on is played as it is. Of any other log one link is played: a stand-in answers our
/// host's commands, and the ATT channel comes from the log.
public final class ReplayTransport: PacketTransport, EventSource, @unchecked Sendable {
  // No lock: touched on the event loop's thread only; what others ask for is in `shared`.

  /// How long our host may be silent while the log waits for it, or has ended.
  static let patience = Duration.seconds(3)
  /// The same when ours has just asked what the recorded one did not ask there: less than whoever waits for an answer has.
  private static let strangersPatience = Duration.milliseconds(500)
  /// The same when it was so before: what the recorded host did for itself, ours does not.
  private static let shortPatience = Duration.milliseconds(100)
  /// How long the play pauses while a queue is too full.
  private static let holdPause = Duration.milliseconds(1)
  /// Packets between two looks at the queues and at what else waits in the loop.
  private static let batchLimit = 64

  private struct Shared: Sendable {
    var findings = ReplayFindings()
    var failure: HostError?
    var over: (@Sendable () -> Void)?
    var holds: [@Sendable () -> Bool] = []
  }

  /// The device that the log is about; `nil` where a scan is in it.
  public let peer: DeviceAddress?
  /// The link that is played, from 1; `nil` for a whole conversation.
  public let link: Int?
  /// Why the log breaks off before its file ends.
  public let problem: String?

  private let loop: EventLoop
  private let descriptor: FileDescriptor
  private let reports: [ReplayPacket]
  private let isScan: Bool
  private var token: UInt64?
  private var client: TransportClient?
  private var script: ReplayScript
  private var standIn: StandInController?
  private var pace: ReplayPace
  /// The link is up, or has to come up by itself.
  private var isPlaying: Bool
  /// Answers of the stand-in, and those that are out of the log's order.
  private var ready: [ReplayPacket] = []
  private var time: ReceiveTime
  private var isFailing = false
  private var isOverTold = false
  private var isSkipping = false
  /// What our host asked last was answered out of the log's order.
  private var isStranger = false
  private var pauseEnd: MonotonicTime?
  private var lastActivity = MonotonicTime(nanoseconds: 0)
  private let shared = Mutex(Shared())

  /// - Throws: `unsuitable` where the file is no log, or has nothing to play.
  public convenience init(_ source: ReplaySource, on loop: EventLoop) throws(HostError) {
    let keys = source.keys.compactMap { AirKey($0) }
    try self.init(try ReplayLog.read(source.path, keys: keys), source, on: loop)
  }

  public init(_ log: ReplayLog, _ source: ReplaySource, on loop: EventLoop) throws(HostError) {
    let plan = try ReplayPlan(log, link: source.link)
    do throws(SystemError) { descriptor = try FileDescriptor.silent() } catch { throw HostError(error) }
    self.loop = loop
    peer = plan.peer
    link = plan.link
    problem = log.problem
    reports = plan.reports
    isScan = plan.isScan
    standIn = plan.standIn
    isPlaying = plan.standIn == nil
    script = ReplayScript(plan.packets, servers: plan.servers)
    pace = ReplayPace(source.speed)
    time = plan.packets.first?.time ?? ReceiveTime(nanoseconds: 0)
  }

  public var kernelQueueDrops: Int { 0 }
  public var garbage: Int { 0 }
  public var hasOlderLinks: Bool { true }
  public var failure: HostError? { shared.withLock(\.failure) }
  /// What was compared, until now.
  public var findings: ReplayFindings { shared.withLock(\.findings) }

  public func hold(while body: @escaping @Sendable () -> Bool) { shared.withLock { $0.holds.append(body) } }

  /// Calls `body` once, when nothing more can be played until our host does something that it does not do: a person
  /// would press Ctrl-C here, as one did when the log was made.
  public func whenOver(_ body: @escaping @Sendable () -> Void) { shared.withLock { $0.over = body } }

  public func open(_ client: TransportClient) throws(SystemError) {
    self.client = client
    lastActivity = loop.clock.monotonic()
    token = try loop.add(self, descriptor, for: .readable)
  }

  public func close() {
    loop.assertIsCurrent()
    client = nil
    publish()
    if let token { loop.remove(token, descriptor) }
    token = nil
  }

  // MARK: From our host

  public func send(_ packet: Span<UInt8>) throws(SystemError) {
    loop.assertIsCurrent()
    lastActivity = loop.clock.monotonic()
    (isSkipping, isStranger) = (false, false)
    let octets = [UInt8](encoding: packet.count) { $0.append(packet) }
    if standIn != nil, octets.first == HCIPacketType.command.rawValue {
      command(octets)
      return
    }
    switch script.take(octets) {
    case .none: break
    case .answer(let answer):
      ready.append(answer)
      isStranger = true
    case .unanswered(let why):
      if let events = StandInController.farewell(octets) { answer(events) } else { fail(why) }
    }
    if let standIn { answer([standIn.completion]) }
    publish()
  }

  private func command(_ octets: [UInt8]) {
    guard let effect = standIn?.answer(octets) else { return }
    switch effect {
    case .events(let events): answer(events)
    case .scan(let events):
      answer(events)
      ready += reports
      if isScan { isPlaying = true }
    case .connect where isScan: fail("the log has advertisements and no link: there is nothing to connect to")
    case .connect(let events):
      answer(events)
      isPlaying = true
    case .stranger(let wanted):
      fail("link \(link ?? 1) of the log is with \(peer ?? .any), not with \(wanted)")
    }
  }

  private func answer(_ events: [[UInt8]]) {
    ready += events.map { ReplayPacket(time: time, .controllerToHost, $0) }
  }

  /// Our host hears of it in the next turn of the loop: it is at work now.
  private func fail(_ why: String) {
    guard !isFailing else { return }
    isFailing = true
    shared.withLock { $0.failure = .unsuitable(why) }
  }

  private func publish() {
    let findings = script.findings
    shared.withLock { $0.findings = findings }
  }

  // MARK: To our host, on the receive thread

  public func ready(_ readiness: Readiness) {}

  public func stopped() { client?.lost() }

  public var deadline: MonotonicTime? { .earliest(client?.deadline(), ownDeadline) }

  private var ownDeadline: MonotonicTime? {
    guard client != nil else { return nil }
    if isFailing || !ready.isEmpty { return lastActivity }
    guard isPlaying, let next = script.next else { return lastActivity.advanced(by: patience) }
    return pauseEnd ?? pace.due(next.time, now: loop.clock.monotonic())
  }

  private var patience: Duration {
    isSkipping ? Self.shortPatience : isStranger ? Self.strangersPatience : Self.patience
  }

  public func expired(now: MonotonicTime) {
    guard let client else { return }
    if isFailing {
      end()
      return
    }
    if let pauseEnd, pauseEnd <= now { self.pauseEnd = nil }
    var count = 0
    while count < Self.batchLimit, let packet = take(now) {
      count += 1
      client.received(packet.octets.span, packet.time, true)
    }
    if count > 0 {
      lastActivity = now
      publish()
    } else if lastActivity.advanced(by: patience) <= now, !isPlaying || script.next == nil {
      idle(now)
    }
    if let deadline = client.deadline(), deadline <= now { client.expired(now) }
    if count > 0 { client.settled() }
  }

  /// The packet whose turn it is, if its time has come and there is room for it.
  private func take(_ now: MonotonicTime) -> ReplayPacket? {
    if !ready.isEmpty { return ready.removeFirst() }
    guard isPlaying, !isFailing, pauseEnd == nil, let next = script.next, pace.due(next.time, now: now) <= now
    else { return nil }
    if shared.withLock({ $0.holds.contains { $0() } }) {
      pauseEnd = now.advanced(by: Self.holdPause)
      return nil
    }
    // Our host has this to act on, whatever it left out before: it gets the whole patience again.
    if script.endsLink { isSkipping = false }
    script.deliver()
    time = next.time
    return next
  }

  /// Our host says nothing, and without that nothing more comes.
  private func idle(_ now: MonotonicTime) {
    lastActivity = now
    if isPlaying, script.awaitsSubscription {
      script.ceaseToAwaitSubscription()
      return
    }
    if isPlaying, script.awaited != nil, !script.isNearEnd {
      script.skip("ours does not do it")
      isSkipping = true
      publish()
      return
    }
    if !isOverTold {
      isOverTold = true
      if let over = shared.withLock({ $0.over.take() }) {
        over()
        return
      }
    }
    guard isPlaying, let awaited = script.awaited else {
      fail(isPlaying ? "the log has ended" : "the log's link is not asked for")
      end()
      return
    }
    script.skip("ours does not do it")
    publish()
    // A question left out leaves the recorded host's next step unreachable only if there is nothing after it.
    if script.isAtEnd {
      fail("the log waits for packet \(awaited.index): \(ReplayWords.name(awaited.octets))")
    }
  }

  private func end() {
    publish()
    let client = client
    close()
    client?.lost()
  }
}
