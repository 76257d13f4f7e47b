public import BLEHost
public import BLEWire
import Synchronization

/// A COLMI ring that sends its raw stream.
public typealias Ring = Sensor<RingRawReading>

/// A connected and streaming sensor, as passed to the body of `Radio.withSensor` and `Radio.withRing`.
///
/// ```swift
/// try await radio.withSensor(.heartRate) { strap in
///   for try await beat in strap.values.prefix(60) { print(beat.beatsPerMinute, beat.rrIntervals) }
///   print(await strap.facts.model ?? "a strap", await strap.loss)
/// }
/// ```
public struct Sensor<Sample: NotificationSample>: Sendable {
  /// The sensor's address, for later connections.
  public let address: DeviceAddress
  /// The sensor's live values, across reconnections.
  public let values: SensorValues<Sample>
  private let session: DeviceSession
  private let identity: SensorIdentity

  fileprivate init(
    _ address: DeviceAddress, _ values: SensorValues<Sample>, _ session: DeviceSession,
    _ identity: SensorIdentity
  ) {
    self.address = address
    self.values = values
    self.session = session
    self.identity = identity
  }

  /// The sensor's identity; waits until it is known. To give the stream priority, the sensor is queried after
  /// its first value, or after one second without a value. A ring is not queried.
  public var facts: SensorFacts { get async { await identity.learned() } }

  /// Number of values that this machine received and then lost, by queue.
  ///
  /// `kernelQueue` is the kernel's receive queue. `sampleQueue` is the queue between the receive thread and
  /// the loop over `values`; a full queue drops values. Values that the radio never received are not counted.
  public var loss: SessionReport.Loss {
    get async {
      var loss = SessionReport.Loss()
      loss.kernelQueue =
        await session.statistics.kernelQueueDrops + session.currentStatistics.kernelQueueDrops
      loss.sampleQueue = values.channel.dropped
      return loss
    }
  }

  /// The periods without a link so far, in order of time.
  public var gaps: [SessionGap] { get async { await session.gaps } }
}

extension Sensor where Sample == RingRawReading {
  /// The frames of the ring's raw stream in order of arrival. Acceleration, green light and red light
  /// alternate.
  public var rawSamples: SensorValues<RingRawReading> { values }
}

/// A sensor's measurements as a sequence: `Sensor.values`.
///
/// The sequence continues across lost links if the sensor reconnects within `patience`. The sequence ends
/// without an error, after the queued values, if the sensor stops the stream or the task is cancelled. The
/// sequence throws `HostError.gatt(.closed)` or `noAnswer` if the link is lost and the sensor does not
/// reconnect in time.
///
/// The queue holds up to 1,024 values for the loop. If it is full, further values are dropped and counted by
/// `Sensor.loss`. Only one loop may iterate at a time; a later loop continues after the last value of the
/// previous one. Concurrent iteration in two tasks is a programming error and traps.
public struct SensorValues<Value: NotificationSample>: AsyncSequence, Sendable {
  /// A value with its time.
  public typealias Element = Value
  /// The reason for the permanent loss of the link.
  public typealias Failure = HostError

  let channel: SampleChannel<Value>
  fileprivate let end: SessionEnd

  /// Number of malformed values that were skipped: too short, or with a wrong checksum.
  public var malformed: Int { channel.malformed }

  /// Creates an iterator that continues after the last value of the previous loop.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(channel: channel, end: end) }

  /// The iterator of one loop.
  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let channel: SampleChannel<Value>
    fileprivate let end: SessionEnd

    /// Waits for the next value and returns it.
    public func next() async throws(HostError) -> Value? { try await next(isolation: #isolation) }

    /// Waits for the next value and returns it, on an actor.
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

/// The error that ended a session, for its iterators.
private final class SessionEnd: Sendable {
  let failure = Mutex<HostError?>(nil)
  /// Whether an iterator is using the queue, which supports a single consumer.
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
  /// When `body` returns or throws, or the task is cancelled, `withSensor` stops the stream and closes the
  /// link before it returns. Do not use the sensor afterwards, because its values have ended.
  ///
  /// - Parameters:
  ///   - kind: the kind of sensor to find, with the decoder of its values.
  ///   - address: the sensor's address, if known. Connecting by address needs no scan, and so no capability.
  ///   - name: the exact advertised name to find; `nil` for the first sensor of the kind.
  ///   - duration: timeout for finding the sensor.
  ///   - patience: maximum time to reconnect after a lost link; zero to disable reconnection.
  ///   - body: called when the stream is running.
  /// - Returns: the result of `body`.
  /// - Throws: `HostError` if the stream could not be started: `notFound`, `noAnswer`, `unsuitable` for a
  ///   device of another kind; `CancellationError` if the task was cancelled before the start; errors of
  ///   `body`.
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
    return try await Self.with(kind.definition, DeviceSession(plan, on: adapter), body)
  }

  private static func with<Definition: SensorDefinition, Value>(
    _ definition: Definition, _ session: DeviceSession,
    _ body: (Sensor<Definition.Sample>) async throws -> Value
  ) async throws -> Value {
    let (profile, end) = (SensorProfile<Definition.Session>(definition.settings), SessionEnd())
    // When this scope ends, the task is cancelled and awaited. It stops the stream and closes the link.
    async let running: Void = run(session, profile, end)
    guard await profile.firstStream() != nil else {
      await running
      throw end.failure.withLock { $0 } ?? CancellationError()
    }
    return try await body(
      Sensor(
        session.plan.peer, SensorValues(channel: profile.samples, end: end), session, profile.identity))
  }

  private static func run(
    _ session: DeviceSession, _ profile: SensorProfile<some SensorSession>, _ end: SessionEnd
  ) async {
    do throws(HostError) { try await session.run(profile) } catch { end.failure.withLock { $0 = error } }
    profile.finish()
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
  /// When `body` returns or throws, or the task is cancelled, `withRing` stops the stream and closes the link
  /// before it returns.
  ///
  /// - Parameters:
  ///   - address: the ring's address, if known. Connecting by address needs no scan.
  ///   - name: the exact advertised name to find; `nil` for the first ring in range.
  ///   - duration: timeout for finding the ring.
  ///   - patience: maximum time to reconnect after a lost link; zero to disable reconnection.
  ///   - body: called when the stream is running.
  /// - Returns: the result of `body`.
  /// - Throws: the errors of `withSensor`.
  public func withRing<Value>(
    at address: DeviceAddress? = nil, named name: String? = nil, within duration: Duration = Radio.searchTime,
    patience: Duration = .zero, _ body: (Ring) async throws -> Value
  ) async throws -> Value {
    try await withSensor(.ring, at: address, named: name, within: duration, patience: patience, body)
  }
}
