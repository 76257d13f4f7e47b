import BLELinux
import BLEWire
import JSONText
package import Physiology
import Recording

extension AnalysisReport {
  /// Heart rate in an electrocardiogram, from windows of ten seconds.
  package struct ECG: Sendable {
    /// Reason why the table was not analysed.
    package var refusal: String?
    package var windows = 0
    package var rejections: [ECGRejection: Int] = [:]
    package var beats = 0
    package var acceptedIntervals = 0
    /// Heart rate in the good windows, in beats per minute.
    package var rate = NumberRange()
    /// Correlation of the beats with the average beat in the good windows.
    package var correlation = NumberRange()
    package var goodWindows: Int { rate.count }

    mutating func add(_ window: ECGWindow) {
      windows += 1
      beats += window.beats
      if let rejection = window.rejection { rejections[rejection, default: 0] += 1 }
      guard let found = window.beatsPerMinute else { return }
      rate.add(found)
      correlation.add(window.correlation)
    }

    func encode(into line: inout JSONLine) {
      if let refusal { return line.member("refused", refusal) }
      line.member("windows", windows)
      line.member("goodWindows", goodWindows)
      line.member("rejected") { line in
        for reason in ECGRejection.allCases {
          if let count = rejections[reason] { line.member(reason.rawValue, count) }
        }
      }
      rate.encode("PerMinute", into: &line)
      if let mean = correlation.mean { line.member("meanCorrelation", mean) }
      line.member("beats", beats)
      line.member("acceptedIntervals", acceptedIntervals)
    }
  }
}

/// Finds the beats in an ECG table, and computes the variability of their intervals.
struct ECGAnalysis: RowAnalysis {
  private var clock: RowClock
  private let column: Int
  private var meter: ECGMeter
  private var variability = VariabilityMeter()

  /// Creates an analysis for one table.
  ///
  /// - Parameters:
  ///   - clock: clock of the table's rows.
  ///   - column: index of the column with the ECG in microvolts.
  init(_ clock: RowClock, column: Int) throws(ECGMeter.Refusal) {
    self.clock = clock
    self.column = column
    meter = try ECGMeter(rate: clock.rate)
  }

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) throws(SystemError) {
    let place = clock.place(words)
    results.take(place.time)
    guard let microvolts = TableCell.number(words[column], .int32) else { return }
    let sample = ECGSample(
      index: place.index, time: place.time, isRestart: place.isRestart, microvolts: microvolts)
    try give(meter.take(sample), &results)
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    try give(meter.finish(), &results)
    try results.take(variability.finish(), of: .ecg)
  }

  private mutating func give(_ window: ECGWindow?, _ results: inout AnalysisResults) throws(SystemError) {
    guard let window else { return }
    try results.take(window)
    for index in 0..<meter.beatCount {
      let beat = meter.beat(index)
      try results.take(beat)
      try results.take(variability.take(beat), of: .ecg)
    }
  }
}
