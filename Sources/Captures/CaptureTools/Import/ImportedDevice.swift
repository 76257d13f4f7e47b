import BLEDissector
import BLEHost
import BLELinux
import BLESensors
import BLEWire
import ColmiRing
import Recording
import SensorSessions

/// Tables of one kind of sensor of an imported device, while they are written.
final class ImportedTables<Tables: SampleTables> {
  private var tables: Tables
  private var files: RecordingFiles

  init(_ tables: Tables, in directory: String) throws(SystemError) {
    self.tables = tables
    files = try RecordingFiles(in: directory, tables.tables, log: nil)
  }

  func append(_ sample: Tables.Sample) { tables.append(sample, to: &files) }

  /// Records that the clock was set before the next sample.
  ///
  /// - Returns: the number of rows of each table before the step, by table name.
  func begin(_ clock: ClockSetting) -> [String: Int] {
    tables.begin(clock)
    return files.rowsOfSamples
  }

  /// Completes the files and adds their contents to the report.
  ///
  /// - Returns: the first error.
  func finish(_ report: inout SessionReport) -> SystemError? {
    tables.finish(&files)
    files.flush()
    files.sync()
    let outcome = files.outcome
    let samples = tables.tables.filter { $0.content == .samples }
    for (place, table) in samples.enumerated() {
      var stream = SessionReport.Stream(
        name: table.name, file: table.fileName, samples: outcome.rows[place])
      if place < tables.dropouts.count { stream.dropouts = tables.dropouts[place] }
      if place < tables.restarts.count { stream.restarts = tables.restarts[place] }
      report.streams.append(stream)
    }
    if let ticks = tables.ticks {
      report.take(ticks, as: .csv)
      report.tickRows = tables.tables.firstIndex { $0.content == .derived }.map { outcome.rows[$0] } ?? 0
    }
    report.take(tables.account)
    report.lost.disk += outcome.lostSamples
    return outcome.failure
  }

  func update(_ body: (inout Tables) -> Void) { body(&tables) }
}

/// One device of a log, which is written as a capture.
struct ImportedDevice {
  /// Times of the first and last reading on a link.
  struct Span {
    var first: ReceiveTime
    var last: ReceiveTime
  }

  let directory: String
  /// Whether the directory was created.
  private var isOpen = false
  /// Whether the device has readings or messages to store.
  var hasReadings: Bool { isOpen || story.hasMessages }
  let story: ImportedStory
  private(set) var received = 0
  private(set) var malformed = 0
  private(set) var lastMalformed: WireError?
  private(set) var other = 0
  private(set) var repeated = 0
  private(set) var cut = 0
  /// Number of truncated values that contained a complete reading.
  private var usedCuts = 0
  private(set) var unplaced = 0
  /// Number of rows in each of a ring's tables, for each time at which the log's clock was set or may have
  /// been set.
  private(set) var rowsBeforeSteps: [[String: Int]] = []
  /// Times of the first and last reading on each link, by the number of the link in the log.
  private(set) var spans: [Int: Span] = [:]
  /// Number of the current link.
  var link = 0
  private(set) var failure: SystemError?
  private var ring: ImportedTables<RingTables>?
  private var heartRate: ImportedTables<HeartRateTables>?
  private var temperature: ImportedTables<TemperatureTables>?
  private var cycling: ImportedTables<CyclingTables>?
  private var polar: [PolarMeasurementType: ImportedTables<PolarTables>] = [:]

  init(into directory: String, _ story: ImportedStory) {
    self.directory = directory
    self.story = story
  }

  /// Creates the directory, if it is not created yet.
  private mutating func open() throws(SystemError) {
    guard !isOpen else { return }
    try Files.createDirectory(directory)
    isOpen = true
  }

  private mutating func take<Tables: SampleTables>(
    _ sample: Tables.Sample, at time: ReceiveTime,
    _ place: WritableKeyPath<ImportedDevice, ImportedTables<Tables>?>, _ make: @autoclosure () -> Tables,
    isCounted: Bool = false
  ) {
    if isCounted { usedCuts += 1 } else { received += 1 }
    spans[link, default: Span(first: time, last: time)].last = time
    guard failure == nil else { return }
    do throws(SystemError) {
      if self[keyPath: place] == nil {
        try open()
        self[keyPath: place] = try ImportedTables(make(), in: directory)
      }
      self[keyPath: place]?.append(sample)
    } catch { failure = error }
  }

  /// Completes the files.
  ///
  /// - Parameter report: receives the counts and streams.
  mutating func finish(_ report: inout SessionReport) {
    (report.received, report.malformed) = (received, malformed)
    (report.otherFrames, report.repeated, report.lost.cut) = (other, repeated, cut)
    (report.lost.unplaced, report.usedCuts) = (unplaced, usedCuts)
    report.lastMalformed = lastMalformed?.description
    let failures = [
      ring?.finish(&report), heartRate?.finish(&report), temperature?.finish(&report),
      cycling?.finish(&report),
    ]
    let raw = polar.sorted { $0.key.rawValue < $1.key.rawValue }.map { $0.value.finish(&report) }
    failure = failure ?? (failures + raw).compactMap(\.self).first
  }
}

extension ImportedDevice: LogReadingSink {
  mutating func noteClockStep() {
    rowsBeforeSteps.append([:])
    let clock = ClockSetting(unknownCount: rowsBeforeSteps.count)
    if let rows = ring?.begin(clock) { rowsBeforeSteps[rowsBeforeSteps.count - 1] = rows }
  }

  mutating func take(_ sample: HeartRateSample) {
    take(sample, at: sample.time, \.heartRate, HeartRateTables())
  }

  mutating func take(_ sample: TemperatureSample) {
    take(sample, at: sample.time, \.temperature, TemperatureTables())
  }

  mutating func take(_ sample: CyclingSample) { take(sample, at: sample.time, \.cycling, CyclingTables()) }

  mutating func take(_ sample: RingRawReading) { take(sample, at: sample.time, \.ring, RingTables()) }

  mutating func take(_ frame: Swift.Span<UInt8>, of stream: PolarLogStreams.Stream, at time: ReceiveTime) {
    guard let sample = try? PolarFrameSample(decoding: frame, at: time, link: stream.link) else { return }
    polar[stream.type]?.update {
      $0.take(stream.type, sampleRate: stream.sampleRate, factor: stream.factor)
    }
    take(
      sample, at: time, \.polar[stream.type],
      PolarTables(stream.type, sampleRate: stream.sampleRate, factor: stream.factor))
  }

  mutating func leaveOut(_ reason: LogReadings.Reason) {
    received += 1
    switch reason {
    case .malformed(let error):
      malformed += 1
      lastMalformed = error
    case .other: other += 1
    case .repeated: repeated += 1
    case .unplaced: unplaced += 1
    }
  }

  mutating func noteCut() {
    received += 1
    cut += 1
  }

  mutating func take(cut sample: HeartRateSample) {
    take(sample, at: sample.time, \.heartRate, HeartRateTables(), isCounted: true)
  }

  mutating func take(cut sample: RingRawReading) {
    take(sample, at: sample.time, \.ring, RingTables(), isCounted: true)
  }
}

/// Messages between an imported ring and its host: `messages.ndjson`, and tables in `history`.
final class ImportedStory {
  /// Lines of messages. The file is created with the first line.
  private final class Lines {
    let directory: String
    var file: OutputFile?
    var failure: SystemError?

    init(_ directory: String) { self.directory = directory }

    func append(_ line: Span<UInt8>) {
      guard failure == nil else { return }
      do throws(SystemError) {
        if file == nil {
          try Files.createDirectory(directory)
          file = try OutputFile(creating: directory + "/messages.ndjson", ifExists: .fail)
        }
        try file?.append { for index in line.indices { $0.append(line[index]) } }
      } catch { failure = error }
    }
  }

  private let lines: Lines
  private var story: RingStory

  /// Prepares the output.
  ///
  /// - Parameter calendar: calendar of the ring's days; `nil` to derive it from the log.
  init(into directory: String, _ calendar: RingCalendar?, fallback: RingCalendar) {
    let lines = Lines(directory)
    self.lines = lines
    story = RingStory(calendar: calendar, fallback: fallback) { lines.append($0) }
  }

  /// Processes a value of the ring. Other packets are ignored.
  func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att, let value = att.value, let uuid = att.uuid else { return }
    switch (att.opcode, uuid) {
    case (.writeRequest, RingUUID.commandWrite), (.writeCommand, RingUUID.commandWrite):
      story.take(value, channel: .uart, direction: .hostToRing, at: packet.time)
    case (.writeRequest, RingUUID.bigDataWrite), (.writeCommand, RingUUID.bigDataWrite):
      story.take(value, channel: .bigData, direction: .hostToRing, at: packet.time)
    case (.handleValueNotification, RingUUID.commandNotify):
      story.take(value, channel: .uart, direction: .ringToHost, at: packet.time)
    case (.handleValueNotification, RingUUID.bigDataNotify):
      story.take(value, channel: .bigData, direction: .ringToHost, at: packet.time)
    default: break
    }
  }

  /// Ends the link. Incomplete messages are closed.
  func endLink() { story.finish() }

  /// Whether there are messages other than raw samples.
  fileprivate var hasMessages: Bool { lines.file != nil || lines.failure != nil }

  /// Completes the files.
  ///
  /// - Parameter origin: receives the counts of messages.
  /// - Returns: descriptions of files that could not be written.
  func finish(_ origin: inout ImportOrigin) -> [String] {
    story.finish()
    var problems: [String] = []
    do throws(SystemError) {
      try lines.file?.flush()
      if !story.hasNoRows {
        try Files.createDirectory(lines.directory + "/history")
        _ = try story.write(in: lines.directory + "/history")
      }
    } catch { problems.append("\(error)") }
    if let failure = lines.failure { problems.append("\(failure)") }
    let counts = story.counts
    if counts.droppedRows > 0 {
      problems.append(
        "\(counted(counts.droppedRows, "row of the ring's history is", "rows of the ring's history are")) left out: too many"
      )
    }
    origin.counts = counts.frames.merging(counts.messages, uniquingKeysWith: +)
    for (kind, count) in counts.logs { origin.counts[kind, default: 0] += count }
    for (unknown, count) in counts.unknown {
      origin.counts["unknown 0x\(hexadecimal(unknown.code)) \(unknown.direction.rawValue)", default: 0] +=
        count
    }
    for (reason, count) in counts.invalid { origin.counts["invalid \(reason)", default: 0] += count }
    if counts.rawFrames > 0 { origin.counts["raw"] = counts.rawFrames }
    if counts.incompleteLogs > 0 { origin.counts["incomplete logs"] = counts.incompleteLogs }
    if counts.undatedLogs > 0 { origin.counts["logs without a day"] = counts.undatedLogs }
    return problems
  }
}
