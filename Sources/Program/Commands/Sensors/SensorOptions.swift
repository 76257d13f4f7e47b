import ArgumentParser
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import CommandKit
import JSONText
import Outlets
import Recording
import RingTap
import SensorSessions

/// A kind of sensor, and how its samples are printed.
protocol PrintedSensor: ParsableArguments {
  associatedtype Kind: SensorDefinition
  associatedtype Writer: SensorWriter where Writer.Session == Kind.Session

  static var configuration: CommandConfiguration { get }
  /// Targets given by a deprecated form of `--to`.
  var formerStreams: FormerStreams { get }
  /// Returns the kind with its settings.
  ///
  /// - Parameter isRecorded: whether samples are recorded instead of printed.
  /// - Throws: `ValidationError` for settings that the sensor does not have.
  func kind(isRecorded: Bool) throws -> Kind
  func writer(isJSON: Bool) -> Writer
}

/// A command that prints the samples of a kind of sensor: `ringtap heart-rate [ADDRESS]`. With --output it
/// records, as `ringtap capture` does.
struct SensorCommand<Printed: PrintedSensor>: AsyncParsableCommand {
  static var configuration: CommandConfiguration { Printed.configuration }

  @OptionGroup var sensor: SensorOptions
  @OptionGroup var printed: Printed

  func validate() throws {
    _ = try printed.kind(isRecorded: sensor.output != nil)
    try sensor.elsewhere.validate(output: sensor.output, printed.formerStreams)
  }

  func run() async throws {
    let kind = try printed.kind(isRecorded: sensor.output != nil)
    guard let output = sensor.output else {
      return try await sensor.run(kind, printed.writer(isJSON: sensor.json))
    }
    try await sensor.record(AnySensorKind(SensorKind(kind)), into: output, printed.formerStreams)
  }
}

/// Options for the sensor to stream from, and for the duration.
struct SensorOptions: ParsableArguments, ReachesDevice {
  @OptionGroup(title: "Radio and link") var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup(title: "Radio and link") var choice: DeviceOptions
  @OptionGroup(title: "Radio and link") var patience: PatienceOptions
  @OptionGroup(visibility: .hidden) var thread: ReceiveThreadOptions

  @Argument(help: "The sensor, such as 70:CB:0D:00:A1:B2 (default: the first one in range).")
  var address: String?

  @Option(help: "Use the sensor that advertises this name.")
  var name: String?

  @Option(help: "End after this many values.", in: .count)
  var count: Int?

  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  @Option(
    name: [.short, .long],
    help: ArgumentHelp(
      "Record into this directory, and print only the progress.", valueName: "directory",
      visibility: .hidden))
  var output: String?

  @OptionGroup(visibility: .hidden) var tables: TableOptions
  @OptionGroup(visibility: .hidden) var elsewhere: OutputOptions
  @OptionGroup(visibility: .hidden) var view: ViewOptions

  @Flag(help: "Print one JSON object per line.")
  var json = false

  func validate() throws {
    if output == "-" {
      throw ValidationError(
        "--output is a directory; without it, values go to standard output, as JSON with --json")
    }
    if output == nil, view.quiet { throw ValidationError("--quiet needs an --output directory") }
    if output == nil, tables.format != .csv { throw ValidationError("--format needs an --output directory") }
    if output == nil, tables.syncSeconds != 1 {
      throw ValidationError("--sync-interval needs an --output directory")
    }
    try elsewhere.validate(output: output)
    if let address {
      if name != nil { throw ValidationError("give an address or --name, not both") }
      _ = try device.parse(address)
    }
  }

  /// Finds the sensor and prints its samples until a limit is reached. Reconnects if the link is lost.
  ///
  /// - Parameter writer: prints the samples.
  func run<Kind: SensorDefinition, Writer: SensorWriter>(_ kind: Kind, _ writer: Writer) async throws
  where Writer.Session == Kind.Session {
    let (stream, isVerbose) = (stream, device.radio.verbose)
    let outcome = try await withPlan(kind.search) { plan, adapter in
      let streaming = SensorStreaming<Writer>(kind.settings, plan, on: adapter)
      let outcome = try await streaming.run(stream, writer)
      await streaming.showLinks(isVerbose)
      return outcome
    }
    try outcome.show(json: json)
    if outcome.lost > 0 || outcome.missing ?? 0 > 0 { throw ExitCode(3) }
  }

  /// Records the sensor into a directory until a limit is reached.
  ///
  /// - Parameter streams: targets given by a deprecated form of `--to`.
  func record(_ kind: AnySensorKind, into directory: String, _ streams: FormerStreams) async throws {
    let known = try address.map { try device.parse($0) } ?? device.known(name)
    let wanted = RecordingJob.Wanted(kind: kind, address: known, name: known == nil ? nil : name)
    let job = RecordingJob(
      wanted: [wanted], name: name, directory: directory,
      limits: RecordingLimits(duration: stream.duration, count: count), tables: tables,
      device: device, patience: patience, tuning: thread.tuning,
      outputs: try elsewhere.outputs(streams, for: tables.format))
    try await job.run(view, json: json)
  }

  /// Finds the sensor and passes its connection plan to `body`.
  private func withPlan<Value: Sendable>(
    _ search: SensorSearch,
    _ body: @escaping @Sendable (DeviceSession.Plan, any Adapter) async throws -> Value
  ) async throws -> Value {
    let address = try address.map { try device.parse($0) } ?? device.known(name)
    let (name, timeout, request, patience, isVerbose) = (
      name, Duration.seconds(device.timeout), try device.link.request(), patience, radio.verbose
    )
    return try await device.withRadio(thread.tuning) { radio in
      let peer =
        if let address { address } else {
          try await failing { () async throws(HostError) in
            try await radio.find(search, named: name, within: timeout, isVerbose: isVerbose)
          }
        }
      var plan = DeviceSession.Plan(peer)
      plan.request = request
      plan.connectTimeout = timeout
      plan.startTimeout = timeout
      plan.answerTimeout = timeout
      plan.patience = patience.duration(on: radio)
      return try await body(plan, radio.adapter)
    }
  }

  var stream: SensorStream { SensorStream(count: count, duration: duration.map { .seconds($0) }) }
}

extension SensorFacts {
  private static let keys: [(key: String, uuid: BluetoothUUID)] = [
    ("manufacturerName", .manufacturerName), ("modelNumber", .modelNumber), ("serialNumber", .serialNumber),
    ("hardwareRevision", .hardwareRevision), ("firmwareRevision", .firmwareRevision),
    ("softwareRevision", .softwareRevision),
  ]

  /// Prints the line with the sensor's identity. Unknown facts are omitted.
  ///
  /// - Parameter rest: adds facts that are specific to the kind of sensor.
  func show(_ address: DeviceAddress, _ rest: (inout JSONLine) -> Void) throws(Console.WriteError) {
    try Console.json { line in
      line.member("event", "device")
      line.member("address", address.description)
      line.member("addressType", address.type.name.description)
      members(into: &line)
      rest(&line)
    }
  }

  private func members(into line: inout JSONLine) {
    for (key, uuid) in Self.keys { if let text = texts[uuid] { line.member(key, text) } }
    if let battery { line.members(of: battery) }
  }

  /// Returns the text of the identity, for example `Polar Electro Oy H10, firmware 3.0.35, battery 84 %`.
  func text(_ address: DeviceAddress) -> String {
    let names = [manufacturer, model].compactMap { $0?.printable }.filter { !$0.isEmpty }
    var parts = [names.isEmpty ? address.description : names.joined(separator: " ")]
    if let firmwareRevision { parts.append("firmware \(firmwareRevision.printable)") }
    if let battery { parts.append("battery \(battery.percent) %") }
    return parts.joined(separator: ", ")
  }
}
