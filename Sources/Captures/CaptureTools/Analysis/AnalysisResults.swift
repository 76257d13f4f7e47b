import BLELinux
import BLEWire
import ColmiRing
import Physiology
import Recording

/// Receives the results of an analysis. The report is always filled; tables and findings are optional.
struct AnalysisResults: ~Copyable {
  var report = AnalysisReport()
  var tables: AnalysisTables?
  var findings: AnalysisFindings?
  /// Steps of the wall clock. The analyses compute with the wall clock as it was set at the start; results
  /// have the times that the clock showed.
  var clockSteps = ClockSteps()

  mutating func take(_ placed: PlacedTick) throws(SystemError) {
    try tables?.append(placed)
    findings?.take(placed)
  }

  mutating func take(_ window: PulseRateWindow) throws(SystemError) {
    var window = window
    window.start = clockSteps.shown(window.start)
    window.end = clockSteps.shown(window.end)
    report.pulse.rate.add(window)
    try tables?.append(window)
    findings?.rates.append(window)
  }

  mutating func take(_ window: PulseWindow) throws(SystemError) {
    var window = window
    window.start = clockSteps.shown(window.start)
    window.end = clockSteps.shown(window.end)
    report.pulse.add(window)
    try tables?.append(window)
    findings?.windows.append(window)
  }

  mutating func take(_ beat: PulseBeat) throws(SystemError) {
    var beat = beat
    beat.time = clockSteps.shown(beat.time)
    if beat.isAccepted { report.pulse.acceptedIntervals += 1 }
    try tables?.append(beat)
    findings?.beats.append(beat)
  }

  mutating func take(_ window: RespirationWindow) throws(SystemError) {
    report.pulse.respiration.add(window)
    try tables?.append(window)
  }

  mutating func take(_ window: ECGWindow) throws(SystemError) {
    var window = window
    window.start = clockSteps.shown(window.start)
    window.end = clockSteps.shown(window.end)
    report.ecg.add(window)
    try tables?.append(window)
    findings?.ecgWindows.append(window)
  }

  mutating func take(_ beat: ECGBeat) throws(SystemError) {
    var beat = beat
    beat.time = clockSteps.shown(beat.time)
    if beat.isAccepted { report.ecg.acceptedIntervals += 1 }
    try tables?.append(beat)
    findings?.ecgBeats.append(beat)
  }

  mutating func take(
    _ segment: VariabilitySegment?, of source: AnalysisReport.Variation.Source
  ) throws(SystemError) {
    guard var segment else { return }
    (segment.start, segment.end) = (clockSteps.shown(segment.start), clockSteps.shown(segment.end))
    if !report.variability.contains(where: { $0.source == source }) {
      report.variability.append(AnalysisReport.Variation(source: source))
    }
    for place in report.variability.indices where report.variability[place].source == source {
      report.variability[place].add(segment)
    }
    try tables?.append(segment, of: source)
    findings?.variability.append((source, segment))
  }

  mutating func take(_ epoch: ActivityEpoch) {
    var epoch = epoch
    epoch.start = clockSteps.shown(epoch.start)
    report.activity.add(epoch)
    findings?.minutes.append(epoch)
  }

  mutating func take(_ epoch: ActivityEpoch, _ rest: RestState) throws(SystemError) {
    var epoch = epoch
    epoch.start = clockSteps.shown(epoch.start)
    report.activity.rest[rest, default: 0] += 1
    try tables?.append(epoch, rest)
  }

  /// Extends the report's time range to include `time`.
  mutating func take(_ time: ReceiveTime) {
    report.start = min(report.start ?? time, time)
    report.end = max(report.end ?? time, time)
  }
}

/// Results of an analysis in memory: the same data that `AnalysisTables` writes to tables.
struct AnalysisFindings: Sendable {
  var windows: [PulseWindow] = []
  var rates: [PulseRateWindow] = []
  var beats: [PulseBeat] = []
  var ecgWindows: [ECGWindow] = []
  var ecgBeats: [ECGBeat] = []
  var variability: [(source: AnalysisReport.Variation.Source, segment: VariabilitySegment)] = []
  var minutes: [ActivityEpoch] = []
  /// Gaps of one or more missing ticks: the first `gapLimit`.
  private(set) var gaps: [TickGap] = []
  private var lastTick: ReceiveTime?
  /// Times of each table's rows on the ring's own clock, by `RingStream.rawValue`.
  private(set) var ringTimes = RingStream.allCases.map { _ in TableTimes() }

  private static let gapLimit = 5_000

  mutating func take(_ placed: PlacedTick) {
    if placed.missingBefore > 0, let lastTick, gaps.count < Self.gapLimit {
      gaps.append(TickGap(after: lastTick, before: placed.fittedTime, ticks: placed.missingBefore))
    }
    lastTick = placed.fittedTime
    for stream in RingStream.allCases where placed.tick.time(of: stream.part) != nil {
      ringTimes[stream.rawValue].append(placed.fittedTime.nanoseconds)
    }
  }
}
