public import BLEHost
import BLELinux
package import BLEWire
import Synchronization

/// Session with one kind of sensor on one link. Starts the stream, then reads the sensor's identity.
public protocol SensorSession: Sendable {
  associatedtype Sample: NotificationSample
  /// Settings with which the stream is started.
  associatedtype Settings: Sendable

  /// Capacity of the sample queue, in samples, for a recorder that empties it every 250 ms. The default is
  /// 1,024.
  static var queueCapacity: Int { get }

  /// Finds the attributes that the stream needs, subscribes, and starts the stream. Sends only requests that
  /// are required for the first sample.
  ///
  /// - Throws: `unsuitable` if the device is not such a sensor.
  static func start(
    _ settings: Settings, on connection: Connection, into sink: SampleSink<Sample>
  ) async throws(HostError) -> Self
  /// Does the work that can follow the first sample: discovers the other attributes and reads the sensor's
  /// identity. Called once for each start of the stream, while samples arrive. Sends no further request after
  /// its task is cancelled.
  ///
  /// - Returns: `nil` if the attributes have changed. The stream is then restarted, and this method is called
  ///   again.
  func complete() async throws(HostError) -> SensorFacts?
  /// Stops the stream.
  func stop() async
  /// Rule for detecting a silent stream on a working link; `nil`, the default, if the sensor may pause.
  var silenceRule: SilenceRule? { get }
  /// Returns the settings for each link after the first.
  static func again(_ settings: Settings) -> Settings
}

extension SensorSession {
  public static var queueCapacity: Int { 1024 }

  public var silenceRule: SilenceRule? { nil }

  public static func again(_ settings: Settings) -> Settings { settings }
}

/// Session with a sensor, with a single sequence of samples over all links.
public final class SensorProfile<Session: SensorSession>: SessionProfile {
  /// Samples of all links, until `finish` is called. Values that cannot be decoded are counted and skipped.
  public var samples: SampleChannel<Session.Sample> { sink.samples }
  /// The session on each link with a running stream, until `finish` is called.
  public let sessions: AsyncStream<Session>
  public var times: SampleTimes { sink.times }
  /// Identity of the sensor; `nil` until a link has read it.
  public var facts: SensorFacts? { known.withLock(\.facts) }
  /// Whether the sensor ended the stream although the link is up. `samples` then ends too.
  public var isEndedBySensor: Bool { sink.isEndedBySensor }

  private let settings: Session.Settings
  private let sink: SampleSink<Session.Sample>
  private let started: AsyncStream<Session>.Continuation
  /// Identity of the sensor, and whether it is final.
  private let known = Mutex<(facts: SensorFacts?, isFinal: Bool)>((nil, false))
  private let learners = Waiters()
  private let told: @Sendable (SensorFacts) -> Void
  private let isFirst = Atomic<Bool>(true)

  /// Start time of a stream on both clocks. No sample of the stream is earlier.
  package typealias Start = (time: ReceiveTime, monotonic: MonotonicTime)
  private let begin: @Sendable (Session, Connection, Start) async throws(HostError) -> Void

  public convenience init(_ settings: Session.Settings) {
    self.init(settings, SampleSink())
  }

  /// Creates a profile.
  ///
  /// - Parameters:
  ///   - settings: settings of the stream on the first link.
  ///   - sink: receives the samples.
  ///   - told: called with the sensor's identity each time it is read.
  ///   - begin: called on each link when the stream runs.
  package init(
    _ settings: Session.Settings, _ sink: SampleSink<Session.Sample>,
    told: @escaping @Sendable (SensorFacts) -> Void = { _ in },
    begin: @escaping @Sendable (Session, Connection, Start) async throws(HostError) -> Void = { _, _, _ in }
  ) {
    self.told = told
    self.settings = settings
    self.sink = sink
    self.begin = begin
    (sessions, started) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  public func start(on connection: Connection) async throws(HostError) -> Session {
    let clock = connection.loop.clock
    let begunAt = (clock.now(), clock.monotonic())
    let settings = isFirst.load(ordering: .relaxed) ? settings : Session.again(settings)
    let session = try await Session.start(settings, on: connection, into: sink)
    isFirst.store(false, ordering: .relaxed)
    do throws(HostError) { try await begin(session, connection, begunAt) } catch {
      await session.stop()
      throw error
    }
    started.yield(session)
    return session
  }

  public func complete(_ session: Session) async {
    // An error that ends the link also ends the session's wait for the link.
    guard let facts = (try? await session.complete()) ?? nil else { return }
    learn(facts, isFinal: false)
    told(facts)
  }

  private func learn(_ facts: SensorFacts?, isFinal: Bool) {
    known.withLock { $0 = (facts ?? $0.facts, $0.isFinal || isFinal) }
    learners.wakeAll()
  }

  public func silenceRule(of session: Session) -> SilenceRule? { session.silenceRule }

  public func stop(_ session: Session) async { await session.stop() }

  /// Waits until the sensor's identity is known.
  ///
  /// - Returns: empty facts if the sensor never reports any, or if the task is cancelled.
  package func learned() async -> SensorFacts {
    try? await learners.waitUnlessCancelled { known.withLock { $0.facts != nil || $0.isFinal } }
    return facts ?? SensorFacts()
  }

  /// Ends `samples` and `sessions`.
  public func finish() {
    started.finish()
    samples.finish()
    learn(nil, isFinal: true)
  }
}

/// Sample stream of one sensor of any kind, over all links of a session.
package struct SensorFeed<Sample: NotificationSample>: Sendable {
  /// Samples; the sequence ends when `finish` is called.
  package let samples: SampleChannel<Sample>
  private let first: @Sendable () async -> Bool
  private let learned: @Sendable () async -> SensorFacts
  private let stream: @Sendable (DeviceSession) async throws(HostError) -> Void
  private let end: @Sendable () -> Void

  package init<Session: SensorSession>(
    _ type: Session.Type, _ settings: Session.Settings
  ) where Session.Sample == Sample {
    let profile = SensorProfile<Session>(settings)
    samples = profile.samples
    first = {
      var sessions = profile.sessions.makeAsyncIterator()
      return await sessions.next() != nil
    }
    learned = { await profile.learned() }
    stream = { session throws(HostError) in try await session.run(profile) }
    end = { profile.finish() }
  }

  /// Waits for the first running stream. Call this only once.
  ///
  /// - Returns: `false` if the feed is finished or the task is cancelled first.
  package func firstStart() async -> Bool { await first() }

  /// Waits for the sensor's identity, which is read soon after its first sample.
  ///
  /// - Returns: empty facts if the sensor never reports any, or if the task is cancelled.
  package func facts() async -> SensorFacts { await learned() }

  /// Keeps the sensor connected and streaming, as `DeviceSession.run` does.
  package func run(_ session: DeviceSession) async throws(HostError) { try await stream(session) }

  /// Ends the feed.
  package func finish() { end() }
}
