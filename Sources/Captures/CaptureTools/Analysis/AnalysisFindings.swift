import BLEWire
import ColmiRing
import Physiology
import Recording

/// Findings of an analysis, kept in memory; `AnalysisTables` writes the same to tables.
struct AnalysisFindings: Sendable {
  var windows: [PulseWindow] = []
  var rates: [PulseRateWindow] = []
  var beats: [PulseBeat] = []
  var ecgWindows: [ECGWindow] = []
  var ecgBeats: [ECGBeat] = []
  var variability: [(source: AnalysisReport.Variation.Source, segment: VariabilitySegment)] = []
  var minutes: [ActivityEpoch] = []
  /// Stretches with missing ticks, at most `gapLimit`.
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
