public import BLECore
public import BLEHost
public import BLEStack
import BLESystem
public import BLEWire

/// What a session does with each link to its device: the kind of sensor.
public protocol SessionProfile: Sendable {
  associatedtype Stream: Sendable

  /// When samples came; one object for the whole session.
  var times: SampleTimes { get }
  /// Discovers, subscribes and starts the stream.
  ///
  /// - Throws: `gatt(closed)` where the link ends meanwhile, which is tried again; anything else ends the session.
  func start(on connection: Connection) async throws(HostError) -> Stream
  /// Asks the device to send no more, while the link is up.
  func stop(_ stream: Stream) async
}

/// A device that is kept connected and streaming: whenever the link is lost, it is made again.
///
/// It lives on its adapter's loop. What is lost between two links is listed as gaps; everything that arrived is the
/// profile's.
public actor DeviceSession {
  /// What remains of one link.
  public struct LinkSummary: Sendable {
    public var handle: ConnectionHandle
    public var mtu: Int
    public var receiveBufferByteCount: Int
    public var statistics: BearerStatistics
    public var changes: [LinkChange]
    public var end: BearerEnd?
    public var disconnectReason: HCIStatus?
  }

  /// How to connect, and how long to go on without the device.
  public struct Plan: Sendable {
    public var peer: DeviceAddress
    public var request = LinkRequest()
    public var connectTimeout = Duration.seconds(20)
    /// Since the loss of a link; zero: a lost link is the end.
    public var patience = Duration.zero
    public var tap: PacketTap?

    public init(_ peer: DeviceAddress) { self.peer = peer }
  }

  public nonisolated let adapter: any Adapter
  public nonisolated let plan: Plan
  public nonisolated var unownedExecutor: UnownedSerialExecutor { adapter.loop.executor }

  public private(set) var state = SessionState.idle
  /// In order.
  public private(set) var gaps: [SessionGap] = []
  public private(set) var links: [LinkSummary] = []
  private var observers: [AsyncStream<SessionState>.Continuation] = []
  private var current: Connection?
  /// Whoever waits for the end of the link or of the session.
  private var waiter: CheckedContinuation<Void, Never>?
  private var isEnding = false

  public init(_ plan: Plan, on adapter: any Adapter) {
    self.plan = plan
    self.adapter = adapter
  }

  /// The states from now on; a slow reader gets the latest ones.
  public func states() -> AsyncStream<SessionState> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: SessionState.self, bufferingPolicy: .bufferingNewest(64))
    continuation.yield(state)
    observers.append(continuation)
    return stream
  }

  /// Connects and streams until the task is cancelled, which stops the stream and closes the link, or until the device
  /// does not come back.
  ///
  /// - Throws: what kept the first link from streaming, or what ended the last one.
  public func run(_ profile: some SessionProfile) async throws(HostError) {
    let result: Result<Void, HostError> = await withTaskCancellationHandler {
      do throws(HostError) { return .success(try await stream(profile)) } catch { return .failure(error) }
    } onCancel: {
      Task(executorPreference: adapter.loop.preference) { await self.end() }
    }
    close()
    try result.get()
  }

  private func stream(_ profile: some SessionProfile) async throws(HostError) {
    var backOff = BackOff()
    while !Task.isCancelled {
      guard let failure = await attempt(profile), !Task.isCancelled else { return }
      guard let lost = gaps.last, Self.isWorthAnother(failure) else { throw failure }
      let without = Duration.nanoseconds(adapter.loop.clock.now().nanoseconds - lost.lostAt.nanoseconds)
      guard without < plan.patience else { throw failure }
      // A link that streamed was worth it: the next attempt comes at once.
      if lost.attempts == 0 { backOff = BackOff() }
      let pause = backOff.next()
      set(.reconnecting(attempt: lost.attempts + 1, pause: pause))
      if pause > .zero { try? await adapter.loop.wait(for: pause) }
    }
  }

  // MARK: One link

  /// - Returns: why the link ended or did not come up; `nil` where the session ends.
  private func attempt(_ profile: some SessionProfile) async -> HostError? {
    set(.connecting)
    if !gaps.isEmpty { gaps[gaps.count - 1].attempts += 1 }
    let connection: Connection
    do throws(HostError) {
      connection = try await adapter.connect(
        to: plan.peer, asking: plan.request, timeout: plan.connectTimeout, tap: plan.tap)
    } catch { return error }
    current = connection
    profile.times.begin()
    let connectedAt = adapter.loop.clock.now()
    do throws(HostError) {
      set(.discovering)
      let stream = try await profile.start(on: connection)
      if !gaps.isEmpty, gaps[gaps.count - 1].connectedAt == nil {
        gaps[gaps.count - 1].connectedAt = connectedAt
      }
      set(.streaming)
      await wait(for: connection)
      let end = await connection.end
      // A cancelled task must not skip the stop.
      if end == nil {
        await Task(executorPreference: adapter.loop.preference) { await profile.stop(stream) }.value
      }
      await leave(connection, profile, streamed: true)
      guard let end else { return nil }
      return .gatt(.closed(end))
    } catch {
      await leave(connection, profile, streamed: false)
      return error
    }
  }

  /// Waits for the link's end or the session's.
  private func wait(for connection: Connection) async {
    let watch = Task(executorPreference: adapter.loop.preference) { [weak self] in
      _ = await connection.ended()
      await self?.resume()
    }
    if !isEnding, await connection.end == nil { await withCheckedContinuation { waiter = $0 } }
    watch.cancel()
  }

  private func end() {
    isEnding = true
    resume()
  }

  private func resume() {
    waiter?.resume()
    waiter = nil
  }

  /// Keeps what is to be known of a link, and begins a gap.
  private func leave(_ connection: Connection, _ profile: some SessionProfile, streamed: Bool) async {
    let end = await connection.end
    let reason = await connection.disconnectReason
    links.append(
      LinkSummary(
        handle: connection.handle, mtu: await connection.mtu,
        receiveBufferByteCount: await connection.receiveBufferByteCount,
        statistics: await connection.statistics, changes: await connection.changes, end: end,
        disconnectReason: reason))
    completeGap(profile.times)
    if streamed, let end, !isEnding {
      gaps.append(
        SessionGap(
          end: end, reason: reason, lastSampleAt: profile.times.last, lostAt: adapter.loop.clock.now()))
    }
    await connection.close()
    current = nil
  }

  private func completeGap(_ times: SampleTimes) {
    guard !gaps.isEmpty, gaps[gaps.count - 1].firstSampleAt == nil else { return }
    gaps[gaps.count - 1].firstSampleAt = times.first
  }

  /// Whether the device may be there again: not where the adapter is gone or the device is another one.
  private static func isWorthAnother(_ failure: HostError) -> Bool {
    switch failure {
    case .noAnswer, .channelBusy, .connectFailed, .linkFailed, .gatt(.closed), .gatt(.timedOut): true
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
    for observer in observers { observer.finish() }
    observers = []
  }
}
