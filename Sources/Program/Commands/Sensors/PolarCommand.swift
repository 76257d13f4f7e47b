import ArgumentParser
import BLEDissector
import BLEHost
import BLESensors
import BLEWire
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap polar [ADDRESS]`.
typealias PolarCommand = SensorCommand<PolarOptions>

struct PolarOptions: PrintedSensor {
  static let configuration = CommandConfiguration(
    commandName: "polar",
    abstract: "Print a Polar sensor's raw streams.",
    discussion: """
      Finds the sensor by its name, or uses the given address; reads its settings, starts the stream, and \
      prints the samples until --duration, --count (of frames) or Ctrl-C; then it stops the stream. ringtap \
      reconnects if the link is lost. The lines are those of the table that a recording has, one per sample: \
      measurement time (time_ns: nanoseconds since the Unix epoch, fitted), the kernel's timestamp of its \
      frame (frame_time_ns), measurement time by the sensor's own clock (device_time_ns: nanoseconds since \
      2000), and its channels in the table's units.

      EXAMPLES
        ringtap polar --stream ecg --duration 60 > ecg.csv
        ringtap polar --stream acc --rate 100 --json
            event "device" once, soon after the first; one object per frame:
            frame_time_ns, the other columns by name as arrays, and under "frame"
            the result of `ringtap decode`; finally "end"
        ringtap capture polar:acc,rate=100 --output ride
            records into accelerometer.csv, packets.btsnoop and session.json;
            likewise ecg.csv (microvolts) and ppg.csv
        ringtap capture polar:ecg,acc --output ride
            both at once, on the sensor's clock
        ringtap polar --stream ppg --transport virtual:polar --count 5
      """,
    shouldDisplay: false)

  @Option(
    help: ArgumentHelp("ecg, acc or ppg; with --output several, such as ecg,acc.", valueName: "streams"))
  var stream = "ecg"

  @Option(
    help: ArgumentHelp(
      "Samples per second of a single stream; the sensor must support the rate.", valueName: "hertz"),
    in: NumberRange(PolarKind.rates, "samples a second"))
  var rate: UInt16?

  /// Values of a deprecated option that `--to` replaces.
  @Option(help: ArgumentHelp(visibility: .hidden))
  var streamTo: [String] = []

  var formerStreams: FormerStreams { FormerStreams(streamTo, "--stream-to") }

  func kind(isRecorded: Bool) throws -> PolarKind {
    guard var settings = PolarSession.Settings(named: stream) else {
      let names = PolarSession.Settings.named.map(\.name).joined(separator: ", ")
      throw ValidationError("--stream '\(stream)': \(names), each once, separated by commas")
    }
    if settings.streams.count > 1 {
      if rate != nil {
        throw ValidationError("--rate is for a single stream; several streams use their default rates")
      }
      if !isRecorded { throw ValidationError("several streams need an --output directory") }
    }
    settings.streams[0].sampleRate = rate
    return PolarKind(settings)
  }

  func writer(isJSON: Bool) -> some SensorWriter<PolarSession> {
    PolarWriter(PolarSession.Settings(named: stream)?.streams[0].type ?? .ecg, isJSON: isJSON)
  }
}

/// Prints the frames of one stream.
private struct PolarWriter: SensorWriter {
  private let type: PolarMeasurementType
  private let isJSON: Bool
  private var factor = 1.0
  private var sampleRate: UInt16 = 1
  private var rows = PolarRows(.ecg, sampleRate: nil, factor: nil)
  private var columns: [RecordedColumn] = []
  private var previous: UInt64?
  private var hasHeader = false

  init(_ type: PolarMeasurementType, isJSON: Bool) { (self.type, self.isJSON) = (type, isJSON) }

  mutating func begin(_ session: PolarSession) {
    (factor, sampleRate) = (session.streams[0].factor, session.streams[0].sampleRate)
    rows = PolarRows(type, sampleRate: sampleRate, factor: factor)
  }

  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    guard isJSON else { return Console.note(facts.text(peer) + ", \(sampleRate) Hz") }
    try facts.show(peer) { line in
      line.member("sampleRateHz", sampleRate)
      line.member("conversionFactor", factor)
    }
  }

  mutating func show(_ sample: PolarFrameSample) throws {
    try isJSON ? showObject(sample) : showRows(sample)
  }

  private mutating func showObject(_ sample: PolarFrameSample) throws(Console.WriteError) {
    let octets = sample.octets
    var context = SensorDecoder.Context()
    context.operation = .notify
    context.factor = factor
    context.sampleRate = sampleRate
    context.previousTimestampNanoseconds = previous
    let words = words(of: sample)
    // A frame without rows repeats an earlier frame, and is not printed.
    if sample.isValue, words.isEmpty { return }
    if let frame = try? PolarFrame(validating: octets.span) { previous = frame.timestampNanoseconds }
    try Console.json { line in
      line.member("event", "samples")
      line.member("frame_time_ns", sample.time)
      for (place, column) in columns.enumerated() where column.name != "frame_time_ns" {
        line.member(
          column.name,
          array: { line in
            for first in stride(from: 0, to: words.count, by: columns.count) {
              line.value(words[first + place], column)
            }
          })
      }
      line.key("frame")
      _ = SensorDecoder().decode([octets], of: .characteristic(PolarUUID.data), context, into: &line)
    }
  }

  /// Returns the rows of a frame, concatenated. The result is empty if the frame does not fit the table, or
  /// repeats an earlier frame.
  private mutating func words(of sample: PolarFrameSample) -> [UInt64] {
    var (words, columns) = ([UInt64](), columns)
    rows.take(sample) { row, _ in
      if columns.isEmpty { columns = PolarRows.columns(row.type, row.channelCount) }
      var cells = WordRow(columns, wordCapacity: columns.count)
      row.encode(into: &cells)
      words += cells.words
    }
    self.columns = columns
    return words
  }

  private mutating func showRows(_ sample: PolarFrameSample) throws(Console.WriteError) {
    var (text, columns) = ([UInt8](), columns)
    rows.take(sample) { row, _ in Self.append(row, &columns, to: &text) }
    self.columns = columns
    try Console.write(text)
  }

  private static func append(
    _ row: borrowing PolarRow, _ columns: inout [RecordedColumn], to text: inout [UInt8]
  ) {
    if columns.isEmpty {
      columns = PolarRows.columns(row.type, row.channelCount)
      text += RecordedTable(name: PolarRows.name(row.type), columns: columns).header.utf8
    }
    row.appendRow(to: &text)
  }

  /// Prints the retained rows as text. In JSON, frames whose order is still unknown are omitted.
  mutating func finish() throws -> Int? {
    var (text, columns) = ([UInt8](), columns)
    rows.finish { row, _ in Self.append(row, &columns, to: &text) }
    if !isJSON { try Console.write(text) }
    return rows.account.isNumbered ? rows.account.missing : nil
  }
}
