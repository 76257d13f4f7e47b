import BLELinux
import BLEWire
import JSONText
import Recording

/// Tables of a capture with a steady rate on one time axis, highest rate first. Each table keeps its own
/// rate.
struct SignalLanes {
  /// Table with its start on the axis.
  struct Lane {
    let table: SignalTable
    let scan: SignalScan
    /// Number of positions from the start of the axis to the table's first sample, at the table's rate.
    fileprivate(set) var lead = 0

    /// Number of positions from the start of the axis to the end of the table.
    var length: Int { lead + scan.length }
    /// Converts a position in the table to nanoseconds since the start of the axis.
    func nanoseconds(_ places: Int) -> Int64 { Int64((Double(lead + places) * scan.period).rounded()) }
  }

  private(set) var lanes: [Lane] = []
  /// Time of the first sample, in nanoseconds since the Unix epoch.
  private(set) var start: Int64 = 0
  /// Omitted tables of the capture, each with the reason.
  private(set) var leftOut: [String] = []

  /// Maximum difference between the starts of two streams on the sensor's clock and on the machine's clock,
  /// in nanoseconds.
  private static let agreement: Int64 = 5_000_000_000

  /// Scans the tables.
  ///
  /// - Throws: an error if no table has a steady rate, or if no such table can be read.
  init(_ capture: RecordedCapture, progress: (ConversionProgress) -> Void) throws(ConversionError) {
    var refusal: ConversionError?
    for table in try SignalTable.all(of: capture) {
      do throws(ConversionError) {
        let scan = try SignalScan(capture, table) { progress(ConversionProgress("reading", $0)) }
        lanes.append(Lane(table: table, scan: scan))
      } catch {
        guard case .unsuitable(let why) = error else { throw error }
        refusal = refusal ?? error
        leftOut.append("\(why); left out")
      }
    }
    if lanes.isEmpty, let refusal { throw refusal }
    lanes.sort { $0.scan.rate > $1.scan.rate }
    // A ring's ticks contain all of its streams.
    if lanes.allSatisfy(\.table.hasDeviceClock) {
      for table in capture.tables where table.content == .samples && SignalTable(table) == nil {
        leftOut.append(
          "the table '\(table.name)' has no steady rate; left out: use csv, npy or ndjson for it")
      }
    }
    align()
  }

  /// Sets the start of each lane: on the sensor's clock if all streams share it, otherwise by the recorded
  /// times.
  private mutating func align() {
    guard let first = lanes.first else { return }
    let starts = lanes.map { lane in
      let span = TimeSpan(from: first.scan.start, to: lane.scan.start).nanoseconds
      guard let from = first.scan.startClock, let to = lane.scan.startClock, lane.table.hasDeviceClock else {
        return lane.scan.start
      }
      let own = TimeSpan(from: from, to: to).nanoseconds
      let (difference, isTooFar) = own.subtractingReportingOverflow(span)
      return !isTooFar && difference.magnitude < Self.agreement.magnitude
        ? first.scan.start &+ own : lane.scan.start
    }
    start = starts.min() ?? first.scan.start
    for (place, begin) in starts.enumerated() {
      let lead = Double(TimeSpan(from: start, to: begin).nanoseconds) / lanes[place].scan.period
      lanes[place].lead = Int(min(lead, 1e15).rounded())
    }
  }

  /// Checks that all lanes begin at about the same time.
  ///
  /// - Throws: an error if a lane begins so late that its file would consist mostly of missing samples.
  func requireNear() throws(ConversionError) {
    guard let late = lanes.first(where: { !$0.scan.mayFill($0.lead) }) else { return }
    throw .unsuitable(
      "the table '\(late.table.table.name)' begins hours after the others; convert to wfdb, csv or npy")
  }

  /// Returns the annotations in order of time: start and end, missing samples, lost links, and restarts of
  /// the clock.
  ///
  /// - Parameters:
  ///   - capture: capture with the lost links in `session.json`.
  ///   - groups: groups with signals.
  ///   - limit: maximum number of annotations.
  func notes(_ capture: RecordedCapture, _ groups: Set<String>, limit: Int) -> [SignalNote] {
    var notes = [SignalNote(onset: 0, duration: nil, text: "Recording starts")]
    for lane in lanes {
      notes += lane.notes(groups, all: lanes.count == 1 ? "all" : lane.table.table.name)
    }
    notes += SignalNote.links(of: capture, since: start)
    notes.sort { $0.onset < $1.onset }
    // Leave room for the annotation at the end.
    notes.removeSubrange(min(notes.count, max(1, limit - 1))...)
    let end = lanes.map { $0.nanoseconds($0.scan.length) }.max() ?? 0
    return notes + [SignalNote(onset: end, duration: nil, text: "Recording ends")]
  }
}

/// Annotation on the time axis of signals.
struct SignalNote: Hashable {
  /// Nanoseconds since the first sample.
  var onset: Int64
  /// Duration in nanoseconds; `nil` for a moment.
  var duration: Int64?
  /// ASCII, at most 40 characters.
  var text: String

  /// Returns an annotation for each lost link in `session.json`.
  ///
  /// - Parameters:
  ///   - capture: the capture.
  ///   - start: start of the axis, in nanoseconds since the Unix epoch.
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
  /// Returns an annotation for each gap and each restart of the sensor's clock.
  ///
  /// - Parameters:
  ///   - groups: groups with signals.
  ///   - all: name for all groups together.
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
