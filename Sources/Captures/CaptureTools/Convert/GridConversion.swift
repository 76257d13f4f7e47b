import BLELinux
import BLEWire
import JSONText
package import Recording

/// Resamples the signals of all devices in a group to one time grid, using their alignment (`ringtap align`).
/// The result is one table with a column for each signal, named after the signal and the device.
///
/// Values between two samples are interpolated linearly. If two samples are more than two and a half periods
/// apart, the values between them are missing. Irregular values, such as a heart rate, are held until the
/// next value, at most for `heldSeconds`.
package enum GridConversion {
  package static let rates = 0.1...10_000.0
  package static let table = "grid"
  private static let heldSeconds = 5.0
  private static let rowLimit = Limit(
    500_000_000, "rows of a grid", by: .file, whenFull: "the conversion is refused",
    counted: "message and exit status")

  /// Converts a group.
  ///
  /// - Parameters:
  ///   - directory: directory of the group.
  ///   - rate: rate of the grid, in rows per second.
  ///   - output: path of the folder to create.
  package static func run(
    _ directory: String, rate: Double, to format: TableFormat, output: String,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) -> ConversionReport {
    guard Files.names(in: output).count == 2 || !Files.exists(output) else { throw .outputExists(output) }
    let alignment = try Alignment(in: directory)
    var report = ConversionReport(format == .csv ? .csv : .npy, output)
    var tracks: [GridTrack] = []
    for device in alignment.devices {
      let capture = try RecordedCapture("\(directory)/\(device.directory)")
      report.leftOut += capture.leftOut.map { "\(device.directory)/\($0)" }
      report.problems += capture.problems.map { "\(device.directory): \($0)" }
      if device.late == nil {
        report.problems.append("\(device.directory) is not aligned: its times are as they were recorded")
      }
      do throws(SystemError) {
        let clock = try StraightClock(of: capture)
        for table in capture.tables {
          if let track = try GridTrack(table, of: capture, clock, alignment, device) { tracks.append(track) }
        }
      } catch { throw .output(error) }
    }
    let (starts, ends) = (tracks.compactMap(\.start), tracks.compactMap(\.end))
    guard let start = starts.min(), let end = ends.max() else {
      throw .unsuitable("no table below \(directory) has signals")
    }
    let span = TimeSpan(from: start, to: end).seconds
    try checkPauses(tracks, span: span, directory)
    let rows = span * rate
    guard rows < Double(rowLimit.count) else {
      throw .unsuitable(
        "the captures below \(directory) are too long for a grid of \(rate) a second; lower --grid")
    }
    let columns = [RecordedColumn.time("time_ns")] + tracks.flatMap(\.columns)
    do throws(SystemError) {
      try Files.createDirectory(output)
      var files = try RecordingFiles(
        in: output, [RecordedTable(name: table, columns: columns)], as: format, log: nil)
      for row in 0...Int(rows) {
        let time = start + Int64((Double(row) * 1e9 / rate).rounded())
        var words = [UInt64(bitPattern: time)]
        for track in tracks { track.append(at: time, held: heldSeconds, to: &words) }
        files.append(WordCells(columns: columns, words: words), to: 0)
        if row.isMultiple(of: 65_536) { progress(ConversionProgress(table, row)) }
      }
      files.end(rate: rate)
      files.flush()
      files.sync()
      if let failure = files.outcome.failure { throw failure }
      report.tables = [ConversionReport.Table(name: table, rows: files.outcome.rows[0])]
    } catch { throw .output(error) }
    report.problems += tracks.compactMap(\.problem)
    return report
  }
}

extension GridConversion {
  /// Checks that the grid would not be mostly empty.
  ///
  /// - Throws: an error if the grid would contain a period of a day or more without data.
  private static func checkPauses(
    _ tracks: [GridTrack], span: Double, _ directory: String
  ) throws(ConversionError) {
    let way =
      "a grid would be mostly empty; convert each device: ringtap convert \(directory)/DEVICE --to csv"
    if let track = tracks.first(where: { $0.longestPause >= SignalScan.fillLimit }) {
      throw .unsuitable(
        "the clock of \(track.name) jumps by \(counted(Int(track.longestPause / 86_400), "day")); \(way)")
    }
    let covered = tracks.reduce(0) { $0 + $1.span }
    guard span < covered + SignalScan.fillLimit else {
      throw .unsuitable(
        "the captures below \(directory) are \(counted(Int((span - covered) / 86_400), "day")) apart; \(way)")
    }
  }
}

/// Signals of one table during resampling.
private final class GridTrack {
  let columns: [RecordedColumn]
  private let places: [Int]
  private let reader: any TableReader
  private let clock: StraightClock?
  private let alignment: Alignment
  private let device: Alignment.Device
  /// Maximum time between two samples for interpolation, in nanoseconds; `nil` for values that are held.
  private let longest: Double?
  private var before: (time: Int64, values: [Double])?
  private var after: (time: Int64, values: [Double])?
  private var latest: Int64 = .min
  /// Time of the first row.
  let start: Int64?
  /// Time of the last row.
  let end: Int64?
  /// Longest time between two rows, in seconds.
  let longestPause: Double
  let name: String

  /// Duration from the first to the last row, in seconds.
  var span: Double { start.flatMap { start in end.map { TimeSpan(from: start, to: $0).seconds } } ?? 0 }

  var problem: String? { reader.problem.map { "\(device.directory): \($0)" } }

  /// Opens a table.
  ///
  /// - Returns: `nil` for a table without signals, or if another table contains the same rows.
  init?(
    _ table: RecordedTable, of capture: RecordedCapture, _ clock: StraightClock?, _ alignment: Alignment,
    _ device: Alignment.Device
  ) throws(SystemError) {
    let signals = SignalTable(table)
    // A ring's own tables have only receive timestamps. The table `samples` has the same values on the ring's
    // clock.
    let isOfRing = RingStream.allCases.contains { $0.name == table.name } && signals == nil
    guard !isOfRing || !capture.tables.contains(where: { $0.name == TickRows.table.name }) else { return nil }
    let kept = table.columns.indices.filter { Self.isSignal(table.columns[$0], of: table) }
    guard !kept.isEmpty else { return nil }
    places = kept
    let suffix = device.directory.replacing("-", with: "")
    columns = kept.map { place in
      let column = table.columns[place]
      return RecordedColumn("\(column.name)_\(suffix)", .float64(decimals: 6), unit: column.unit)
    }
    (self.alignment, self.device, self.clock) = (alignment, device, clock)
    let scan = try capture.reader(table)
    let (spacing, first, last, pause) = Self.extent(scan)
    (longestPause, name) = (pause, "\(device.directory)/\(table.name)")
    longest = signals == nil ? nil : 2.5 * spacing
    start = first.map { alignment.time($0, of: device) }
    end = last.map { alignment.time($0, of: device) }
    reader = try capture.reader(table)
    after = read()
  }

  private static func isSignal(_ column: RecordedColumn, of table: RecordedTable) -> Bool {
    guard table != HeartRateTables.tables[1], column.unit != "ns" else { return false }
    if case .word = column.kind { return false }
    return !["tick", "missing_before", "fit"].contains(column.name)
  }

  /// Returns the median time between rows in nanoseconds, the first and the last time, and the longest pause
  /// in seconds.
  private static func extent(
    _ reader: any TableReader
  ) -> (spacing: Double, first: Int64?, last: Int64?, pause: Double) {
    var (steps, pause) = ([Double](), 0.0)
    var (first, last) = (Int64?.none, Int64?.none)
    while reader.next() {
      let time = Int64(bitPattern: reader.words[0])
      guard CaptureTable.times.contains(time) else { continue }
      if let last, time > last {
        if steps.count < 4096 { steps.append(Double(time - last)) }
        pause = max(pause, Double(time - last) / 1e9)
      }
      first = first ?? time
      last = max(last ?? time, time)
    }
    steps.sort()
    return (steps.isEmpty ? 0 : steps[steps.count / 2], first, last, pause)
  }

  /// Returns the next row with a time later than the last returned row.
  private func read() -> (time: Int64, values: [Double])? {
    while reader.next() {
      let recorded = Int64(bitPattern: reader.words[0])
      guard CaptureTable.times.contains(recorded) else { continue }
      let time = alignment.time(clock?.time(ofRow: reader.words, in: reader.table) ?? recorded, of: device)
      guard time > latest else { continue }
      latest = time
      return (time, places.map { reader.table.columns[$0].number(reader.words[$0]) ?? .nan })
    }
    return nil
  }

  /// Appends the signals' values at `time`. Times must not decrease between calls.
  func append(at time: Int64, held: Double, to words: inout [UInt64]) {
    while let next = after, next.time <= time {
      before = next
      after = read()
    }
    for place in places.indices { words.append(value(place, at: time, held: held).bitPattern) }
  }

  private func value(_ place: Int, at time: Int64, held: Double) -> Double {
    guard let before else { return .nan }
    guard let longest else { return Double(time - before.time) <= held * 1e9 ? before.values[place] : .nan }
    if before.time == time { return before.values[place] }
    guard let after, Double(after.time - before.time) <= longest else { return .nan }
    let share = Double(time - before.time) / Double(after.time - before.time)
    return before.values[place] + (after.values[place] - before.values[place]) * share
  }
}
