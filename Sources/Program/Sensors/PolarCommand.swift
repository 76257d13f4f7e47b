import ArgumentParser
import BLECore
import BLEDissector
import BLEHost
import BLESensors
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap polar [ADDRESS]`.
struct PolarCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "polar",
    abstract: "Show a raw stream of a Polar sensor: ECG, acceleration or PPG.",
    discussion: """
      Finds the sensor by its name, or takes the address given; reads its settings, starts the stream, and shows the \
      samples until --duration, --count (of frames) or Ctrl-C; then the stream is stopped. A lost link is made \
      again. Lines are those of the table that --output writes, one for each sample: when it was \
      measured (time_ns: nanoseconds since the Unix epoch, fitted), when its frame came (frame_time_ns: the kernel's receive \
      stamp), when it was measured by the sensor's own clock (device_time_ns: nanoseconds since 2000), and its channels in \
      the table's units.

      EXAMPLES
        ringtap polar --stream ecg --duration 60 > ecg.csv
        ringtap polar --stream acc --rate 100 --json
            event "device" once, soon after the first; one object a frame: frame_time_ns, the other columns by their names as
            arrays, and under "frame" what `ringtap decode` says; at last "end"
        ringtap polar --stream ecg --output ride
            into ecg.csv (microvolts), packets.btsnoop and session.json; likewise accelerometer.csv and ppg.csv
        ringtap polar --stream ppg --transport virtual:polar --count 5
      """)

  enum Stream: String, CaseIterable, ExpressibleByArgument {
    case ecg, acc, ppg

    var type: PolarMeasurementType {
      switch self {
      case .ecg: .ecg
      case .acc: .accelerometer
      case .ppg: .ppg
      }
    }
  }

  @OptionGroup var sensor: SensorOptions

  @Option(help: "ecg, acc or ppg.")
  var stream = Stream.ecg

  @Option(help: ArgumentHelp("Samples a second, one of those that the sensor offers.", valueName: "hertz"))
  var rate: UInt16?

  @Option(
    help: ArgumentHelp(
      "Print each sample as a line of JSON as soon as it has come: '-', unix:PATH or tcp:HOST:PORT, as `capture --stream`.",
      valueName: "target"))
  var streamTo: [String] = []

  func validate() throws {
    _ = try StreamOptions.targets(streamTo, "--stream-to")
    if sensor.output == nil, !streamTo.isEmpty {
      throw ValidationError("--stream-to needs an --output directory; without, --json prints what comes")
    }
  }

  func run() async throws {
    let settings = PolarSession.Settings(stream.type, sampleRate: rate)
    guard let output = sensor.output else {
      return try await sensor.run(.polar, settings, PolarWriter(stream.type, isJSON: sensor.json))
    }
    try await sensor.record(
      .polar(settings), "polar", into: output, try StreamOptions.targets(streamTo, "--stream-to"))
  }
}

/// Writes the frames of one stream.
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
    factor = session.factor
    sampleRate = session.sampleRate
    rows = PolarRows(type, sampleRate: session.sampleRate, factor: session.factor)
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

  /// The rows of a frame one after the other; none where it does not fit the table.
  private mutating func words(of sample: PolarFrameSample) -> [UInt64] {
    let octets = sample.octets
    guard let frame = try? PolarFrame(validating: octets.span), let layout = rows.accept(frame) else {
      return []
    }
    if columns.isEmpty { columns = PolarRows.columns(rows.type, layout.channelCount) }
    var words = WordRow(columns, wordCapacity: columns.count * frame.sampleCount)
    rows.forEach(of: frame, at: sample.time) { row in
      row.encode(into: &words)
      words.endRow()
    }
    return words.words
  }

  private mutating func showRows(_ sample: PolarFrameSample) throws(Console.WriteError) {
    let octets = sample.octets
    guard let frame = try? PolarFrame(validating: octets.span), let layout = rows.accept(frame) else {
      return
    }
    var text: [UInt8] = []
    if columns.isEmpty {
      columns = PolarRows.columns(rows.type, layout.channelCount)
      text += RecordedTable(name: PolarRows.name(rows.type), columns: columns).header.utf8
    }
    rows.forEach(of: frame, at: sample.time) { $0.appendRow(to: &text) }
    try Console.write(text)
  }
}
