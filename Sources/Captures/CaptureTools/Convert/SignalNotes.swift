import JSONText

/// A note on the time axis of signals.
struct SignalNote: Hashable {
  /// Nanoseconds since the first sample.
  var onset: Int64
  /// Duration in nanoseconds; `nil` for a moment.
  var duration: Int64?
  /// ASCII, at most 40 characters.
  var text: String

  /// Returns a note for each lost link in `session.json`.
  ///
  /// - Parameter start: start of the axis, in nanoseconds since the Unix epoch.
  static func links(of capture: RecordedCapture, since start: Int64) -> [SignalNote] {
    (capture.session?["gaps"]?.array ?? []).compactMap { gap in
      guard let lost: Int64 = gap["lostAtNs"]?.nanoseconds, let cause = gap["cause"]?.text else { return nil }
      let (onset, isTooFar) = lost.subtractingReportingOverflow(start)
      guard !isTooFar, onset >= 0 else { return nil }
      let back: Int64? = gap["firstSampleAtNs"]?.nanoseconds
      let text = "link lost: \(cause)".unicodeScalars.filter(\.isASCII)
      return SignalNote(
        onset: onset, duration: back.map { max(0, $0 &- lost) },
        text: String(String.UnicodeScalarView(text.prefix(EDFFile.noteByteCount))))
    }
  }
}

extension SignalLanes.Lane {
  /// Returns a note for each gap and each restart of the sensor's clock.
  ///
  /// - Parameters:
  ///   - groups: the groups that have signals.
  ///   - all: the name for all groups together.
  func notes(_ groups: Set<String>, all: String) -> [SignalNote] {
    let gaps = scan.gaps.compactMap { gap -> SignalNote? in
      let missing = gap.groups.map { $0.filter(groups.contains) } ?? []
      guard gap.groups == nil || !missing.isEmpty else { return nil }
      let what = gap.groups == nil ? all : missing.joined(separator: ",")
      return SignalNote(
        onset: nanoseconds(gap.position), duration: Int64((Double(gap.length) * scan.period).rounded()),
        text: gap.isDropout ? "dropout (\(what))" : "\(gap.length) missing (\(what))")
    }
    return gaps
      + scan.restarts.map {
        SignalNote(onset: nanoseconds($0), duration: nil, text: "sensor clock began anew")
      }
  }
}
