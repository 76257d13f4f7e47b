public import BLEHost
package import BLELinux
public import BLEStack
public import BLEWire
import Synchronization

/// Keeps a device connected and streaming. Reconnects when the link is lost.
///
/// The actor runs on its adapter's loop. It records the time between two links as a gap; the profile receives
/// the data.
public actor DeviceSession {
  /// Summary of one link.
  public struct LinkSummary: Sendable {
    public var handle: ConnectionHandle
    public var mtu: Int
    public var receiveBufferByteCount: Int
    public var statistics: BearerStatistics
    public var changes: [LinkChange]
    public var end: BearerEnd?
    public var disconnectReason: HCIStatus?
    /// Whether the link reused the attributes discovered on an earlier link.
    public var usedEarlierDiscovery: Bool
    /// Number of ATT requests before the link's first sample; `nil` if the link had no sample.
    public var requestsBeforeFirstSample: Int?
    public var firstSampleAt: ReceiveTime?
    /// Unusual behaviour of the device on the link.
    public var remarks: [LinkRemark]
  }

  /// Parameters for connecting, and limits for retries.
  public struct Plan: Sendable {
    public var peer: DeviceAddress
    /// Requested link parameters. If `startsFast` is set, the link has short intervals until the stream runs.
    public var request = LinkRequest()
    public var startsFast = true
    public var connectTimeout = Duration.seconds(20)
    /// Maximum time from the start of a connection attempt until the stream runs. It includes encryption,
    /// discovery and subscription. At least half of it is reserved for the steps after the connect.
    public var startTimeout = Duration.seconds(30)
    /// Timeout of each request, at most 30 s.
    public var answerTimeout = Duration.seconds(30)
    /// Maximum time for reconnecting after the loss of a link. If zero, the session ends with the first link.
    public var patience = Duration.zero
    public var tap: PacketTap?
    /// The reader of the samples and of the tap, which each link signals after a batch of packets.
    package var wake: WakeEvent?

    public init(_ peer: DeviceAddress) { self.peer = peer }
  }

  /// Period without a stream during which the session retries.
  private struct Outage {
    let since: MonotonicTime
    var attempts = 0
    /// Whether the outage began because the stream became silent. A new link then ends the outage only when
    /// it delivers a sample.
    var isSilent = false
    /// Number of links without a sample since the outage began.
    var emptyLinks = 0
  }

  /// Event on a link with a running stream.
  private enum LinkNews { case over, attributesChanged, firstSample }

  /// Maximum number of attempts to start a stream on one link if the attributes keep changing.
  private static let restartLimit = 8
  /// Minimum age of a link that resets the pause between attempts.
  private static let steadyLinkAge = Duration.seconds(3)
  /// Time limit for a prompt return. If a device streams again within this time after it ended a link, it was
  /// not switched off.
  private static let promptReturn = Duration.seconds(10)
  /// Timeout at the end of a session for the stream to start or stop.
  private static let endPatience = Duration.seconds(2)

  public nonisolated let adapter: any Adapter
  public nonisolated let plan: Plan
  public nonisolated var unownedExecutor: UnownedSerialExecutor { adapter.loop.executor }

  public private(set) var state = SessionState.idle
  /// Gaps in order, up to a limit.
  public private(set) var gaps: [SessionGap] = []
  public private(set) var links: [LinkSummary] = []
  /// Number of all gaps, including gaps that are not stored in `gaps`.
  public private(set) var gapCount = 0
  /// Number of all links, including links that are not stored in `links`.
  public private(set) var linkCount = 0
  /// Statistics of all ended links.
  public private(set) var statistics = BearerStatistics()
  /// Time of the first sample of the session.
  public private(set) var firstSampleAt: ReceiveTime?
  /// Time of the last sample on the ended links.
  public private(set) var lastSampleAt: ReceiveTime?
  private var observers: [AsyncStream<SessionState>.Continuation] = []
  /// The current link.
  package private(set) var current: Connection?
  /// Attributes of the device that were discovered on the last link.
  private var known: GATTDiscoveryResult?
  private var outage: Outage?
  /// Requests that are no longer sent because the device ended a link after them.
  private var avoidance = LinkAvoidance()
  /// Duration of the last link.
  private var lastAge = Duration.zero
  /// Number of consecutive short links.
  private var shortLinks = 0
  /// Tasks that wait for the end of the link or session, or for a change of attributes.
  private let waiters = Waiters()
  private var isEnding = false
  private var cutter: Task<Void, Never>?
  private var isLinkOver = false
  /// `Connection.attributeChangeCount` at the start of the stream.
  private var changesAtStart = 0
  private var areAttributesChanged = false
  private var hasSample = false
  /// Work of the running stream that was deferred until its first sample.
  private var completion: StreamCompletion?
  /// Whether a stream has started at least once.
  public private(set) var hasStreamed = false

  public init(_ plan: Plan, on adapter: any Adapter) {
    self.plan = plan
    self.adapter = adapter
  }

  /// Statistics of the current link; empty without a link.
  public var currentStatistics: BearerStatistics {
    get async { await current?.statistics ?? BearerStatistics() }
  }

  /// Unusual behaviour of the device so far; each kind is reported once.
  public var remarks: [LinkRemark] {
    get async {
      var all: [LinkRemark] = []
      for remark in links.flatMap(\.remarks) + (await current?.remarks ?? []) + avoidance.remarks
      where !all.contains(remark) { all.append(remark) }
      return all
    }
  }

  /// Returns a stream of the session's states from now on. A slow reader gets only the latest states.
  public func states() -> AsyncStream<SessionState> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: SessionState.self, bufferingPolicy: .bufferingNewest(64))
    continuation.yield(state)
    observers.append(continuation)
    return stream
  }

  /// Connects and streams until the task is cancelled or the device does not return. Cancelling stops the
  /// stream and closes the link.
  ///
  /// - Throws: the error that kept the first link from streaming, or that ended the last link; `noAnswer` if
  ///   the device did not return within `plan.patience`.
  public func run(_ profile: SensorProfile<some SensorSession>) async throws(HostError) {
    let result: Result<Void, HostError> = await withTaskCancellationHandler {
      do throws(HostError) { return .success(try await stream(profile)) } catch { return .failure(error) }
    } onCancel: {
      adapter.loop.later(self) { $0.end() }
    }
    close()
    try result.get()
  }

  private func stream(_ profile: SensorProfile<some SensorSession>) async throws(HostError) {
    var backOff = BackOff()
    while !isOver {
      guard let failure = await attempt(profile), !isOver else { return }
      // If the first link ended because of one of this session's requests or a controller failure, connect
      // again. The request is then not sent.
      let isOurFault = avoidance.takeNews() || failure == .controllerReset
      let patience = isOurFault && !hasStreamed ? plan.connectTimeout : patienceLeft
      if outage == nil, isOurFault, !hasStreamed {
        outage = Outage(since: adapter.loop.clock.monotonic(), attempts: 1)
      }
      guard let outage, Self.isWorthAnother(failure), plan.patience > .zero || isOurFault && !hasStreamed
      else {
        throw failure
      }
      guard patience > .zero else {
        throw .noAnswer(plan.peer, seconds: Int(plan.patience.components.seconds))
      }
      // After a link that lasted, retry without a pause.
      if lastAge >= Self.steadyLinkAge, outage.attempts == 0 { backOff = BackOff() }
      let hadSamples = outage.attempts == 0 && links.last?.firstSampleAt != nil
      let pause = min(backOff.next(hadSamples: hadSamples), patience)
      if outage.attempts == 0, !gaps.isEmpty { gaps[gaps.count - 1].pause = pause }
      set(.reconnecting(attempt: outage.attempts + 1, pause: pause))
      if pause > .zero { try? await adapter.loop.wait(for: pause) }
    }
  }

  private var isOver: Bool { isEnding || Task.isCancelled }

  /// Remaining time for the current outage; `plan.patience` without an outage.
  private var patienceLeft: Duration {
    guard let outage else { return plan.patience }
    return plan.patience - outage.since.duration(to: adapter.loop.clock.monotonic())
  }

  // MARK: One link

  /// Connects within the remaining time, without the link parameters after which a link ended.
  private func connect() async throws(HostError) -> Connection {
    set(.connecting)
    var timeout = plan.connectTimeout
    if outage != nil {
      outage?.attempts += 1
      if !gaps.isEmpty { gaps[gaps.count - 1].attempts += 1 }
      timeout = max(min(timeout, patienceLeft), .milliseconds(1))
    }
    var request = plan.request
    request.startsFast = plan.startsFast
    avoidance.change(&request)
    lastAge = .zero
    return try await adapter.connect(to: plan.peer, asking: request, timeout: timeout, tap: plan.tap)
  }

  /// Connects, and streams until the link or the session ends.
  ///
  /// - Returns: the reason why the link ended or failed; `nil` if the session ends.
  private func attempt(_ profile: SensorProfile<some SensorSession>) async -> HostError? {
    let begunAt = adapter.loop.clock.monotonic()
    let connection: Connection
    do throws(HostError) { connection = try await connect() } catch {
      noteFailure(error, nil)
      return error
    }
    guard !isOver else {
      await connection.close()
      return nil
    }
    current = connection
    let madeAt = adapter.loop.clock.monotonic()
    await prepare(connection, profile.times)
    let connectedAt = adapter.loop.clock.now()
    var isStreaming = false
    do throws(HostError) {
      set(.discovering)
      let startTime = plan.startTimeout.left(after: begunAt.duration(to: madeAt))
      var stream = try await start(profile, on: connection, within: startTime)
      await remember(on: connection)
      let usedEarlierDiscovery = await connection.usesEarlierDiscovery
      completion = makeCompletion(of: stream, profile, on: connection)
      var before: Outage?
      if outage?.isSilent != true { (before, isStreaming) = (takeUp(connectedAt), true) }
      news: while true {
        switch await wait(for: connection, profile.times, stream.silenceRule) {
        case .over: break news
        case .firstSample: (before, isStreaming) = (takeUp(connectedAt), true)
        case .attributesChanged:
          await endCompletion()
          await connection.endSubscriptions()
          stream = try await start(profile, on: connection, within: plan.startTimeout)
          completion = makeCompletion(of: stream, profile, on: connection)
        }
      }
      await endCompletion()
      let end = await connection.end
      // The stop command must be sent even if the task is cancelled.
      if end == nil {
        await adapter.loop.uninterrupted { [stream] in await stream.stop() }
      }
      await leave(connection, profile, usedEarlierDiscovery, since: madeAt)
      guard let end else { return nil }
      let reason = await connection.disconnectReason
      if let before, lastAge < Self.steadyLinkAge, links.last?.firstSampleAt == nil {
        // The link was short and delivered no sample, so the outage continues.
        outage = before
        noteFailure(.gatt(.closed(end)), reason)
      } else if !isStreaming {
        outage?.emptyLinks += 1
        noteFailure(.gatt(.closed(end)), reason)
      } else if !isOver {
        beginGap(end, reason, profile.times)
      }
      return .gatt(.closed(end))
    } catch {
      let end = await connection.end
      await endCompletion()
      await leave(connection, profile, since: madeAt)
      let reason = await connection.disconnectReason
      // The link was lost during a restart of its stream, which makes a new gap.
      if isStreaming, let end, !isOver {
        beginGap(end, reason, profile.times)
      } else {
        noteFailure(error, reason)
      }
      return error
    }
  }

  /// Applies the causes learned on earlier links to a new link.
  private func prepare(_ connection: Connection, _ times: SampleTimes) async {
    avoidance.recall(await connection.recalled)
    await connection.avoid(avoidance.requests)
    await connection.limitAnswers(to: plan.answerTimeout)
    times.begin(connection.requests)
    if let wake = plan.wake { await connection.addWake(wake) }
    if let known { await connection.restore(known) }
  }

  /// Stores the causes for which earlier links ended, because the current link avoids them and streams.
  private func remember(on connection: Connection) async {
    let age = outage?.since.duration(to: adapter.loop.clock.monotonic()) ?? .zero
    guard age < Self.promptReturn else { return avoidance.dropUntold() }
    for suspect in avoidance.takeUntold() { await connection.blame(suspect) }
  }

  /// Records that the stream runs.
  ///
  /// - Returns: the outage that ended.
  private func takeUp(_ connectedAt: ReceiveTime) -> Outage? {
    if outage != nil, !gaps.isEmpty { gaps[gaps.count - 1].connectedAt = connectedAt }
    hasStreamed = true
    set(.streaming)
    return outage.take()
  }

  /// Starts the stream. Restarts it if the device's attributes change meanwhile, or if those of an earlier
  /// link were wrong.
  private func start<Session: SensorSession>(
    _ profile: SensorProfile<Session>, on connection: Connection
  ) async throws(HostError) -> Session {
    for _ in 0..<Self.restartLimit {
      let changes = await connection.attributeChangeCount
      do throws(HostError) {
        let stream = try await profile.start(on: connection)
        guard await connection.attributeChangeCount != changes else {
          changesAtStart = changes
          return stream
        }
      } catch {
        guard await connection.end == nil else { throw error }
        if await connection.attributeChangeCount == changes {
          guard await connection.usesEarlierDiscovery, Self.mayBeOfOldHandles(error) else { throw error }
          await connection.attributesChanged(in: .all)
        }
      }
      await connection.endSubscriptions()
    }
    throw .unsuitable("\(plan.peer) keeps changing its attributes")
  }

  /// Starts the stream, and closes the link if this takes longer than `time`.
  ///
  /// - Throws: `startTimedOut`, and the errors of starting the stream.
  private func start<Session: SensorSession>(
    _ profile: SensorProfile<Session>, on connection: Connection, within time: Duration
  ) async throws(HostError) -> Session {
    let end = adapter.loop.clock.monotonic().advanced(by: time)
    let timer = adapter.loop.after(time) { await connection.close() }
    defer { timer.cancel() }
    do throws(HostError) { return try await start(profile, on: connection) } catch {
      guard !isOver, await connection.end == .closedLocally, end <= adapter.loop.clock.monotonic() else {
        throw error
      }
      throw .startTimedOut(plan.peer, seconds: Int(plan.startTimeout.components.seconds))
    }
  }

  private func makeCompletion<Session: SensorSession>(
    of stream: Session, _ profile: SensorProfile<Session>, on connection: Connection
  ) -> StreamCompletion {
    StreamCompletion(of: stream, profile, on: connection, avoidance) { [weak self] in
      // Set the state again, because observers check the remarks with each state.
      if await !connection.remarks.isEmpty { await self?.setAgain() }
    }
  }

  private func setAgain() {
    if state == .streaming { set(.streaming) }
  }

  private func endCompletion() async { await completion.take()?.end() }

  /// Returns whether outdated handles can cause this error, after a change of the device's attributes.
  private static func mayBeOfOldHandles(_ failure: HostError) -> Bool {
    switch failure {
    case .gatt(.refused), .gatt(.malformed), .gatt(.notSupported), .gatt(.writeNotVerified), .unsuitable: true
    default: false
    }
  }

  /// Waits until the link or session ends or the attributes change. After a silent stream, also waits for the
  /// first sample. Closes the link if its stream becomes silent.
  private func wait(
    for connection: Connection, _ times: SampleTimes, _ rule: SilenceRule?
  ) async -> LinkNews {
    (isLinkOver, areAttributesChanged, hasSample) = (false, false, false)
    let number = linkCount
    let changes = changesAtStart
    adapter.loop.task { [weak self] in
      _ = await connection.ended()
      await self?.linkEnded(number)
    }
    adapter.loop.task { [weak self] in
      await connection.attributesChanged(since: changes)
      if await connection.end == nil { await self?.attributesChanged(number) }
    }
    let watcher = connection.isReplayed ? nil : rule.map { watch(connection, times, $0) }
    defer { watcher?.cancel() }
    let isSilent = outage?.isSilent == true
    if isSilent {
      adapter.loop.task { [weak self] in
        if (try? await times.waitForFirst()) != nil, times.first != nil { await self?.sampleCame(number) }
      }
    }
    await waiters.wait { isEnding || isLinkOver || areAttributesChanged || isSilent && hasSample }
    if isEnding || isLinkOver { return .over }
    return areAttributesChanged ? .attributesChanged : .firstSample
  }

  /// Monitors the stream, and closes the link if the stream becomes silent.
  private func watch(_ connection: Connection, _ times: SampleTimes, _ rule: SilenceRule) -> SilenceWatch {
    let loop = adapter.loop
    return SilenceWatch(
      rule, of: times, after: outage?.emptyLinks ?? 0,
      atMost: outage == nil ? nil : max(patienceLeft, .seconds(1)),
      on: loop
    ) { silence in
      _ = loop.task { await connection.close(for: .silent(seconds: Int(silence / .seconds(1)))) }
    }
  }

  /// Handles the first sample of a link.
  ///
  /// - Parameter number: see `linkEnded`.
  private func sampleCame(_ number: Int) {
    guard number == linkCount else { return }
    hasSample = true
    waiters.wakeAll()
  }

  /// Handles a change of the device's attributes.
  ///
  /// - Parameter number: see `linkEnded`.
  private func attributesChanged(_ number: Int) {
    guard number == linkCount else { return }
    areAttributesChanged = true
    waiters.wakeAll()
  }

  /// Handles the end of a link.
  ///
  /// - Parameter number: number of links before this link, so that a late event does not end a later link.
  private func linkEnded(_ number: Int) {
    guard number == linkCount else { return }
    isLinkOver = true
    waiters.wakeAll()
  }

  private func end() {
    guard state != .closed else { return }
    isEnding = true
    waiters.wakeAll()
    cutter = adapter.loop.after(Self.endPatience) { await self.cut() }
  }

  /// Closes the current link at once. For callers that end the session without waiting.
  package func cut() async { await current?.close() }

  /// Stores the summary of a link and closes the link.
  private func leave(
    _ connection: Connection, _ profile: SensorProfile<some SensorSession>,
    _ usedEarlierDiscovery: Bool = false,
    since madeAt: MonotonicTime
  ) async {
    lastAge = madeAt.duration(to: adapter.loop.clock.monotonic())
    shortLinks = lastAge < Self.steadyLinkAge ? shortLinks + 1 : 0
    if !isOver { avoidance.learn(await connection.suspect, await connection.end) }
    let summary = LinkSummary(
      handle: connection.handle, mtu: await connection.mtu,
      receiveBufferByteCount: await connection.receiveBufferByteCount,
      statistics: await connection.statistics, changes: await connection.changes,
      end: await connection.end, disconnectReason: await connection.disconnectReason,
      usedEarlierDiscovery: usedEarlierDiscovery,
      requestsBeforeFirstSample: profile.times.requestsBeforeFirst, firstSampleAt: profile.times.first,
      remarks: await connection.remarks)
    // If the link was lost before discovery, keep the known attributes.
    if let found = await connection.discovery {
      known = found
    } else if await connection.attributeChangeCount > 0 {
      known = nil
    }
    statistics.add(summary.statistics)
    links.append(limited: summary)
    linkCount += 1
    firstSampleAt = firstSampleAt ?? profile.times.first
    lastSampleAt = profile.times.last ?? lastSampleAt
    if !gaps.isEmpty, gaps[gaps.count - 1].firstSampleAt == nil {
      gaps[gaps.count - 1].firstSampleAt = profile.times.first
      gaps[gaps.count - 1].requestsBeforeFirstSample = summary.requestsBeforeFirstSample
    }
    await connection.close()
    profile.times.end()
    current = nil
  }

  // MARK: Gaps

  private func beginGap(_ end: BearerEnd, _ reason: HCIStatus?, _ times: SampleTimes) {
    var gap = SessionGap(
      end: end, reason: reason, lastSampleAt: times.last, lostAt: adapter.loop.clock.now())
    gap.shortLinks = shortLinks
    gaps.append(limited: gap)
    gapCount += 1
    outage = Outage(since: adapter.loop.clock.monotonic())
    if case .silent = end { outage?.isSilent = true }
  }

  private func noteFailure(_ error: HostError, _ reason: HCIStatus?) {
    guard !isOver else { return }
    let time = adapter.loop.clock.now()
    if outage != nil, !gaps.isEmpty, gaps[gaps.count - 1].failures.count < SessionGap.failureLimit.count {
      gaps[gaps.count - 1].failures.append(SessionGap.Failure(time: time, error: error, reason: reason))
    }
    // Error 0x3E: the device was present but missed the connection request. Retry even the first attempt.
    if outage == nil, reason?.rawValue == 0x3E {
      outage = Outage(since: adapter.loop.clock.monotonic(), attempts: 1)
    }
  }

  /// Returns whether a retry may succeed. If the adapter was removed or the device is unsuitable, it cannot.
  private static func isWorthAnother(_ failure: HostError) -> Bool {
    switch failure {
    // Without free file descriptors, a retry fails as well.
    case .connectFailed(_, let error) where error.isOfOpenFiles: false
    case .noAnswer, .startTimedOut, .channelBusy, .connectFailed, .linkFailed, .gatt(.closed),
      .gatt(.timedOut):
      true
    // The controller may still be closing the last link, or may have an incoming link.
    case .commandRefused: true
    default: false
    }
  }

  // MARK: State

  private func set(_ state: SessionState) {
    self.state = state
    for observer in observers { observer.yield(state) }
  }

  private func close() {
    set(.closed)
    cutter?.cancel()
    for observer in observers { observer.finish() }
    observers = []
  }
}

/// Requests that a session no longer sends to its device, because the device ended a link after them.
struct LinkAvoidance: Sendable {
  /// Number of avoided requests and parameters from which only the stream's required requests are sent.
  static let limit = 3

  /// ATT requests to avoid.
  private(set) var requests: Set<[UInt8]> = []
  private var parts: Set<LinkRequest.Part> = []
  private(set) var remarks: [LinkRemark] = []
  /// Learned causes that `takeUntold` has not returned yet.
  private var untold: [LinkSuspect] = []
  private var last: LinkSuspect?
  private var hasNews = false

  var asksNothing: Bool { requests.count + parts.count >= Self.limit }
  /// Whether to keep the connection interval, because the device ends its link when a change is requested.
  var keepsTiming: Bool { parts.contains(.timing) }

  /// Learns the suspected cause for which a device ended its link. If the device ended the link instead of
  /// responding, the cause is learned at once; otherwise it must be suspected twice in a row.
  mutating func learn(_ found: (cause: LinkSuspect, isUnanswered: Bool)?, _ end: BearerEnd?) {
    defer { last = found?.cause }
    guard let (suspect, isUnanswered) = found else { return }
    let isWish = end == .linkLost(.closedByPeer)
    guard isUnanswered ? isWish || last == suspect : isWish && last == suspect,
      !remarks.contains(.notAskedAgain(suspect))
    else { return }
    add(suspect)
    remarks.append(.notAskedAgain(suspect))
    untold.append(suspect)
    hasNews = true
  }

  /// Adds the causes that an earlier program remembered.
  mutating func recall(_ suspects: [LinkSuspect]) {
    for suspect in suspects { add(suspect) }
  }

  private mutating func add(_ suspect: LinkSuspect) {
    switch suspect {
    case .request(let pdu): requests.insert(pdu)
    case .parameters(let part): parts.insert(part)
    }
  }

  /// Returns causes to store that were learned since the last call. Subscriptions are omitted, because a
  /// stream without the subscription starts late.
  fileprivate mutating func takeUntold() -> [LinkSuspect] {
    defer { untold = [] }
    return untold.filter { !$0.isSubscription }
  }

  /// Forgets learned causes that were not returned yet. The device did not return promptly, so its user may
  /// have ended the link.
  fileprivate mutating func dropUntold() { untold = [] }

  /// Returns whether a cause was learned since the last call.
  fileprivate mutating func takeNews() -> Bool {
    defer { hasNews = false }
    return hasNews
  }

  /// Removes link parameters after which a link ended from a request.
  func change(_ request: inout LinkRequest) {
    if parts.contains(.phy) { request.phy = nil }
    if parts.contains(.dataLength) { request.dataLength = nil }
    guard keepsTiming else { return }
    // The link is created with its final parameters.
    (request.startsFast, request.keepsTiming) = (false, true)
  }
}

/// Work deferred until a stream's first sample has arrived, or until a timeout.
struct StreamCompletion: Sendable {
  /// Time after which the work starts without a sample. A ring with standard firmware sends one sample per
  /// second.
  static let patience = Duration.seconds(2)
  /// Time without a sample after which the attributes from an earlier link are verified once.
  private static let doubtAfter = Duration.seconds(5)
  /// Like `doubtAfter`, for attributes that an earlier program discovered. Such attributes are more likely to
  /// have changed.
  private static let doubtOfRecalledAfter = Duration.seconds(1)

  private let withoutFirst: Task<Void, Never>
  private let afterFirst: Task<Void, Never>

  /// Starts waiting for the first sample.
  ///
  /// - Parameters:
  ///   - stream: stream that was just started.
  ///   - profile: profile that does the work.
  ///   - connection: link of the stream.
  ///   - avoidance: requests to avoid.
  ///   - completed: called when the work is done.
  init<Session: SensorSession>(
    of stream: Session, _ profile: SensorProfile<Session>, on connection: Connection,
    _ avoidance: LinkAvoidance,
    completed: @escaping @Sendable () async -> Void
  ) {
    let (loop, times, turn) = (connection.loop, profile.times, Turn())
    let complete: @Sendable () async -> Void = {
      guard await connection.end == nil, !Task.isCancelled, turn.take() else { return }
      if !avoidance.asksNothing {
        await Connection.$need.withValue(.optional) { await profile.complete(stream) }
        await completed()
      }
      await connection.endFastStart()
    }
    let verify: @Sendable () async -> Void = {
      guard await connection.end == nil, !avoidance.asksNothing else { return }
      try? await Connection.$need.withValue(.optional) { try await connection.verify() }
    }
    let withoutFirst = loop.task {
      var pause = Self.patience
      if await connection.usesRecalledAttributes {
        guard (try? await loop.wait(for: Self.doubtOfRecalledAfter)) != nil, times.first == nil else {
          return
        }
        await verify()
        pause -= Self.doubtOfRecalledAfter
      }
      guard (try? await loop.wait(for: pause)) != nil, times.first == nil else { return }
      await complete()
      guard (try? await loop.wait(for: Self.doubtAfter - Self.patience)) != nil, times.first == nil
      else { return }
      await verify()
    }
    self.withoutFirst = withoutFirst
    afterFirst = loop.task {
      guard (try? await times.waitForFirst()) != nil else { return }
      if !turn.isTaken { withoutFirst.cancel() }
      // An error that ends the link also ends the session's wait for the link. A refusal has no effect.
      if await connection.end == nil, await connection.usesEarlierDiscovery, !avoidance.asksNothing {
        try? await Connection.$need.withValue(.optional) { try await connection.validate() }
      }
      await complete()
    }
  }

  /// Cancels the work. No request is sent after this returns, so the command that stops the sensor is the
  /// last request.
  func end() async {
    afterFirst.cancel()
    withoutFirst.cancel()
    await withoutFirst.value
    await afterFirst.value
  }

  /// Decides which of two tasks does the work.
  private final class Turn: Sendable {
    private let state = Atomic(false)

    var isTaken: Bool { state.load(ordering: .relaxed) }

    /// Claims the work.
    ///
    /// - Returns: whether the caller is the first.
    func take() -> Bool { !state.exchange(true, ordering: .relaxed) }
  }
}

/// Runs `body`. If the task is cancelled and `body` does not return within `patience`, closes the link, so
/// that the caller does not wait for an unresponsive device.
package func closing<Value>(
  _ connection: Connection, after patience: Duration, isolation: isolated (any Actor)? = #isolation,
  _ body: () async throws -> Value
) async throws -> Value {
  let timer = OneShot<Task<Void, Never>>()
  defer { timer.current?.cancel() }
  return try await withTaskCancellationHandler {
    try await body()
  } onCancel: {
    timer.set(connection.loop.after(patience) { await connection.close() })
  }
}
