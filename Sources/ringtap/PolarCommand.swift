import ArgumentParser
import BLECore
import BLEHost
import BLEPacketLog
import BLESensors
import RingTap

/// `ringtap polar [ADDRESS]`.
struct PolarCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "polar",
    abstract: "Show a raw stream of a Polar sensor: ECG, acceleration or PPG.",
    discussion: """
      Finds the sensor by its name, or takes the address given; reads its settings, starts the stream, and shows the \
      samples until --duration, --count (of frames) or Ctrl-C; then the stream is stopped. Lines are CSV, one for each sample: when \
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
    if let output = sensor.output { return try await record(into: output) }
    let (json, stream, type, rate) = (sensor.json, sensor.stream, stream.type, rate)
    try await sensor.withSensor(.polar) { connection in
      let session = try await failing { () async throws(HostError) in
        try await PolarSession.start(type, sampleRate: rate, on: connection)
      }
      try Self.show(session, connection, json)
      var writer = PolarWriter(session)
      let outcome = try await stream.run(session.frames, of: connection) { sample in
        try json ? writer.showObject(sample) : writer.showRows(sample)
        return .value
      }
      // A task that Ctrl-C cancelled must still tell the sensor: a stream left running empties its battery.
      await Task { await session.stop() }.value
      return outcome
    }
  }

  private func record(into output: String) async throws {
    let (type, rate) = (stream.type, rate)
    try await sensor.record(.polar, into: output) { recording, adapter, connection throws(HostError) in
      let session = try await PolarSession.start(type, sampleRate: rate, on: connection)
      return try await recording.run(
        session, of: connection, over: adapter, progress: SensorOptions.progress)
    }
  }

  private static func show(
    _ session: PolarSession, _ connection: Connection, _ json: Bool
  ) throws(Console.Closed) {
    guard json else {
      return Console.note(session.facts.text(connection.peer) + ", \(session.sampleRate) Hz")
    }
    try Console.json { line in
      line.member("event", "device")
      line.member("address", connection.peer.description)
      line.member("addressType", connection.peer.type.name.description)
      session.facts.members(into: &line)
      line.member("sampleRateHz", session.sampleRate)
      line.member("conversionFactor", session.factor)
    }
  }
}

/// Writes the frames of one stream.
private struct PolarWriter {
  private let factor: Double
  private let sampleRate: UInt16
  private var clock: PolarSampleClock
  private var previous: UInt64?
  private var hasHeader = false

  init(_ session: PolarSession) {
    factor = session.factor
    sampleRate = session.sampleRate
    clock = PolarSampleClock(sampleRateHertz: session.sampleRate)
  }

  mutating func showObject(_ sample: PolarFrameSample) throws(Console.Closed) {
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

  mutating func showRows(_ sample: PolarFrameSample) throws(Console.Closed) {
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
