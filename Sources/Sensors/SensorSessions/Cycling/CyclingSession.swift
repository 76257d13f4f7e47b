public import BLEHost
public import BLESensors
import BLEStack
public import BLEWire

/// Measurement of a cycling sensor, with its receive time.
public struct CyclingSample: NotificationSample {
  public let time: ReceiveTime
  public let measurement: CyclingSpeed

  package init(_ measurement: CyclingSpeed, at time: ReceiveTime) {
    (self.measurement, self.time) = (measurement, time)
  }

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    measurement = try CyclingSpeed(decoding: value)
    self.time = time
  }
}

/// Connected cycling sensor for wheel, crank or both, and its stream of measurements.
///
/// Cycling Speed and Cadence Service 1.0.
public struct CyclingSession: SensorSession {
  private let link: SensorLink

  /// Discovers the measurement characteristic and subscribes to it.
  ///
  /// - Throws: `unsuitable` if the device does not have the service.
  public static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<CyclingSample>
  ) async throws(HostError) -> CyclingSession {
    let link = try await SensorLink(connection, SensorNeed([.cscMeasurement], of: .cyclingSpeedAndCadence))
    return try await CyclingSession(link, sink)
  }

  private init(_ link: SensorLink, _ sink: SampleSink<CyclingSample>) async throws(HostError) {
    guard link.characteristic(.cscMeasurement, in: .cyclingSpeedAndCadence) != nil else {
      throw link.lacks("cycling speed and cadence service (1816)")
    }
    self.link = link
    try await link.listen(to: .cscMeasurement, in: .cyclingSpeedAndCadence) { sink.take($0.value, at: $1) }
  }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  /// Unsubscribes from the measurements.
  public func stop() async { await link.stopListening() }
}

/// Computes revolutions of a bicycle's wheel and crank from one measurement to the next.
///
/// The sensor's counts and times are checked for plausibility. A step is a restart if the count grows faster
/// than a wheel or crank can turn, if the count goes back, or if its time disagrees with the time of arrival.
/// The sensor then restarted, or the wheel rolled back. The step has no rate, and the next step starts from
/// the new count.
public struct CyclingPace: Sendable {
  /// Change of one counter since the previous measurement.
  public struct Step: Hashable, Sendable {
    /// Revolutions per minute. `nil` if there was no revolution, after a restart, and after a silence in
    /// which the sensor's clock may have wrapped (every 64 s).
    public fileprivate(set) var perMinute: Double?
    /// Number of revolutions; `nil` if unknown.
    public fileprivate(set) var turns: Int?
    /// Whether the count or its time restarted or went back.
    public fileprivate(set) var isRestart = false
  }

  /// Number of measurements in which a count restarted or went back.
  public private(set) var restarts = 0
  private var wheel = TurnCounter(limit: CyclingSpeed.fastestWheel, wrap: 0x1_0000_0000)
  private var crank = TurnCounter(limit: CyclingSpeed.fastestCrank, wrap: 0x1_0000)

  public init() {}

  /// Returns the changes of both counters since the previous measurement.
  ///
  /// - Returns: steps of the wheel and of the crank; `nil` for a counter that is not in the measurement.
  public mutating func step(_ sample: CyclingSample) -> (wheel: Step?, crank: Step?) {
    let measurement = sample.measurement
    let wheel = measurement.wheel.map {
      self.wheel.take(Int64($0.revolutions), ticks: $0.lastEventTicks, at: sample.time)
    }
    let crank = measurement.crank.map {
      self.crank.take(Int64($0.revolutions), ticks: $0.lastEventTicks, at: sample.time)
    }
    if wheel?.isRestart ?? false || crank?.isRestart ?? false { restarts += 1 }
    return (wheel, crank)
  }

  /// Computes the rates of a measurement.
  ///
  /// - Returns: revolutions per minute of the wheel and of the crank, as in `Step`.
  public mutating func take(_ sample: CyclingSample) -> (wheel: Double?, crank: Double?) {
    let (wheel, crank) = step(sample)
    return (wheel?.perMinute, crank?.perMinute)
  }
}

/// Counter of a cycling sensor, with the time of the last revolution.
private struct TurnCounter: Sendable {
  private struct State {
    var count: Int64
    var ticks: UInt16
    var time: ReceiveTime
    /// Time at which the current `ticks` was first received.
    var turnedAt: ReceiveTime
  }

  /// Maximum silence in seconds. During a longer silence, the sensor's clock may wrap.
  private static let horizon = 60.0
  /// Maximum delay in seconds, for a measurement on the link and for a revolution in the sensor.
  private static let slack = 10.0
  /// Period of the sensor's clock, in seconds.
  private static let ticksWrap = 64.0

  /// Maximum revolutions per minute.
  private let limit: Double
  /// Modulus of the count.
  private let wrap: Int64
  private var last: State?

  init(limit: Double, wrap: Int64) { (self.limit, self.wrap) = (limit, wrap) }

  mutating func take(_ count: Int64, ticks: UInt16, at time: ReceiveTime) -> CyclingPace.Step {
    var step = CyclingPace.Step()
    guard let before = last else {
      last = State(count: count, ticks: ticks, time: time, turnedAt: time)
      return step
    }
    let hasNewTime = ticks != before.ticks
    let turns = count >= before.count ? count - before.count : count - before.count + wrap
    let silence = (time - before.time).seconds
    let most = limit / 60 * (max(0, silence) + Self.slack) + 1
    last = State(
      count: count, ticks: ticks, time: time, turnedAt: hasNewTime || turns > 0 ? time : before.turnedAt)
    if turns == 0 && !hasNewTime {
      step.turns = most < Double(wrap) ? 0 : nil
      return step
    }
    // In a long silence, the count itself may wrap. If the kernel's clock was set back, the silence is
    // unknown.
    guard most < Double(wrap), silence >= 0 else { return step }
    guard Double(turns) <= most else {
      step.isRestart = true
      return step
    }
    let elapsed = (time - before.turnedAt).seconds
    guard elapsed < Self.horizon else {
      step.turns = Int(turns)
      return step
    }
    // Elapsed seconds on the sensor's clock, with the number of wraps that best matches the time of arrival.
    var seconds = Double(ticks &- before.ticks) / 1024
    seconds += ((elapsed - seconds) / Self.ticksWrap).rounded() * Self.ticksWrap
    if turns > 0, !hasNewTime {
      // Some sensors report a revolution in one measurement and its time in the next measurement.
      last?.count = before.count
      last?.turnedAt = before.turnedAt
      return step
    }
    guard abs(seconds - elapsed) <= Self.slack, seconds > 0, Double(turns) * 60 / seconds <= limit else {
      step.isRestart = true
      return step
    }
    step.turns = Int(turns)
    step.perMinute = Double(turns) * 60 / seconds
    return step
  }
}
