import BLELinux
import BLEWire
import ColmiRing
import Physiology
import Recording
import SensorSessions

/// Combines a ring's samples into ticks, and analyses pulse and activity.
struct RingAnalysis: ~Copyable {
  private var stream = TickStream()
  /// Streams with at least one sample.
  private var seen: Set<RingStream> = []
  /// Number of samples without a reading in each stream, by `RingStream.rawValue`.
  private(set) var dropouts: InlineArray<3, Int> = .init(repeating: 0)
  private var pulse: PulseAnalysis?
  private var activity: ActivityAnalysis?
  private var hasMeters = false
  /// Maximum accepted sample rate, in samples per second. A ring has at most 100.
  private static let highestRate = 1_000.0
  /// Number of ticks between two checks of the clock.
  private static let clockTicks = 64

  /// Processes the next sample.
  ///
  /// - Parameters:
  ///   - link: number of the link on which the sample arrived.
  ///   - clock: setting of the wall clock for the sample's time.
  mutating func take(
    _ row: RingRawReading, link: Int, _ clock: ClockSetting, to results: inout AnalysisResults
  ) throws(SystemError) {
    results.take(ReceiveTime(nanoseconds: row.time.nanoseconds &- clock.offset))
    if let kind = row.stream {
      seen.insert(kind)
      if row.sample.isDropout { dropouts[kind.rawValue] += 1 }
    }
    stream.take(row.sample, at: row.time, link: link, clock: clock)
    try takeTicks(&results)
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    stream.finish()
    try takeTicks(&results)
    pulse?.isClockUnknown = stream.isLinkTooSlow
    try pulse?.finish(&results)
    try activity?.finish(&results)
    results.report.contents.formUnion([.ticks, .pulse, .activity])
    results.report.ticks = stream.report
    if stream.isLinkTooSlow { results.report.pulse.rate.quality.limit(to: PulseAnalysis.qualityWithoutClock) }
  }

  private mutating func takeTicks(_ results: inout AnalysisResults) throws(SystemError) {
    while let placed = stream.next() {
      makeMeters(&results.report)
      try results.take(placed)
      if placed.index.isMultiple(of: Self.clockTicks) { pulse?.isClockUnknown = stream.isLinkTooSlow }
      try pulse?.take(placed.steadySignal, to: &results)
      try activity?.take(placed.steadySignal, to: &results)
    }
  }

  /// Creates the meters when the sample rate is known.
  private mutating func makeMeters(_ report: inout AnalysisReport) {
    guard !hasMeters, let period = stream.period else { return }
    let rate = 1e9 / period
    guard rate <= Self.highestRate else {
      // The samples seen so far are a burst, which has no valid rate. The rate may be valid later.
      report.pulse.refusal = "no ring sends \(rate.rounded()) samples a second"
      report.activity.refusal = report.pulse.refusal
      return
    }
    hasMeters = true
    (report.pulse.refusal, report.activity.refusal) = (nil, nil)
    if seen.contains(.ppg) {
      do throws(PulseMeter.Refusal) { pulse = try PulseAnalysis(rate: rate) } catch {
        report.pulse.refusal = "\(error)"
      }
    } else {
      report.pulse.refusal = "no samples of the green light"
    }
    let hasMovement = seen.contains(.accelerometer)
    activity = hasMovement ? ActivityAnalysis(rate: rate) : nil
    if activity == nil {
      report.activity.refusal =
        hasMovement ? "too few samples a second for movement" : "no samples of the accelerometer"
    }
  }
}
