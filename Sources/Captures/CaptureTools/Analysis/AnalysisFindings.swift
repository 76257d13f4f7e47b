import BLEWire
import ColmiRing
import Physiology
import Recording

/// What an analysis finds, one after the other; in tables it is what `AnalysisTables` writes.
struct AnalysisFindings: Sendable {
  var windows: [PulseWindow] = []
  var rates: [PulseRateWindow] = []
  var beats: [PulseBeat] = []
  var ecgWindows: [ECGWindow] = []
  var ecgBeats: [ECGBeat] = []
  var variability: [(source: AnalysisReport.Variation.Source, segment: VariabilitySegment)] = []
  var minutes: [ActivityEpoch] = []
  /// Stretches in which ticks are missing, the first `gapLimit`.
  private(set) var gaps: [TickGap] = []
  private var lastTick: ReceiveTime?
  /// By `RingStream.rawValue`: a time on the ring's own clock for each row of its table.
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
