import BLELinux
import BLEWire
import JSONText
package import Physiology
import Recording

extension AnalysisReport {
  package struct Activity: Sendable {
    /// Reason why activity was not measured.
    package var refusal: String?
    package var minutes = 0
    package var counts = 0.0
    package var enmo: Double { minutes > 0 ? enmoSum / Double(minutes) : 0 }
    /// Number of steps; `nil` if the sample rate is too low for step counting.
    package var steps: Int?
    package var rest: [RestState: Int] = [:]
    private var enmoSum = 0.0

    /// Whether there are enough minutes to report rest.
    package var hasRest: Bool {
      rest[.asleep, default: 0] + rest[.awake, default: 0] >= SleepRule.minimumMinutes
    }

    mutating func add(_ epoch: ActivityEpoch) {
      minutes += 1
      counts += epoch.counts
      enmoSum += epoch.enmo
    }

    func encode(into line: inout JSONLine) {
      if let refusal { return line.member("refused", refusal) }
      line.member("minutes", minutes)
      line.member("counts", counts)
      line.member("enmoMilliG", enmo)
      if let steps { line.member("steps", steps) }
      guard hasRest else { return }
      line.member("restMinutes") { line in
        for state in [RestState.asleep, .awake, .unknown] {
          line.member(state.rawValue, rest[state, default: 0])
        }
      }
    }
  }
}

/// Computes activity and rest state of each minute from acceleration.
struct ActivityAnalysis: Sendable {
  private var meter: MotionMeter
  private var rule = SleepRule()
  /// Minutes whose rest state is not known yet; `nil` for a minute that was not measured.
  private var minutes: [ActivityEpoch?] = []
  private var lastMinute: Int64?

  /// Delay of the sleep rule's results, in minutes.
  private static let minutesAhead = 2
  /// Maximum number of missing minutes passed to the sleep rule: the length of its window.
  private static let maximumMissingMinutes: Int64 = 7

  /// Creates an analysis for one sample rate.
  ///
  /// - Parameter rate: sample rate in samples per second.
  /// - Returns: `nil` if the rate is below `MotionMeter.minimumRate` or implausibly high.
  init?(rate: Double) {
    guard let meter = MotionMeter(rate: rate) else { return nil }
    self.meter = meter
  }

  mutating func take(
    _ sample: SignalSample, to results: inout AnalysisResults
  ) throws(SystemError) {
    if let epoch = meter.take(sample) { try take(epoch, &results) }
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    if let epoch = meter.finish() { try take(epoch, &results) }
    for _ in 0..<Self.minutesAhead { try take(minute: nil, &results) }
    results.report.activity.steps = meter.stepCount
  }

  private mutating func take(
    _ epoch: ActivityEpoch, _ results: inout AnalysisResults
  ) throws(SystemError) {
    results.take(epoch)
    if let lastMinute {
      let nanoseconds = Double(epoch.start.nanoseconds) - Double(lastMinute)
      let missing = Int64(nanoseconds / (MotionMeter.epochSeconds * 1e9) + 0.5) - 1
      for _ in 0..<min(max(0, missing), Self.maximumMissingMinutes) { try take(minute: nil, &results) }
    }
    lastMinute = epoch.start.nanoseconds
    try take(minute: epoch, &results)
  }

  private mutating func take(
    minute: ActivityEpoch?, _ results: inout AnalysisResults
  ) throws(SystemError) {
    minutes.append(minute)
    guard let state = rule.take(counts: minute?.counts) else { return }
    guard let scored = minutes.removeFirst() else { return }
    try results.take(scored, state)
  }
}
