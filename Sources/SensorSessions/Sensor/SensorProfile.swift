package import BLECore
public import BLEHost
import BLEStack
import Synchronization

/// One kind of sensor on one link: who it is, and its stream.
public protocol SensorSession: Sendable {
  associatedtype Sample: NotificationSample
  /// What the stream is started with.
  associatedtype Settings: Sendable

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
  public func complete() async {}

  public static func again(_ settings: Settings) -> Settings { settings }
}

/// Where the samples of a sensor go on the receive thread, over all links.
public final class SampleSink<Sample: NotificationSample>: Sendable {
  package let samples: SampleChannel<Sample>
  package let times = SampleTimes()
  private let isEnded = Atomic<Bool>(false)
  private let ended: @Sendable () -> Void

  /// - Parameters:
  ///   - capacity: samples that may wait for a slow reader.
  ///   - ended: called where the sensor ends the stream by itself.
  package init(capacity: Int = 1024, ended: @escaping @Sendable () -> Void = {}) {
    samples = SampleChannel(capacity: capacity)
    self.ended = ended
  }

  /// Decodes and queues one value; what cannot be decoded is counted. Receive thread only.
  package func take(_ value: Span<UInt8>, at time: ReceiveTime) {
    take(at: time) { () throws(WireError) in try Sample(decoding: value, at: time) }
  }

  /// The same with a decoder for values that have more than one form.
  package func take(at time: ReceiveTime, _ decode: () throws(WireError) -> Sample) {
    do throws(WireError) {
      samples.take(try decode())
      times.note(time)
    } catch { samples.reject() }
  }

  /// Whether the sensor ended the stream, though the link is up.
  package var isEndedBySensor: Bool { isEnded.load(ordering: .relaxed) }

  /// Receive thread only.
  package func end() {
    isEnded.store(true, ordering: .relaxed)
    samples.finish()
    ended()
  }
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

  private let begin: @Sendable (Session, Connection) async throws(HostError) -> Void

  public convenience init(_ settings: Session.Settings) {
    self.init(settings, SampleSink()) { _, _ in }
  }

  /// - Parameter begin: what is done on each link once the stream runs.
  package init(
    _ settings: Session.Settings, _ sink: SampleSink<Session.Sample>,
    begin: @escaping @Sendable (Session, Connection) async throws(HostError) -> Void
  ) {
    self.settings = settings
    self.sink = sink
    self.begin = begin
    (sessions, started) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  public func start(on connection: Connection) async throws(HostError) -> Session {
    let settings = isFirst.load(ordering: .relaxed) ? settings : Session.again(settings)
    let session = try await Session.start(settings, on: connection, into: sink)
    isFirst.store(false, ordering: .relaxed)
    try await begin(session, connection)
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
