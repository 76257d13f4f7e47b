package import BLECore
public import BLEHost
import BLELinux
import Synchronization

/// One kind of sensor on one link: who it is, and its stream.
public protocol SensorSession: Sendable {
  associatedtype Sample: NotificationSample
  /// What the stream is started with.
  associatedtype Settings: Sendable

  /// Samples that may wait for a recorder, which lets them gather for a quarter of a second: 1,024 unless it is said here.
  static var queueCapacity: Int { get }

  var facts: SensorFacts { get }
  /// Discovers, reads, and subscribes.
  ///
  /// - Throws: `unsuitable` where the device is no such sensor.
  static func start(
    _ settings: Settings, on connection: Connection, into sink: SampleSink<Sample>
  ) async throws(HostError) -> Self
  /// What the first sample need not wait for; at most once a link.
  func complete() async
  /// Tells the sensor to send no more.
  func stop() async
  /// For a link after the first.
  static func again(_ settings: Settings) -> Settings
}

extension SensorSession {
  public static var queueCapacity: Int { 1024 }

  public func complete() async {}

  public static func again(_ settings: Settings) -> Settings { settings }
}

/// A session with a sensor: its samples are one sequence, whatever becomes of the links.
public final class SensorProfile<Session: SensorSession>: SessionProfile {
  /// Values that could not be decoded are counted by it, and skipped. It ends when `finish` is called.
  public var samples: SampleChannel<Session.Sample> { sink.samples }
  /// Each link that streams; it ends when `finish` is called.
  public let sessions: AsyncStream<Session>
  public var times: SampleTimes { sink.times }
  /// Whether the sensor ended the stream by itself, though the link is up; `samples` end then.
  public var isEndedBySensor: Bool { sink.isEndedBySensor }

  private let settings: Session.Settings
  private let sink: SampleSink<Session.Sample>
  private let started: AsyncStream<Session>.Continuation
  private let isFirst = Atomic<Bool>(true)

  /// When the start of a stream was begun, by both clocks: no sample of it is earlier.
  package typealias Start = (time: ReceiveTime, monotonic: MonotonicTime)
  private let begin: @Sendable (Session, Connection, Start) async throws(HostError) -> Void

  public convenience init(_ settings: Session.Settings) {
    self.init(settings, SampleSink())
  }

  /// - Parameter begin: what is done on each link once the stream runs.
  package init(
    _ settings: Session.Settings, _ sink: SampleSink<Session.Sample>,
    begin: @escaping @Sendable (Session, Connection, Start) async throws(HostError) -> Void = { _, _, _ in }
  ) {
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

  public func complete(_ session: Session) async { await session.complete() }

  public func stop(_ session: Session) async { await session.stop() }

  /// Nothing more comes.
  public func finish() {
    started.finish()
    samples.finish()
  }
}
