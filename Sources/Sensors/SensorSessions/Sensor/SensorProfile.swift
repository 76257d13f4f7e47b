public import BLEHost
import BLELinux
package import BLEWire
import Synchronization

/// One kind of sensor on one link: its stream first, then who it is.
public protocol SensorSession: Sendable {
  associatedtype Sample: NotificationSample
  /// What the stream is started with.
  associatedtype Settings: Sendable

  /// Samples that may wait for a recorder, which lets them gather for a quarter of a second: 1,024 unless it is said here.
  static var queueCapacity: Int { get }

  /// Finds what the stream needs, subscribes, and has the sensor begin: no request that the first sample does not need.
  ///
  /// - Throws: `unsuitable` where the device is no such sensor.
  static func start(
    _ settings: Settings, on connection: Connection, into sink: SampleSink<Sample>
  ) async throws(HostError) -> Self
  /// Does what the first sample need not wait for: finds the other attributes, reads who the sensor is. Once for each start,
  /// while samples come. It begins nothing more once its task is cancelled.
  ///
  /// - Returns: `nil` where the attributes have changed: the stream is started anew then, and this comes again.
  func complete() async throws(HostError) -> SensorFacts?
  /// Tells the sensor to send no more.
  func stop() async
  /// When the stream counts as silent though the link is up; `nil`, if the sensor may rest: unless it is said here.
  var silenceRule: SilenceRule? { get }
  /// For a link after the first.
  static func again(_ settings: Settings) -> Settings
}

extension SensorSession {
  public static var queueCapacity: Int { 1024 }

  public var silenceRule: SilenceRule? { nil }

  public static func again(_ settings: Settings) -> Settings { settings }
}

/// A session with a sensor: its samples are one sequence, whatever becomes of the links.
public final class SensorProfile<Session: SensorSession>: SessionProfile {
  /// Values that could not be decoded are counted by it, and skipped. It ends when `finish` is called.
  public var samples: SampleChannel<Session.Sample> { sink.samples }
  /// Each link that streams; it ends when `finish` is called.
  public let sessions: AsyncStream<Session>
  public var times: SampleTimes { sink.times }
  /// Who the sensor is, once the first link that streams has told; `nil` before.
  public var facts: SensorFacts? { known.withLock(\.facts) }
  /// Whether the sensor ended the stream by itself, though the link is up; `samples` end then.
  public var isEndedBySensor: Bool { sink.isEndedBySensor }

  private let settings: Session.Settings
  private let sink: SampleSink<Session.Sample>
  private let started: AsyncStream<Session>.Continuation
  /// Who it is, and whether more may become known.
  private let known = Mutex<(facts: SensorFacts?, isFinal: Bool)>((nil, false))
  private let learners = Waiters()
  private let told: @Sendable (SensorFacts) -> Void
  private let isFirst = Atomic<Bool>(true)

  /// When the start of a stream was begun, by both clocks: no sample of it is earlier.
  package typealias Start = (time: ReceiveTime, monotonic: MonotonicTime)
  private let begin: @Sendable (Session, Connection, Start) async throws(HostError) -> Void

  public convenience init(_ settings: Session.Settings) {
    self.init(settings, SampleSink())
  }

  /// - Parameters:
  ///   - told: hears who the sensor is, each time that it tells.
  ///   - begin: what is done on each link once the stream runs.
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
    // What ends the link ends the session's wait for it, too.
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

  /// Waits until it is known who the sensor is.
  ///
  /// - Returns: with nothing in it where it never told, or the task is cancelled.
  package func learned() async -> SensorFacts {
    try? await learners.waitUnlessCancelled { known.withLock { $0.facts != nil || $0.isFinal } }
    return facts ?? SensorFacts()
  }

  /// Nothing more comes.
  public func finish() {
    started.finish()
    samples.finish()
    learn(nil, isFinal: true)
  }
}
