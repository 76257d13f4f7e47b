public import BLEHost
public import BLEWire
import Synchronization

/// A COLMI ring whose raw stream runs.
public typealias Ring = Sensor<RingRawReading>

/// A sensor that is connected and streams: what `Radio.withSensor` and `Radio.withRing` give their body.
///
/// ```swift
/// try await radio.withSensor(.heartRate) { strap in
///   for try await beat in strap.values.prefix(60) { print(beat.beatsPerMinute, beat.rrIntervals) }
///   print(await strap.facts.model ?? "a strap", await strap.loss)
/// }
/// ```
public struct Sensor<Sample: NotificationSample>: Sendable {
  /// Who it is, to whoever connects to it again.
  public let address: DeviceAddress
  /// What it measures, as it comes, over all links.
  public let values: SensorValues<Sample>
  private let session: DeviceSession
  private let feed: SensorFeed<Sample>

  fileprivate init(
    _ address: DeviceAddress, _ values: SensorValues<Sample>, _ session: DeviceSession,
    _ feed: SensorFeed<Sample>
  ) {
    self.address = address
    self.values = values
    self.session = session
    self.feed = feed
  }

  /// What it tells of itself, once it has: the stream comes first, and the sensor is asked after its first value, or a second
  /// without one. A ring is not asked.
  public var facts: SensorFacts { get async { await feed.facts() } }

  /// What arrived and was lost on this side, by queue: 0 of each where nothing was.
  ///
  /// `kernelQueue` is the kernel's receive queue, `sampleQueue` the one before the loop over `values`: a loop that takes too
  /// long loses values there. What the radio never received is not in it.
  public var loss: SessionReport.Loss {
    get async {
      var loss = SessionReport.Loss()
      loss.kernelQueue =
        await session.statistics.kernelQueueDrops + session.currentStatistics.kernelQueueDrops
      loss.sampleQueue = values.channel.dropped
      return loss
    }
  }

  /// The times without a link until now, in order.
  public var gaps: [SessionGap] { get async { await session.gaps } }
}

extension Sensor where Sample == RingRawReading {
  /// The frames of the ring's raw stream, as they come: acceleration, green and red light by turns.
  public var rawSamples: SensorValues<RingRawReading> { values }
}

/// What a sensor measures, as a sequence: `Sensor.values`.
///
/// It goes on through lost links while `patience` lasts. It ends without an error where the sensor stops the stream or the
/// task is cancelled, with what is queued coming first; with `HostError.gatt(.closed)` or `noAnswer` where the link is lost
/// for good.
///
/// 1,024 values may wait for the loop; more are dropped and counted by `Sensor.loss`. One loop at a time takes values, and
/// the next one goes on where it ended: two tasks that iterate at once end the program.
public struct SensorValues<Value: NotificationSample>: AsyncSequence, Sendable {
  /// A value, with its time.
  public typealias Element = Value
  /// How the link was lost for good.
  public typealias Failure = HostError

  let channel: SampleChannel<Value>
  fileprivate let end: SessionEnd

  /// Values that were malformed: shorter than they say, or with a wrong checksum. They are skipped.
  public var malformed: Int { channel.malformed }

  /// Goes on where the loop before ended.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(channel: channel, end: end) }

  /// One loop.
  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let channel: SampleChannel<Value>
    fileprivate let end: SessionEnd

    /// The next value; waits for it.
    public func next() async throws(HostError) -> Value? { try await next(isolation: #isolation) }

    /// The same, for an actor.
    public func next(isolation actor: isolated (any Actor)?) async throws(HostError) -> Value? {
      let isAlone = !end.isTaken.exchange(true, ordering: .acquiring)
      precondition(isAlone, "one loop at a time takes a sensor's values")
      defer { end.isTaken.store(false, ordering: .releasing) }
      if let value = await channel.makeAsyncIterator().next() { return value }
      if let failure = end.failure.withLock({ $0 }) { throw failure }
      return nil
    }
  }
}

/// What ended a session, for those who iterate.
private final class SessionEnd: Sendable {
  let failure = Mutex<HostError?>(nil)
  /// Somebody is at the queue, which has one consumer.
  let isTaken = Atomic(false)
}

extension Radio {
  /// Connects to a sensor, starts its stream, and keeps both up while `body` runs.
  ///
  /// ```swift
  /// try await radio.withSensor(.heartRate, patience: .seconds(60)) { strap in
  ///   for try await beat in strap.values { print(beat.time.nanoseconds, beat.beatsPerMinute) }
  /// }
  /// ```
  ///
  /// When `body` returns or throws, or the task is cancelled, the sensor is told to stop and the link is closed before this
  /// returns. Do not keep the sensor beyond: its values end there.
  ///
  /// - Parameters:
  ///   - kind: what is looked for, and how its values are read.
  ///   - address: the sensor, where it is known; then nothing is scanned for, which needs a capability.
  ///   - name: the exact advertised name to look for instead.
  ///   - duration: how long to look.
  ///   - patience: how long to go on without the sensor after a lost link; zero: a lost link is the end.
  ///   - body: runs once the stream does.
  /// - Returns: what `body` does.
  /// - Throws: `HostError` where no stream started: `notFound`, `noAnswer`, `unsuitable` for a device that is no such sensor;
  ///   `CancellationError` where the task was cancelled before; what `body` throws.
  public func withSensor<Sample, Value>(
    _ kind: SensorKind<Sample>, at address: DeviceAddress? = nil, named name: String? = nil,
    within duration: Duration = Radio.searchTime, patience: Duration = .zero,
    _ body: (Sensor<Sample>) async throws -> Value
  ) async throws -> Value {
    await scans.end()
    let peer =
      if let address { address } else { try await find(kind, named: name, within: duration).address }
    var plan = DeviceSession.Plan(peer)
    plan.patience = patience
    let (session, feed, end) = (DeviceSession(plan, on: adapter), kind.makeFeed(), SessionEnd())
    // Leaving this scope cancels it and waits for it: that stops the stream and closes the link.
    async let running: Void = Self.run(session, feed, end)
    guard await feed.firstStart() else {
      await running
      throw end.failure.withLock { $0 } ?? CancellationError()
    }
    return try await body(
      Sensor(peer, SensorValues(channel: feed.samples, end: end), session, feed))
  }

  private static func run<Sample>(
    _ session: DeviceSession, _ feed: SensorFeed<Sample>, _ end: SessionEnd
  ) async {
    do throws(HostError) { try await feed.run(session) } catch { end.failure.withLock { $0 = error } }
    feed.finish()
  }

  /// Connects to a ring, starts its raw stream, and keeps both up while `body` runs: `withSensor(.ring)`.
  ///
  /// ```swift
  /// try await radio.withRing { ring in
  ///   for try await sample in ring.rawSamples.prefix(300) { print(sample) }
  ///   print("lost: \(await ring.loss)")
  /// }
  /// ```
  ///
  /// When `body` returns or throws, or the task is cancelled, the ring is told to stop and the link is closed before this
  /// returns.
  ///
  /// - Parameters:
  ///   - address: the ring, where it is known; then nothing is scanned for.
  ///   - name: the exact advertised name to look for; `nil` for the first ring in range.
  ///   - duration: how long to look.
  ///   - patience: how long to go on without the ring after a lost link; zero: a lost link is the end.
  ///   - body: runs once the stream does.
  /// - Returns: what `body` does.
  /// - Throws: as `withSensor`.
  public func withRing<Value>(
    at address: DeviceAddress? = nil, named name: String? = nil, within duration: Duration = Radio.searchTime,
    patience: Duration = .zero, _ body: (Ring) async throws -> Value
  ) async throws -> Value {
    try await withSensor(.ring, at: address, named: name, within: duration, patience: patience, body)
  }
}
