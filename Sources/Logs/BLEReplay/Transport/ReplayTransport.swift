public import BLEHost
public import BLELinux
import BLEPacketLog
import BLEStack
public import BLEWire
import Synchronization

/// A packet log in place of a controller. ringtap's host receives the packets that the recorded host
/// received, with their timestamps. The packets that ringtap's host sends are compared with the packets of
/// the recorded host.
///
/// If ringtap's own host recorded the log from its Reset, the whole log is played. Of any other log, one link
/// is played: a stand-in answers commands, and the ATT channel comes from the log.
public final class ReplayTransport: PacketTransport, EventSource, @unchecked Sendable {
  // These fields need no lock, because only the event loop's thread uses them. State for other threads is in
  // `shared`.

  /// Timeout for ringtap's host when the log waits for the host or has ended.
  static let patience = Duration.seconds(3)
  /// Timeout after a request that the recorded host did not send at this place; shorter than the timeout of a
  /// caller that waits for a response.
  private static let strangersPatience = Duration.milliseconds(500)
  /// Timeout after a previous timeout, because the recorded host did something that ringtap's host does not
  /// do.
  private static let shortPatience = Duration.milliseconds(100)
  /// Pause of the replay if a queue is too full.
  private static let holdPause = Duration.milliseconds(1)
  /// Maximum number of packets between checks of the queues and of other sources in the loop.
  private static let batchLimit = 64

  private struct Shared: Sendable {
    var findings = ReplayFindings()
    var cuts = 0
    var failure: HostError?
    var over: (@Sendable () -> Void)?
    var holds: [@Sendable () -> Bool] = []
  }

  /// The device in the log; `nil` if the log contains a scan that finds the device.
  public let peer: DeviceAddress?
  /// Number of the link that is played, from 1; `nil` if the whole log is played.
  public let link: Int?
  /// The reason why reading ended before the end of the file.
  public let problem: String?

  private let loop: EventLoop
  private let descriptor: FileDescriptor
  private let reports: [ReplayPacket]
  private let isScan: Bool
  /// Records of truncated data that have not been counted yet.
  private var cuts: ArraySlice<Int>
  private var token: UInt64?
  private var client: TransportClient?
  private var script: ReplayScript
  private var standIn: StandInController?
  private var pace: ReplayPace
  /// Whether the link is up, or the log itself creates the link.
  private var isPlaying: Bool
  /// Packets to deliver before the log continues: replies of the stand-in, and responses out of the log's
  /// order.
  private var ready: [ReplayPacket] = []
  private var time: ReceiveTime
  private var isFailing = false
  private var isOverTold = false
  private var isSkipping = false
  /// Whether the last request of ringtap's host was answered out of the log's order.
  private var isStranger = false
  private var pauseEnd: MonotonicTime?
  private var lastActivity = MonotonicTime(nanoseconds: 0)
  private let shared = Mutex(Shared())

  /// Opens a log for replay.
  ///
  /// - Throws: `unsuitable` if the file is not a log or has nothing to play.
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
    cuts = plan.cuts[...]
    standIn = plan.standIn
    isPlaying = plan.standIn == nil
    script = ReplayScript(plan.packets, servers: plan.servers)
    pace = ReplayPace(source.speed)
    time = plan.packets.first?.time ?? ReceiveTime(nanoseconds: 0)
  }

  public var kernelQueueDrops: Int { 0 }
  public var garbage: Int { 0 }
  public var cutFrames: Int { shared.withLock(\.cuts) }
  public var hasOlderLinks: Bool { true }
  public var failure: HostError? { shared.withLock(\.failure) }
  /// Result so far.
  public var findings: ReplayFindings { shared.withLock(\.findings) }

  public func hold(while body: @escaping @Sendable () -> Bool) { shared.withLock { $0.holds.append(body) } }

  /// Calls `body` once, when the replay waits for a packet that ringtap's host does not send. At this place,
  /// the user who recorded the log probably pressed Ctrl-C.
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

  /// Reports a failure in the next turn of the event loop, because ringtap's host is inside a call now.
  private func fail(_ why: String) {
    guard !isFailing else { return }
    isFailing = true
    shared.withLock { $0.failure = .unsuitable(why) }
  }

  /// Counts the records before `index` that the log's writer truncated.
  private func countCuts(before index: Int) {
    let count = cuts.prefix { $0 < index }.count
    guard count > 0 else { return }
    cuts = cuts.dropFirst(count)
    shared.withLock { $0.cuts += count }
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

  /// Returns the next packet if its time has come and the queues have room.
  private func take(_ now: MonotonicTime) -> ReplayPacket? {
    if !ready.isEmpty { return ready.removeFirst() }
    guard isPlaying, !isFailing, pauseEnd == nil, let next = script.next, pace.due(next.time, now: now) <= now
    else { return nil }
    if shared.withLock({ $0.holds.contains { $0() } }) {
      pauseEnd = now.advanced(by: Self.holdPause)
      return nil
    }
    // A disconnection requires a reaction of ringtap's host, so restore the full timeout.
    if script.endsLink { isSkipping = false }
    script.deliver()
    countCuts(before: next.index)
    time = next.time
    return next
  }

  /// Handles a timeout: the replay waits for a packet, but ringtap's host is silent.
  private func idle(_ now: MonotonicTime) {
    lastActivity = now
    if isPlaying, script.awaitsSubscription {
      script.ceaseToAwaitSubscription()
      return
    }
    if isPlaying, script.awaited != nil, !script.isNearEnd {
      script.skip("ringtap does not do this")
      isSkipping = true
      publish()
      return
    }
    if !isOverTold {
      isOverTold = true
      if script.next == nil { countCuts(before: .max) }
      if let over = shared.withLock({ $0.over.take() }) {
        over()
        return
      }
    }
    guard isPlaying, let awaited = script.awaited else {
      fail(isPlaying ? "the log has ended" : "the command does not ask for the log's link")
      end()
      return
    }
    script.skip("ringtap does not do this")
    publish()
    // Skipping a request ends the replay only if no packet follows.
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

/// Schedules the packets of a log. The clock starts with the first packet passed to `due`.
public struct ReplayPace: Sendable {
  private let speed: ReplaySpeed
  private var start: (recorded: ReceiveTime, here: MonotonicTime)?

  public init(_ speed: ReplaySpeed) { self.speed = speed }

  /// Returns the time at which a packet is due.
  ///
  /// - Returns: the same time for the same packet on each call; the start of the clock if the packet is due
  ///   at once.
  public mutating func due(_ time: ReceiveTime, now: MonotonicTime) -> MonotonicTime {
    guard case .times(let factor) = speed else { return MonotonicTime(nanoseconds: 0) }
    let start = start ?? (time, now)
    self.start = start
    // Timestamps in a log may have any value.
    let (elapsed, overflow) = time.nanoseconds.subtractingReportingOverflow(start.recorded.nanoseconds)
    let (due, isLater) = start.here.nanoseconds.addingReportingOverflow(
      overflow ? 0 : elapsed / Int64(factor))
    return isLater ? start.here : MonotonicTime(nanoseconds: due)
  }
}
