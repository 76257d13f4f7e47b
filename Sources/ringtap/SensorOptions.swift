import ArgumentParser
import BLECore
import BLEHost
import BLEPacketLog
import BLESensors
import BLEStack
import BLESystem
import RingTap

/// A sensor to stream from, and for how long.
struct SensorOptions: ParsableArguments {
  @OptionGroup var device: DeviceOptions

  @Argument(help: "The sensor, such as 70:CB:0D:00:A1:B2; the first one in range if not given.")
  var address: String?

  @Option(help: "The sensor's advertised name, exactly, instead of any sensor's.")
  var name: String?

  @Option(help: "End after this many values.")
  var count: Int?

  @Option(help: ArgumentHelp("End after this time.", valueName: "seconds"))
  var duration: Double?

  @Option(
    name: [.short, .long],
    help: ArgumentHelp("Record into this directory, and show only how it goes.", valueName: "directory"))
  var output: String?

  @Flag(help: "Print one JSON object a line.")
  var json = false

  func validate() throws {
    if let count, count < 1 { throw ValidationError("--count must be at least 1") }
    if let duration, duration <= 0 { throw ValidationError("--duration must be above 0") }
    if let address {
      if name != nil { throw ValidationError("an address or --name, not both") }
      _ = try device.parse(address)
    }
  }

  /// Finds and connects the sensor, runs `body`, and closes the channel whatever happens.
  func withSensor(
    _ kind: SensorKind, _ body: @escaping @Sendable (Connection) async throws -> SensorStream.Outcome
  ) async throws {
    let outcome = try await onLink(kind, tap: nil) { _, connection in try await body(connection) }
    try outcome.show(json: json)
    if outcome.lost > 0 { throw ExitCode(3) }
  }

  /// The same where something is recorded.
  func record(
    _ kind: SensorKind, into directory: String,
    _ body:
      @escaping @Sendable (SensorRecording, any Adapter, Connection) async throws(HostError)
      -> SensorRecording.Result
  ) async throws {
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) is there already and not empty; give another --output")
    }
    let recording = SensorRecording(
      directory: directory,
      limits: SensorRecording.Limits(duration: duration.map { .seconds($0) }, count: count))
    let result = try await onLink(kind, tap: recording.tap) { adapter, connection in
      try await failing { () async throws(HostError) in try await body(recording, adapter, connection) }
    }
    if Console.isErrorTerminal { Console.progress("") }
    try show(result, directory)
    if let failure = result.failure {
      throw Failure("\(failure); what was recorded until then is in \(directory)")
    }
    if result.report.lost.total > 0 { throw ExitCode(3) }
  }

  /// For the `progress` of a recording.
  static let progress: @Sendable (SensorRecording.Progress) -> Void = { progress in
    Console.progress(
      "\(progress.elapsed.components.seconds) s  \(progress.values) values  "
        + "\(progress.lost) lost  \(progress.malformed) malformed   (Ctrl-C ends)")
  }

  private func show(_ result: SensorRecording.Result, _ directory: String) throws {
    let report = result.report
    guard !json else {
      var line = JSONLine()
      report.encode(into: &line)
      return try Console.write(line.octets)
    }
    var lines = ["\(result.values) values from \(report.device); \(report.endReason ?? "")"]
    for stream in report.streams {
      lines.append("  \(stream.samples) \(stream.name)  \(directory)/\(stream.file)")
    }
    if let log = report.packetLog { lines.append("  packets  \(directory)/\(log)") }
    let lost = report.lost
    lines.append(
      lost.total == 0
        ? "0 lost of \(report.received)"
        : "\(lost.total) lost: kernel queue \(lost.kernelQueue), sample queue \(lost.sampleQueue), "
          + "packet log \(lost.packetLog), disk \(lost.disk)")
    if report.malformed > 0 { lines.append("\(report.malformed) malformed, not recorded") }
    try Console.print(lines.joined(separator: "\n"))
  }

  private func onLink<Value: Sendable>(
    _ kind: SensorKind, tap: PacketTap?,
    _ body: @escaping @Sendable (any Adapter, Connection) async throws -> Value
  ) async throws -> Value {
    let address = try address.map { try device.parse($0) }
    let (name, patience) = (name, Duration.seconds(device.timeout))
    return try await device.withLink(tap: tap) { adapter in
      if let address { return address }
      let found = try await failing { () async throws(HostError) in
        try await SensorFinder.find(kind, named: name, on: adapter, within: patience)
      }
      Console.note("found \(found.name?.printable ?? "a sensor without a name") at \(found.address)")
      return found.address
    } _: { adapter, connection in
      try await body(adapter, connection)
    }
  }

  var stream: SensorStream { SensorStream(count: count, duration: duration.map { .seconds($0) }) }
}

/// Takes the samples of a sensor one after the other until there is reason to stop.
struct SensorStream: Sendable {
  let count: Int?
  let duration: Duration?

  /// What a sample was to the command.
  enum Verdict {
    /// It counts.
    case value
    /// The sensor has nothing to measure.
    case state
  }

  struct Outcome: Sendable {
    var values = 0
    /// Shorter than their flags promise: skipped.
    var malformed = 0
    /// Our reader was too slow, or the kernel's queue was full.
    var lost = 0
    /// Why the link ended, if it did before its time.
    var end: BearerEnd?

    /// The last line, for programs; people are told what is not as it should be.
    func show(json: Bool) throws {
      if json {
        try Console.json { line in
          line.member("event", "end")
          line.member("values", values)
          line.member("malformed", malformed)
          line.member("lost", lost)
        }
      }
      if malformed > 0 {
        Console.note("\(malformed) values were malformed: shorter than their own flags say; skipped")
      }
      if lost > 0 { Console.note("\(lost) values were lost: what reads our output is too slow") }
      if let end { throw Failure("\(end) after \(values) values") }
    }
  }

  /// - Parameter show: prints one sample.
  func run<Sample>(
    _ samples: SampleChannel<Sample>, of connection: Connection, _ show: (Sample) throws -> Verdict
  ) async throws -> Outcome {
    let timer = duration.map { duration in
      Task {
        if (try? await Task.sleep(for: duration)) != nil { samples.finish() }
      }
    }
    defer { timer?.cancel() }
    var outcome = Outcome()
    for await sample in samples {
      if try show(sample) == .value { outcome.values += 1 }
      if outcome.values == count { break }
    }
    outcome.malformed = samples.malformed
    outcome.lost = samples.dropped + (await connection.statistics).kernelQueueDrops
    outcome.end = await connection.end
    return outcome
  }
}

extension SensorFacts {
  private static let keys: [(key: String, uuid: BluetoothUUID)] = [
    ("manufacturerName", .manufacturerName), ("modelNumber", .modelNumber), ("serialNumber", .serialNumber),
    ("hardwareRevision", .hardwareRevision), ("firmwareRevision", .firmwareRevision),
    ("softwareRevision", .softwareRevision),
  ]

  /// What the sensor does not tell is left out.
  func members(into line: inout JSONLine) {
    for (key, uuid) in Self.keys { if let text = texts[uuid] { line.member(key, text) } }
    if let battery { line.members(of: battery) }
  }

  /// `Polar Electro Oy H10, firmware 3.0.35, battery 84 %`
  func text(_ address: DeviceAddress) -> String {
    let names = [manufacturer, model].compactMap { $0?.printable }.filter { !$0.isEmpty }
    var parts = [names.isEmpty ? address.description : names.joined(separator: " ")]
    if let firmwareRevision { parts.append("firmware \(firmwareRevision.printable)") }
    if let battery { parts.append("battery \(battery.percent) %") }
    return parts.joined(separator: ", ")
  }
}
