import BLESensors
import BLEWire

/// Turns of a bicycle's wheel and crank from one measurement to the next.
///
/// A sensor's counts and times are evidence, not truth: a count that grows faster than a wheel or a crank can turn, goes back, or
/// has a time that disagrees with the time of arrival belongs to a sensor that began anew, or to a wheel that rolled back. There
/// is no rate then; the step is counted, and the next one starts from it.
public struct CyclingPace: Sendable {
  /// What happened to one of the counts since it came last.
  public struct Step: Hashable, Sendable {
    /// Turns a minute. `nil` if nothing turned, after a restart, and after a silence in which the sensor's clock, which wraps
    /// every 64 s, may have wrapped.
    public internal(set) var perMinute: Double?
    /// `nil` if it is not known.
    public internal(set) var turns: Int?
    /// Whether the count or its time began anew or went back.
    public internal(set) var isRestart = false
  }

  /// Measurements in which a count began anew or went back.
  public private(set) var restarts = 0
  private var wheel = TurnCounter(limit: CyclingSpeed.fastestWheel, wrap: 0x1_0000_0000)
  private var crank = TurnCounter(limit: CyclingSpeed.fastestCrank, wrap: 0x1_0000)

  public init() {}

  /// - Returns: of the wheel and of the crank; `nil` for what the measurement does not count.
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

  /// - Returns: turns a minute of the wheel and of the crank, as in `Step`.
  public mutating func take(_ sample: CyclingSample) -> (wheel: Double?, crank: Double?) {
    let (wheel, crank) = step(sample)
    return (wheel?.perMinute, crank?.perMinute)
  }
}

/// One count of a cyclist's sensor, with the time of its last turn.
private struct TurnCounter: Sendable {
  private struct State {
    var count: Int64
    var ticks: UInt16
    var time: ReceiveTime
    /// When `ticks` came first.
    var turnedAt: ReceiveTime
  }

  /// Seconds. After a longer silence the sensor's clock may have wrapped.
  private static let horizon = 60.0
  /// Seconds by which a link delays a measurement, at most, and in which a sensor notifies a turn.
  private static let slack = 10.0
  /// Of the sensor's clock, in seconds.
  private static let ticksWrap = 64.0

  /// Turns a minute that are possible.
  private let limit: Double
  /// What the count wraps at.
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
    // In a long silence the count itself may have run over, and a clock that was set back says nothing.
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
    // The sensor's seconds, with the wrap that comes nearest to the time of arrival.
    var seconds = Double(ticks &- before.ticks) / 1024
    seconds += ((elapsed - seconds) / Self.ticksWrap).rounded() * Self.ticksWrap
    if turns > 0, !hasNewTime {
      // Some count the turn first, and tell its time with the next measurement.
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
