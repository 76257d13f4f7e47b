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
      again. Lines are CSV, one for each sample: when \
      its frame came (nanoseconds since the Unix epoch, the kernel's receive stamp), when it was measured by the \
      sensor's own clock (nanoseconds since 2000), and its channels as they were sent.

      EXAMPLES
        ringtap polar --stream ecg --duration 60 > ecg.csv
        ringtap polar --stream acc --rate 100 --json
            event "device", then one object a frame: timeNs, and under "frame" what `ringtap decode` says; at last "end"
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

  func run() async throws {
    let settings = PolarSession.Settings(stream.type, sampleRate: rate)
    guard let output = sensor.output else {
      return try await sensor.run(.polar, settings, PolarWriter(isJSON: sensor.json))
    }
    try await sensor.record(.polar(settings), into: output)
  }
}

/// Writes the frames of one stream.
private struct PolarWriter: SensorWriter {
  private let isJSON: Bool
  private var factor = 1.0
  private var sampleRate: UInt16 = 1
  private var clock = PolarSampleClock(sampleRateHertz: 1)
  private var previous: UInt64?
  private var hasHeader = false

  init(isJSON: Bool) { self.isJSON = isJSON }

  mutating func begin(_ session: PolarSession, _ peer: DeviceAddress) throws {
    factor = session.factor
    sampleRate = session.sampleRate
    clock = PolarSampleClock(sampleRateHertz: session.sampleRate)
    guard isJSON else { return Console.note(session.facts.text(peer) + ", \(session.sampleRate) Hz") }
    try session.facts.show(peer) { line in
      line.member("sampleRateHz", session.sampleRate)
      line.member("conversionFactor", session.factor)
    }
  }

  mutating func show(_ sample: PolarFrameSample) throws {
    try isJSON ? showObject(sample) : showRows(sample)
  }

  private mutating func showObject(_ sample: PolarFrameSample) throws(Console.Closed) {
    let octets = sample.octets
    var context = SensorDecoder.Context()
    context.operation = .notify
    context.factor = factor
    context.sampleRate = sampleRate
    context.previousTimestampNanoseconds = previous
    if let frame = try? PolarFrame(validating: octets.span) { previous = frame.timestampNanoseconds }
    try Console.json { line in
      line.member("event", "samples")
      line.member("timeNs", sample.time.nanoseconds)
      line.key("frame")
      _ = SensorDecoder().decode([octets], of: .characteristic(PolarUUID.data), context, into: &line)
    }
  }

  private mutating func showRows(_ sample: PolarFrameSample) throws(Console.Closed) {
    let octets = sample.octets
    guard let frame = try? PolarFrame(validating: octets.span), let layout = frame.layout else { return }
    var text = ""
    if !hasHeader {
      hasHeader = true
      let channels = (1...layout.channelCount).map { "channel\($0)" }
      text = (["time_ns", "device_time_ns"] + channels).joined(separator: ",") + "\n"
    }
    let timing = clock.timing(of: frame.timestampNanoseconds, sampleCount: frame.sampleCount)
    let time = sample.time.nanoseconds
    var number = 0
    frame.forEachSample { values in
      text += "\(time),\(timing.map { "\($0.nanoseconds(number))" } ?? "")"
      for index in values.indices { text += ",\(values[index])" }
      text += "\n"
      number += 1
    }
    try Console.write(text.utf8)
  }
}
