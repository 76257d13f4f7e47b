import BLECore
import BLELinux
import ColmiRing
import Physiology
import Recording

/// The tables that an analysis writes. A cell is empty where there is nothing to say.
struct AnalysisTables: ~Copyable {
  private var samples: OutputFile
  private var rows = TickRows()
  private var pulse: OutputFile
  private var windows: OutputFile
  private var beats: OutputFile
  private var activity: OutputFile

  /// What becomes of `samples.csv`, which a capture writes too.
  enum Samples: Hashable, Sendable { case make, keepIfThere }

  /// - Throws: EEXIST where one of them is there already.
  init(in directory: String, samples kind: Samples) throws(SystemError) {
    func table(_ name: String, _ header: String) throws(SystemError) -> OutputFile {
      var file = try OutputFile(creating: directory + "/" + name, ifExists: .fail)
      try file.append { $0 += header.utf8 }
      return file
    }
    try Files.createDirectory(directory)
    let isThere =
      kind == .keepIfThere
      && [TickRows.table.fileName, TickRows.table.name].contains { Files.exists(directory + "/" + $0) }
    let samples =
      isThere
      ? try OutputFile(creating: "/dev/null") : try table(TickRows.table.fileName, TickRows.table.header)
    let pulse = try table(
      "pulse.csv",
      "start_ns,end_ns,pulse_per_minute,quality,method,motion_g,none_because\n")
    let windows = try table(
      "beat-windows.csv",
      "start_ns,end_ns,beats,pulse_per_minute,template_correlation,skewness,motion_g,verdict\n")
    let beats = try table("beats.csv", "fitted_time_ns,interval_ms,accepted\n")
    let activity = try table("activity.csv", "start_ns,seconds,counts,enmo_mg,steps,rest\n")
    self.samples = samples
    self.pulse = pulse
    self.windows = windows
    self.beats = beats
    self.activity = activity
  }

  mutating func append(_ placed: PlacedTick) throws(SystemError) {
    try samples.append { rows.append(placed, to: &$0) }
  }

  mutating func append(_ window: PulseRateWindow) throws(SystemError) {
    try pulse.append { text in
      text.append(decimal: window.start.nanoseconds)
      text.appendColumn(window.end.nanoseconds)
      text.appendColumn(window.pulse?.beatsPerMinute, decimals: 2)
      text.appendColumn(window.pulse?.quality, decimals: 3)
      text.appendCell(window.pulse?.method.rawValue ?? "")
      text.appendColumn(window.motion, decimals: 4)
      text.appendCell(window.absence?.rawValue ?? "")
      text.append(UInt8(ascii: "\n"))
    }
  }

  mutating func append(_ window: PulseWindow) throws(SystemError) {
    try windows.append { text in
      text.append(decimal: window.start.nanoseconds)
      text.appendColumn(window.end.nanoseconds)
      text.appendColumn(Int64(window.beats))
      text.appendColumn(window.beatsPerMinute, decimals: 2)
      text.appendColumn(window.correlation, decimals: 4)
      text.appendColumn(window.skewness, decimals: 4)
      text.appendColumn(window.motion, decimals: 4)
      text.appendCell(window.rejection?.rawValue ?? "good")
      text.append(UInt8(ascii: "\n"))
    }
  }

  mutating func append(_ beat: PulseBeat) throws(SystemError) {
    try beats.append { text in
      text.append(decimal: beat.time.nanoseconds)
      text.appendColumn(beat.interval.map { $0 * 1_000 }, decimals: 2)
      text.appendCell(beat.isAccepted ? "1" : "0")
      text.append(UInt8(ascii: "\n"))
    }
  }

  mutating func append(_ epoch: ActivityEpoch, _ rest: RestState) throws(SystemError) {
    try activity.append { text in
      text.append(decimal: epoch.start.nanoseconds)
      text.appendColumn(epoch.seconds, decimals: 2)
      text.appendColumn(epoch.counts, decimals: 1)
      text.appendColumn(epoch.enmo, decimals: 2)
      text.appendColumn(epoch.steps.map { Int64($0) })
      text.appendCell(rest.rawValue)
      text.append(UInt8(ascii: "\n"))
    }
  }

  mutating func finish() throws(SystemError) {
    try samples.flush()
    try pulse.flush()
    try windows.flush()
    try beats.flush()
    try activity.flush()
  }
}

extension [UInt8] {
  fileprivate mutating func appendCell(_ text: String) {
    append(UInt8(ascii: ","))
    append(contentsOf: text.utf8)
  }
}
