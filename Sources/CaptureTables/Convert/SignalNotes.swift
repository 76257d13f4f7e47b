import JSONText

/// A remark on the time axis of signals.
struct SignalNote: Hashable {
  /// Nanoseconds since the first sample.
  var onset: Int64
  /// In nanoseconds.
  var duration: Int64?
  /// ASCII, 40 characters.
  var text: String
}

extension SignalScan {
  /// What happened, in order: start and end, what did not come, lost links, clocks that began anew.
  ///
  /// - Parameters:
  ///   - capture: of which `session.json` tells the links.
  ///   - groups: that have signals at all.
  func notes(_ capture: RecordedCapture, _ groups: Set<String>, limit: Int) -> [SignalNote] {
    var notes = [SignalNote(onset: 0, duration: nil, text: "Recording starts")]
    for gap in gaps {
      let missing = gap.groups.map { $0.filter(groups.contains) } ?? []
      guard gap.groups == nil || !missing.isEmpty else { continue }
      let what = gap.groups == nil ? "all" : missing.joined(separator: ",")
      notes.append(
        SignalNote(
          onset: nanoseconds(gap.position), duration: nanoseconds(gap.length),
          text: gap.isDropout ? "dropout (\(what))" : "\(gap.length) missing (\(what))"))
    }
    for position in restarts {
      notes.append(SignalNote(onset: nanoseconds(position), duration: nil, text: "sensor clock began anew"))
    }
    notes += links(capture)
    notes.sort { $0.onset < $1.onset }
    // The end is the note that must not be cut off.
    notes.removeSubrange(min(notes.count, max(1, limit - 1))...)
    return notes + [SignalNote(onset: nanoseconds(length), duration: nil, text: "Recording ends")]
  }

  private func links(_ capture: RecordedCapture) -> [SignalNote] {
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

  private func nanoseconds(_ places: Int) -> Int64 { Int64((Double(places) * period).rounded()) }
}
