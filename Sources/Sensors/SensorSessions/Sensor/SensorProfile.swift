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

/// The stream of a sensor over all links of a session: its samples, its identity, and how it is started and
/// stopped.
public final class SensorProfile<Session: SensorSession>: Sendable {
  /// Samples of all links, until `finish` is called. Values that cannot be decoded are counted and skipped.
  public var samples: SampleChannel<Session.Sample> { sink.samples }
  /// Receive times of samples. The whole session uses the same object.
  public var times: SampleTimes { sink.times }
  /// Identity of the sensor; `nil` until the first streaming link has reported it.
  public var facts: SensorFacts? { identity.facts }
  /// Whether the sensor ended the stream by itself although the link is up. `samples` then ends, too.
  public var isEndedBySensor: Bool { sink.isEndedBySensor }

  /// Identity of the sensor, for callers that do not know the type of the session.
  package let identity: SensorIdentity
  private let settings: Session.Settings
  private let sink: SampleSink<Session.Sample>
  /// The first stream; `nil` if there was none.
  private let first = OneShot<FirstStream?>()
  private let isFirst = Atomic<Bool>(true)

  /// The session that started the first stream, and the time by both clocks at which the start began. No
  /// sample of the stream is earlier.
  package struct FirstStream: Sendable {
    package let session: Session
    package let time: ReceiveTime
    package let monotonic: MonotonicTime
  }

  public convenience init(_ settings: Session.Settings) {
    self.init(settings, SampleSink())
  }

  /// - Parameter told: called with the sensor's identity each time it is read.
  package init(
    _ settings: Session.Settings, _ sink: SampleSink<Session.Sample>,
    told: @escaping @Sendable (SensorFacts) -> Void = { _ in }
  ) {
    identity = SensorIdentity(told: told)
    self.settings = settings
    self.sink = sink
  }

  /// Waits until the sensor's identity is known.
  ///
  /// - Returns: empty facts if the sensor never reports any, or if the task is cancelled.
  package func learned() async -> SensorFacts { await identity.learned() }

  /// Waits until the stream runs for the first time, even if the task is cancelled.
  ///
  /// - Returns: `nil` if `finish` is called before.
  package func firstStream() async -> FirstStream? { await first.value() }

  /// Whether the stream has run.
  package var isStarted: Bool { first.current.map { $0 != nil } ?? false }

  /// Finds the attributes that the stream needs, subscribes, and starts the stream.
  ///
  /// - Throws: `gatt(closed)` if the link ends meanwhile, which is retried; any other error ends the session.
  package func start(on connection: Connection) async throws(HostError) -> Session {
    let clock = connection.loop.clock
    let (time, monotonic) = (clock.now(), clock.monotonic())
    let settings = isFirst.load(ordering: .relaxed) ? settings : Session.again(settings)
    let session = try await Session.start(settings, on: connection, into: sink)
    isFirst.store(false, ordering: .relaxed)
    first.set(FirstStream(session: session, time: time, monotonic: monotonic))
    return session
  }

  /// Does the work that can follow the first sample. Called after the first sample, or after a timeout. Sends
  /// no further requests once its task is cancelled.
  func complete(_ session: Session) async {
    // An error that ends the link also ends the session's wait for it.
    guard let facts = (try? await session.complete()) ?? nil else { return }
    identity.learn(facts)
  }

  /// Ends `samples`. Called when the session has ended.
  public func finish() {
    first.set(nil)
    samples.finish()
    identity.finish()
  }
}

/// The identity of a sensor, which is read soon after its first sample.
package final class SensorIdentity: Sendable {
  /// Identity of the sensor, and whether it is final.
  private let known = Mutex<(facts: SensorFacts?, isFinal: Bool)>((nil, false))
  private let learners = Waiters()
  private let told: @Sendable (SensorFacts) -> Void

  init(told: @escaping @Sendable (SensorFacts) -> Void) { self.told = told }

  /// `nil` until it was read.
  var facts: SensorFacts? { known.withLock(\.facts) }

  /// Waits until the identity is known.
  ///
  /// - Returns: empty facts if the sensor never reports any, or if the task is cancelled.
  package func learned() async -> SensorFacts {
    try? await learners.waitUnlessCancelled { known.withLock { $0.facts != nil || $0.isFinal } }
    return facts ?? SensorFacts()
  }

  func learn(_ facts: SensorFacts) {
    known.withLock { $0.facts = facts }
    learners.wakeAll()
    told(facts)
  }

  func finish() {
    known.withLock { $0.isFinal = true }
    learners.wakeAll()
  }
}
