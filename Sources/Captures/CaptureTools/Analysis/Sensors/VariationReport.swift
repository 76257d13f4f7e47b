import BLEWire
import JSONText
package import Physiology
import Recording

extension AnalysisReport {
  /// Variability of the intervals from one source, in segments of five minutes.
  package struct Variation: Sendable {
    package enum Source: String, Sendable {
      case pulse, ecg
      case intervals = "rr_intervals"
    }

    package var source: Source
    /// The first segments, at most `segmentLimit`.
    package private(set) var segments: [VariabilitySegment] = []
    /// Number of segments that were not kept.
    package private(set) var laterSegments = 0
    package private(set) var intervals = 0
    package private(set) var unaccepted = 0
    package private(set) var corrected = 0

    /// Maximum number of kept segments: one week.
    private static let segmentLimit = 2_016

    init(source: Source) { self.source = source }

    /// Results of the segments that have any.
    package var good: [Variability] { segments.compactMap { try? $0.result.get() } }

    /// Refusal of the first segment without results.
    package var refusal: Variability.Refusal? {
      for segment in segments { if case .failure(let refusal) = segment.result { return refusal } }
      return nil
    }

    /// Refusal of the spectrum in the first good segment; `nil` if any segment has a spectrum.
    package var spectrumRefusal: Variability.Refusal? {
      var first: Variability.Refusal?
      for found in good {
        guard case .failure(let refusal) = found.spectrum else { return nil }
        first = first ?? refusal
      }
      return first
    }

    /// Returns the median of a number over the good segments; `nil` without good segments.
    package func median(_ number: (Variability) -> Double?) -> Double? {
      let sorted = good.compactMap(number).sorted()
      guard !sorted.isEmpty else { return nil }
      let middle = sorted.count / 2
      return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
    }

    mutating func add(_ segment: VariabilitySegment) {
      intervals += segment.intervals
      unaccepted += segment.unaccepted
      corrected += segment.artefacts.total
      if segments.count < Self.segmentLimit { segments.append(segment) } else { laterSegments += 1 }
    }

    func encode(into line: inout JSONLine) {
      line.member("intervals", intervals)
      line.member("unaccepted", unaccepted)
      line.member("corrected", corrected)
      if laterSegments > 0 { line.member("laterSegments", laterSegments) }
      line.member("segments", array: { line in for segment in segments { line.object(segment.encode) } })
    }
  }
}

extension AnalysisReport.Variation.Source {
  package var words: String {
    switch self {
    case .pulse: "the pulse"
    case .ecg: "the ECG"
    case .intervals: "RR intervals"
    }
  }
}

extension AnalysisReport.Variation {
  /// Labels and texts for display: medians over the segments, and the number of corrected and rejected
  /// intervals.
  package var summary: [(name: String, text: String)] {
    func text(_ decimals: Int, _ unit: String, _ number: (Variability) -> Double?) -> String? {
      median(number).map { NumberText.fixed($0, decimals) + unit }
    }
    var rows: [(String, String?)] = [
      ("RMSSD", text(1, " ms") { $0.successiveMilliseconds }),
      ("SDNN", text(1, " ms") { $0.deviationMilliseconds }),
      ("pNN50", text(1, " %") { $0.over50Share * 100 }),
      ("SD1/SD2", text(2, "") { $0.sdRatio }),
      ("LF/HF", text(2, "") { try? $0.spectrum.get().ratio } ?? spectrumRefusal.map { "none: \($0)" }),
    ]
    let artefacts =
      "\(corrected) of \(counted(intervals - unaccepted, "interval")) corrected, \(unaccepted) of \(intervals) not accepted"
    rows.append(("Intervals", artefacts))
    let count = segments.count + laterSegments
    if count > 1 {
      rows.append(
        ("Medians of", "\(good.count) of \(counted(count, "stretch", "stretches")) of five minutes"))
    }
    rows.append((good.isEmpty ? "None" : "Left out", refusal.map { "\($0)" }))
    return rows.compactMap { name, text in text.map { (name, $0) } }
  }
}

extension VariabilitySegment {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("startNs", start)
    line.member("endNs", end)
    line.member("intervals", intervals)
    line.member("unaccepted", unaccepted)
    if let irregularShare { line.member("irregularShare", irregularShare) }
    line.member("leaps", leaps)
    line.member("corrected") { line in
      for (name, count) in artefacts.named where count > 0 { line.member(name, count) }
    }
    switch result {
    case .failure(let refusal): line.member("refused", "\(refusal)")
    case .success(let found):
      line.member("count", found.count)
      line.member("meanMs", found.meanMilliseconds)
      line.member("sdnnMs", found.deviationMilliseconds)
      line.member("rmssdMs", found.successiveMilliseconds)
      line.member("pnn50", found.over50Share)
      line.member("sd1Ms", found.sd1Milliseconds)
      line.member("sd2Ms", found.sd2Milliseconds)
      switch found.spectrum {
      case .failure(let refusal): line.member("spectrumRefused", "\(refusal)")
      case .success(let spectrum):
        line.member("lfMs2", spectrum.lowFrequency)
        line.member("hfMs2", spectrum.highFrequency)
        line.member("lfHfRatio", spectrum.ratio)
      }
    }
  }
}

extension ArtefactCounts {
  /// Number of artefacts of each kind, with the kind's name in tables and JSON.
  var named: [(String, Int)] {
    [
      ("ectopic", ectopic), ("missed", missed), ("extra", extra), ("misplaced", misplaced),
      ("leftOut", leftOut),
    ]
  }
}
