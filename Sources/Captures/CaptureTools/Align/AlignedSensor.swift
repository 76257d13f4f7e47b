import BLELinux
import BLEWire
import JSONText
import Physiology
import Recording

/// Movement and heartbeats in one capture, for comparison with other sensors on the same body.
struct AlignedSensor: Sendable {
  /// Name of the capture's directory.
  let name: String
  private(set) var motion = MotionSeries()
  /// Times of the beats in seconds after the origin, ascending.
  private(set) var beats: [Double] = []
  /// Whether the beats come from an optical sensor, which measures each beat about a quarter of a second
  /// late.
  private(set) var seesBlood = false
  /// Seconds on the kernel's clock per unit of the sensor's clock; `nil` if the sensor has no clock of its
  /// own.
  private(set) var pace: Double?
  private(set) var counts = StraightClock.Unit.seconds
  /// Delay from the moment a measurement is ready to be sent to its recorded time; `nil` if it is unknown, or
  /// if no rows are on the sensor's own clock.
  private(set) var wait: LinkWait?
  /// Connection intervals of the link, in order.
  private(set) var intervals: [LinkWait.Interval] = []
  /// Tables that could not be read completely, with the reasons.
  private(set) var problems: [String] = []

  /// Zero of all times in seconds, as nanoseconds since the Unix epoch.
  private let origin: Int64

  /// Reads a capture.
  ///
  /// - Parameters:
  ///   - directory: directory of the capture.
  ///   - origin: zero of all times in seconds, as nanoseconds since the Unix epoch.
  init(_ directory: String, origin: Int64) throws(AnalysisError) {
    name = CaptureGroup.name(directory)
    self.origin = origin
    let capture: RecordedCapture
    do throws(ConversionError) { capture = try RecordedCapture(directory) } catch { throw .noTables(error) }
    problems = capture.problems.map { "\(CaptureGroup.name(directory)): \($0)" }
    do throws(SystemError) {
      let clock = try StraightClock(of: capture)
      if let clock { (pace, counts) = (clock.pace, clock.counts) }
      intervals = LinkWait.intervals(of: capture, origin: origin)
      for table in capture.tables { try read(table, of: capture, clock) }
      wait = try findWait(of: capture, clock)
      try findBeats(of: capture, clock)
    } catch { throw .output(error) }
  }

  private func seconds(_ time: Int64) -> Double { Double(time &- origin) / 1e9 }

  /// Returns the time of the first row of a capture, in nanoseconds since the Unix epoch; `nil` if the
  /// capture has no rows.
  static func start(of directory: String) -> Int64? {
    guard let capture = try? RecordedCapture(directory) else { return nil }
    let starts = capture.tables.compactMap { table -> Int64? in
      guard let reader = try? capture.reader(table), reader.next() else { return nil }
      let time = Int64(bitPattern: reader.words[0])
      return CaptureTable.times.contains(time) ? time : nil
    }
    return starts.min()
  }

  // MARK: Movement

  private mutating func read(
    _ table: RecordedTable, of capture: RecordedCapture, _ clock: StraightClock?
  ) throws(SystemError) {
    if table == HeartRateTables.tables[1] { return try readIntervals(table, of: capture) }
    guard let axes = Axes(table), motion.seconds.isEmpty else { return }
    let reader = try capture.reader(table)
    while reader.next() {
      let recorded = Int64(bitPattern: reader.words[0])
      guard CaptureTable.times.contains(recorded), let acceleration = axes.acceleration(reader.words) else {
        continue
      }
      motion.append(acceleration, at: seconds(clock?.time(ofRow: reader.words, in: table) ?? recorded))
    }
    if let problem = reader.problem { problems.append("\(name): \(problem)") }
  }

  /// Acceleration columns of a table.
  private struct Axes {
    let places: [Int]
    let scale: Double
    let columns: [RecordedColumn]

    init?(_ table: RecordedTable) {
      columns = table.columns
      for (unit, scale) in [("g", 1.0), ("mg", 0.001)] {
        let places = ["x", "y", "z"].compactMap { axis in
          table.columns.firstIndex { $0.name == "\(axis)_\(unit)" }
        }
        // A ring's acceleration table has only receive timestamps. The table `samples` has the same values on
        // the ring's clock.
        guard places.count == 3, SignalTable(table) != nil else { continue }
        (self.places, self.scale) = (places, scale)
        return
      }
      return nil
    }

    func acceleration(_ words: [UInt64]) -> Acceleration? {
      func axis(_ index: Int) -> Double? {
        columns[places[index]].number(words[places[index]]).map { $0 * scale }
      }
      guard let x = axis(0), let y = axis(1), let z = axis(2) else { return nil }
      return Acceleration(x: x, y: y, z: z)
    }
  }

  // MARK: The link

  /// Returns the indices of the columns with receive timestamps of frames.
  private static func stamps(_ table: RecordedTable) -> [Int] {
    let names = ["frame_time_ns"] + RingStream.allCases.map { "\($0.name)_time_ns" }
    return table.columns.indices.filter { names.contains(table.columns[$0].name) }
  }

  private func findWait(of capture: RecordedCapture, _ clock: StraightClock?) throws(SystemError) -> LinkWait?
  {
    var frames: [LinkWait.Frame] = []
    let hasWholeFrames = Self.hasWholeFrames(capture)
    for table in capture.tables {
      let places = Self.stamps(table)
      guard SignalTable(table) != nil, !places.isEmpty else { continue }
      var ofTable: [LinkWait.Frame] = []
      let reader = try capture.reader(table)
      while reader.next() {
        let recorded = Int64(bitPattern: reader.words[0])
        let stamp = places.map { Int64(bitPattern: reader.words[$0]) }.filter {
          CaptureTable.times.contains($0)
        }.min()
        guard let stamp, CaptureTable.times.contains(recorded) else { continue }
        let time = seconds(clock?.time(ofRow: reader.words, in: table) ?? recorded)
        if let last = ofTable.last, last.stamp == seconds(stamp) {
          ofTable[ofTable.count - 1].time = max(last.time, time)
          ofTable[ofTable.count - 1].rows += 1
        } else {
          ofTable.append(LinkWait.Frame(time: time, stamp: seconds(stamp)))
        }
      }
      guard places.count == 1, let first = ofTable.first, let last = ofTable.last else {
        frames += ofTable
        continue
      }
      let rows = ofTable.reduce(0) { $0 + $1.rows }
      let period = (last.time - first.time) / Double(max(1, rows - first.rows))
      frames += ofTable.map {
        LinkWait.Frame(time: $0.time, stamp: $0.stamp, rows: $0.rows, period: period)
      }
    }
    return LinkWait(
      frames.sorted { $0.stamp < $1.stamp }, intervals, isStraight: clock != nil,
      hasWholeFrames: hasWholeFrames)
  }

  /// Returns whether one link-layer packet can hold any frame, according to `session.json`; `true` without
  /// this file.
  private static func hasWholeFrames(_ capture: RecordedCapture) -> Bool {
    guard let changes = capture.session?["connection"]?["changes"]?.array else {
      return capture.session == nil
    }
    return changes.compactMap { $0["receiveDataLength"]?.integer(Int.self) }.last ?? 27 >= longestPacket
  }

  /// Size in bytes of a data packet with the maximum data length. Core 5.4, Vol 6, Part B, 2.4.
  private static let longestPacket = 251

  // MARK: Beats

  /// Beats of a heart rate strap; `nil` if the capture has no beat intervals.
  private(set) var strap: StrapBeats?

  private mutating func readIntervals(_ table: RecordedTable, of capture: RecordedCapture) throws(SystemError)
  {
    var strap = StrapBeats()
    let reader = try capture.reader(table)
    while reader.next() {
      let time = Int64(bitPattern: reader.words[0])
      guard CaptureTable.times.contains(time), let ticks = table.columns[1].number(reader.words[1]) else {
        continue
      }
      strap.take(Int(ticks), at: seconds(time))
    }
    if let problem = reader.problem { problems.append("\(name): \(problem)") }
    strap.finish()
    self.strap = strap
    beats = strap.beats
  }

  /// Detects beats in an ECG or an optical pulse, unless a strap reported beats.
  private mutating func findBeats(of capture: RecordedCapture, _ clock: StraightClock?) throws(SystemError) {
    guard beats.isEmpty,
      capture.tables.contains(where: { table in
        table.columns.contains { ["ecg_uv", "ppg0_counts", "ppg_counts"].contains($0.name) }
      }), let (_, findings) = try? CaptureAnalysis.findings(of: capture.directory)
    else { return }
    let isElectric = !findings.ecgBeats.isEmpty
    let times =
      isElectric
      ? findings.ecgBeats.filter { $0.correlation ?? 0 > 0.5 }.map(\.time.nanoseconds)
      : findings.beats.filter(\.isAccepted).map(\.time.nanoseconds)
    seesBlood = !isElectric
    let name = isElectric ? "ecg_uv" : "ppg"
    let table = capture.tables.first { table in
      SignalTable(table) != nil && table.columns.contains { $0.name.hasPrefix(name) }
    }
    for time in times {
      let seconds = seconds(table.flatMap { clock?.time(recorded: time, in: $0) } ?? time)
      if seconds > beats.last ?? -.infinity { beats.append(seconds) }
    }
  }
}
