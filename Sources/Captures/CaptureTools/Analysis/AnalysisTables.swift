import BLELinux
import BLEWire
import ColmiRing
import Physiology
import Recording

/// Tables that an analysis writes. A cell without a value is empty.
struct AnalysisTables {
  enum Table: String, CaseIterable, Sendable {
    case ticks = "samples"
    case pulse
    case beatWindows = "beat-windows"
    case beats
    case ecgWindows = "ecg-windows"
    case ecgBeats = "ecg-beats"
    case respiration, variability, activity

    var fileName: String { rawValue + ".csv" }

    /// Header line, including its line feed.
    var header: String {
      switch self {
      case .ticks: TickRows.table.header
      case .pulse: "start_ns,end_ns,pulse_per_minute,quality,method,motion_g,none_because,periodicity\n"
      case .beatWindows:
        "start_ns,end_ns,beats,pulse_per_minute,template_correlation,skewness,motion_g,periodicity,verdict\n"
      case .beats: "fitted_time_ns,interval_ms,accepted\n"
      case .respiration: "start_ns,end_ns,breaths_per_minute,concentration,none_because\n"
      case .ecgWindows:
        "start_ns,end_ns,beats,heart_rate_per_minute,correlation,missing_share,accepted_share,crest,verdict\n"
      case .ecgBeats: "fitted_time_ns,interval_ms,height_uv,correlation,accepted\n"
      case .variability:
        "start_ns,end_ns,source,intervals,unaccepted,ectopic,missed,extra,misplaced,left_out,"
          + "mean_ms,sdnn_ms,rmssd_ms,pnn50,sd1_ms,sd2_ms,lf_ms2,hf_ms2,lf_hf_ratio,irregular_share,leaps,none_because\n"
      case .activity: "start_ns,seconds,counts,enmo_mg,steps,rest\n"
      }
    }
  }

  /// Open output file. A class, because a dictionary cannot hold a noncopyable file.
  private final class Output {
    var file: OutputFile
    init(_ file: consuming OutputFile) { self.file = file }
  }

  private var outputs: [Table: Output] = [:]
  private var rows = TickRows()

  /// Handling of `samples.csv`, which a capture also writes.
  enum Samples: Hashable, Sendable { case make, keepIfThere }

  /// Creates the files and writes their header lines.
  ///
  /// - Parameters:
  ///   - tables: tables to write.
  ///   - directory: directory of the tables; created if needed.
  ///   - kind: whether to keep an existing table of samples.
  /// - Throws: EEXIST if one of the tables already exists.
  init(_ tables: [Table], in directory: String, samples kind: Samples) throws(SystemError) {
    try Files.createDirectory(directory)
    for table in tables {
      let isThere =
        table == .ticks && kind == .keepIfThere
        && [TickRows.table.fileName, TickRows.table.name].contains { Files.exists(directory + "/" + $0) }
      if isThere { continue }
      let output = Output(try OutputFile(creating: directory + "/" + table.fileName, ifExists: .fail))
      try output.file.append { $0 += table.header.utf8 }
      outputs[table] = output
    }
  }

  mutating func append(_ placed: PlacedTick) throws(SystemError) {
    try outputs[.ticks]?.file.append { rows.append(placed, to: &$0) }
  }

  func append(_ window: PulseRateWindow) throws(SystemError) {
    try append(to: .pulse) { text in
      text.append(decimal: window.start.nanoseconds)
      text.appendColumn(window.end.nanoseconds)
      text.appendColumn(window.pulse?.beatsPerMinute, decimals: 2)
      text.appendColumn(window.pulse?.quality, decimals: 3)
      text.appendCell(window.pulse?.method.rawValue ?? "")
      text.appendColumn(window.motion, decimals: 4)
      text.appendCell(window.absence?.rawValue ?? "")
      text.appendColumn(window.periodicity, decimals: 4)
    }
  }

  func append(_ window: PulseWindow) throws(SystemError) {
    try append(to: .beatWindows) { text in
      text.append(decimal: window.start.nanoseconds)
      text.appendColumn(window.end.nanoseconds)
      text.appendColumn(Int64(window.beats))
      text.appendColumn(window.beatsPerMinute, decimals: 2)
      text.appendColumn(window.correlation, decimals: 4)
      text.appendColumn(window.skewness, decimals: 4)
      text.appendColumn(window.motion, decimals: 4)
      text.appendColumn(window.periodicity, decimals: 4)
      text.appendCell(window.rejection?.rawValue ?? "good")
    }
  }

  func append(_ beat: PulseBeat) throws(SystemError) {
    try append(to: .beats) { text in
      text.append(decimal: beat.time.nanoseconds)
      text.appendColumn(beat.interval.map { $0 * 1_000 }, decimals: 2)
      text.appendCell(beat.isAccepted ? "1" : "0")
    }
  }

  func append(_ window: RespirationWindow) throws(SystemError) {
    try append(to: .respiration) { text in
      text.append(decimal: window.start.nanoseconds)
      text.appendColumn(window.end.nanoseconds)
      text.appendColumn(window.breathsPerMinute, decimals: 2)
      text.appendColumn(window.concentration, decimals: 3)
      text.appendCell(window.absence?.rawValue ?? "")
    }
  }

  func append(_ window: ECGWindow) throws(SystemError) {
    try append(to: .ecgWindows) { text in
      text.append(decimal: window.start.nanoseconds)
      text.appendColumn(window.end.nanoseconds)
      text.appendColumn(Int64(window.beats))
      text.appendColumn(window.beatsPerMinute, decimals: 2)
      text.appendColumn(window.correlation, decimals: 4)
      text.appendColumn(window.missingShare, decimals: 4)
      text.appendColumn(window.acceptedShare, decimals: 4)
      text.appendColumn(window.crest, decimals: 3)
      text.appendCell(window.rejection?.rawValue ?? "good")
    }
  }

  func append(_ beat: ECGBeat) throws(SystemError) {
    try append(to: .ecgBeats) { text in
      text.append(decimal: beat.time.nanoseconds)
      text.appendColumn(beat.interval.map { $0 * 1_000 }, decimals: 2)
      text.appendColumn(beat.height, decimals: 0)
      text.appendColumn(beat.correlation, decimals: 4)
      text.appendCell(beat.isAccepted ? "1" : "0")
    }
  }

  func append(
    _ segment: VariabilitySegment, of source: AnalysisReport.Variation.Source
  ) throws(SystemError) {
    let found = try? segment.result.get()
    let spectrum = try? found?.spectrum.get()
    try append(to: .variability) { text in
      text.append(decimal: segment.start.nanoseconds)
      text.appendColumn(segment.end.nanoseconds)
      text.appendCell(source.rawValue)
      text.appendColumn(Int64(segment.intervals))
      text.appendColumn(Int64(segment.unaccepted))
      for (_, count) in segment.artefacts.named { text.appendColumn(Int64(count)) }
      text.appendColumn(found?.meanMilliseconds, decimals: 2)
      text.appendColumn(found?.deviationMilliseconds, decimals: 2)
      text.appendColumn(found?.successiveMilliseconds, decimals: 2)
      text.appendColumn(found?.over50Share, decimals: 4)
      text.appendColumn(found?.sd1Milliseconds, decimals: 2)
      text.appendColumn(found?.sd2Milliseconds, decimals: 2)
      text.appendColumn(spectrum?.lowFrequency, decimals: 2)
      text.appendColumn(spectrum?.highFrequency, decimals: 2)
      text.appendColumn(spectrum?.ratio, decimals: 3)
      text.appendColumn(segment.irregularShare, decimals: 4)
      text.appendColumn(Int64(segment.leaps))
      text.appendCell(segment.refusal.map { "\"\($0)\"" } ?? "")
    }
  }

  func append(_ epoch: ActivityEpoch, _ rest: RestState) throws(SystemError) {
    try append(to: .activity) { text in
      text.append(decimal: epoch.start.nanoseconds)
      text.appendColumn(epoch.seconds, decimals: 2)
      text.appendColumn(epoch.counts, decimals: 1)
      text.appendColumn(epoch.enmo, decimals: 2)
      text.appendColumn(epoch.steps.map { Int64($0) })
      text.appendCell(rest.rawValue)
    }
  }

  func finish() throws(SystemError) {
    for output in outputs.values { try output.file.flush() }
  }

  private func append(to table: Table, _ row: (inout [UInt8]) -> Void) throws(SystemError) {
    try outputs[table]?.file.append { text in
      row(&text)
      text.append(UInt8(ascii: "\n"))
    }
  }
}

extension VariabilitySegment {
  /// Reason why the segment has no results or no spectrum.
  var refusal: Variability.Refusal? {
    switch result {
    case .failure(let refusal): refusal
    case .success(let found): if case .failure(let refusal) = found.spectrum { refusal } else { nil }
    }
  }
}

extension [UInt8] {
  fileprivate mutating func appendCell(_ text: String) {
    append(UInt8(ascii: ","))
    append(contentsOf: text.utf8)
  }
}
