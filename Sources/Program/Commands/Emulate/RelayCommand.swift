import ArgumentParser
import BLEDissector
import BLEHost
import BLELinux
import BLEPeripheral
import BLEReplay
import BLESensors
import BLEStack
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording
import Relay
import RingTap
import SensorSessions

/// The command `ringtap relay SENSOR [ADDRESS]`.
package struct RelayCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "relay",
    abstract: "Re-broadcast a sensor as a standard BLE sensor.",
    discussion: """
      Connects to the sensor and advertises as a device that bike computers, watches and apps know: Heart \
      Rate, Health Thermometer, or Cycling Speed and Cadence, with Device Information and Battery if the \
      sensor has them. It ends after --duration, on Ctrl-C, or when the sensor does not reconnect; it then \
      stops the stream and the advertising, and disconnects.

      SENSOR is ring, heart-rate, thermometer, cycling or polar; without ADDRESS, ringtap searches for it. \
      SENSOR can also be the directory of a recording to replay; --adapter, --mode and --transport then \
      select the controller that advertises.

      A ring's pulse is computed from its raw light as in `ringtap analyse`: a rate every two seconds, about \
      ten seconds old, and none if its quality is below --quality. If the firmware sends less than 18 \
      samples per second, use --source ring, the ring's own measurement. Of a Polar sensor, the heart rate \
      is relayed.

      The device advertises on the sensor's controller, which then has links in both roles, or on another \
      one with --advertise-on. Up to eight hosts may connect. A slow host does not delay the others: its \
      oldest values are dropped and counted.

      EXAMPLES
        sudo ringtap relay ring --adapter hci0 --mode exclusive --name "My ring"
            re-broadcasts a ring's pulse as a heart-rate strap
        sudo ringtap relay heart-rate C4:12:34:56:78:9A --address-type random \\
          --advertise-on hci-socket:1 --also-record ride
            a strap on hci0, relayed on hci1, and recorded
        sudo ringtap relay walk --speed 1x --mode exclusive --json
            a recording; one object per line: event (ready, value, gap, connected,
            disconnected, subscribed, end) and its members
      """)

  enum PulseSource: String, CaseIterable, ExpressibleByArgument {
    case light, ring
  }

  @OptionGroup(title: "Radio and link") var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup(title: "Radio and link") var choice: DeviceOptions
  @OptionGroup(title: "Radio and link") var patience: PatienceOptions
  @OptionGroup(visibility: .hidden) var thread: ReceiveThreadOptions

  @Option(
    help: ArgumentHelp(
      "Advertise on another controller: hci1, or a --transport such as hci-socket:1.",
      valueName: "spec"))
  var advertiseOn: String?

  @Argument(help: "What to relay: ring, heart-rate, thermometer, cycling, polar, or a recording's directory.")
  var sensor: String

  @Argument(help: "The sensor, such as 70:CB:0D:00:A1:B2 (default: the first of its kind in range).")
  var address: String?

  @Option(help: "The advertised name.") var name = "ringtap relay"

  @Option(help: ArgumentHelp("Source of a ring's pulse: light or ring.", valueName: "source"))
  var source = PulseSource.light

  @Option(
    help: ArgumentHelp(
      "Minimum quality of a pulse from light, 0 … 1: the probability that it is within 5 bpm.",
      valueName: "share"),
    in: .share)
  var quality = LightRelay.leastQuality

  @Option(help: ArgumentHelp("Replay speed of a recording: 1x, 10x, max.", valueName: "speed"))
  var speed: String?

  @Option(help: ArgumentHelp("Also record the sensor into this directory.", valueName: "directory"))
  var alsoRecord: String?

  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  @OptionGroup(title: "Files") var tables: TableOptions

  @Flag(help: "Print JSON lines.") var json = false

  package init() {}

  package func validate() throws {
    if let speed, ReplaySpeed(speed) == nil { throw ValidationError("--speed must be 1x, 10x or max") }
    if name.isEmpty { throw ValidationError("--name must not be empty") }
    guard RelayKind(rawValue: sensor) == nil else {
      if speed != nil { throw ValidationError("--speed is for the directory of a recording") }
      if let address { _ = try device.parse(address) }
      return
    }
    if address != nil { throw ValidationError("a recording has one device: give no address") }
    if advertiseOn != nil {
      throw ValidationError(
        "a recording needs one controller: choose it with --adapter, --mode and --transport")
    }
  }

  func run() async throws {
    guard let kind = RelayKind(rawValue: sensor) else {
      let capture = try RelayedCapture(sensor, speed ?? "1x")
      var player = radio
      (player.transport, player.adapter, player.mode, player.packetLog) = (capture.transport, nil, .auto, nil)
      return try await run(capture.kind, from: player, advertisingOn: radio)
    }
    var other: AdapterOptions?
    if let advertiseOn {
      var options = radio
      let isTransport = advertiseOn.contains(":") && AdapterName(advertiseOn) == nil
      (options.transport, options.adapter) = isTransport ? (advertiseOn, nil) : (nil, advertiseOn)
      if isTransport { options.mode = .auto }
      options.packetLog = nil
      try options.validate()
      other = options
    }
    try await run(kind, from: radio, advertisingOn: other)
  }

  private func run(
    _ kind: RelayKind, from sensor: AdapterOptions, advertisingOn other: AdapterOptions?
  ) async throws {
    switch (kind, source) {
    case (.ring, .light): try await relay(.ring, LightRelay(leastQuality: quality), sensor, other)
    case (.ring, .ring): try await relay(OwnHeartRate.ring, HeartRateRelay(), sensor, other)
    case (.heartRate, _): try await relay(.heartRate, HeartRateRelay(), sensor, other)
    case (.polar, _): try await relay(OwnHeartRate.polar, HeartRateRelay(), sensor, other)
    case (.thermometer, _): try await relay(.thermometer, TemperatureRelay(), sensor, other)
    case (.cycling, _): try await relay(.cycling, CyclingRelay(), sensor, other)
    }
  }

  private func relay<Source: RelaySource>(
    _ kind: SensorKind<Source.Sample>, _ source: Source, _ sensor: AdapterOptions, _ other: AdapterOptions?
  ) async throws {
    if let alsoRecord {
      guard Files.names(in: alsoRecord).allSatisfy({ $0 == "." || $0 == ".." }) else {
        throw Failure("\(alsoRecord) already exists and is not empty; choose another --also-record")
      }
    }
    let tuning = thread.tuning
    let outcome = try await Interruption.cancelling {
      let opened = try await Interruption.leaving {
        try await sensor.open(tuning, links: other == nil ? .max : nil)
      }
      var second: Radio?
      do {
        if let other { second = try await Interruption.leaving { try await other.open() } }
        let outcome = try await self.relay(kind, source, opened, second ?? opened)
        await second?.end()
        await opened.end()
        return outcome
      } catch {
        await second?.end()
        await opened.end()
        throw error
      }
    }
    try RelayText(isJSON: json).end(outcome)
    if let recording = outcome.recording {
      Console.note(
        "recorded \(counted(recording.values, "sample")) into \(recording.directory ?? alsoRecord ?? "")")
    }
    if let failure = outcome.failure {
      if case .unsuitable(let reason) = failure, outcome.values == 0 {
        throw Failure("\(reason)" + (Source.self == LightRelay.self ? "; try --source ring" : ""))
      }
      throw Failure("\(failure) after \(counted(outcome.values, "value"))")
    }
    // The replayed log has ended, and no value was relayed.
    if outcome.values == 0, let cause = Interruption.cause { throw Failure(cause) }
    if outcome.lost > 0 { throw ExitCode(3) }
  }

  private func relay<Source: RelaySource>(
    _ kind: SensorKind<Source.Sample>, _ source: Source, _ sensor: Radio,
    _ device: Radio
  ) async throws -> RelayOutcome {
    guard device.replay == nil else {
      throw Failure("a log cannot advertise; choose a controller with --advertise-on")
    }
    guard let advertiser = device.adapter.advertising else {
      throw Failure("\(device.adapter.name) cannot advertise; choose a controller with --advertise-on")
    }
    let found = try await find(kind.search, on: sensor)
    var plan = DeviceSession.Plan(found.address)
    plan.request = try link.request()
    (plan.connectTimeout, plan.answerTimeout) = (.seconds(choice.timeout), .seconds(choice.timeout))
    plan.patience = patience.duration(on: sensor)
    var relay = Relay(kind, source, plan, on: sensor.adapter, advertisedBy: advertiser, as: name)
    if kind.definition.name == RingKind.name {
      relay.facts.bodyLocation = .finger
      relay.facts.texts[.modelNumber] = found.name
    }
    relay.duration = duration.map { .seconds($0) }
    relay.isReplay = sensor.replay != nil
    relay.patience = Interruption.patience
    if let alsoRecord {
      var recording = SensorRecording(
        of: found.address, named: found.name, on: sensor.adapter, into: alsoRecord)
      (recording.tableFormat, recording.syncInterval) = (tables.tableFormat, tables.syncInterval)
      recording.isAnnounced = true
      relay.recording = recording
    }
    let text = RelayText(
      isJSON: json, name: name, adapter: device.adapter.name, address: await advertiser.advertisedAddress)
    let running = relay
    let gaps = NoteLimit(on: sensor.adapter.loop) { Console.note($0) }
    defer { gaps.flush() }
    do { return try await running.run { try text.show($0, gaps) } } catch let error as HostError {
      try Task.checkCancellation()
      throw Failure(error)
    }
  }

  private func find(
    _ search: SensorSearch, on radio: Radio
  ) async throws -> (address: DeviceAddress, name: String?) {
    if let address { return (try device.parse(address), nil) }
    if let peer = radio.replay?.peer { return (peer, nil) }
    let found = try await Interruption.leaving { [choice, verbose = self.radio.verbose] in
      try await failing { () async throws(HostError) in
        try await SensorFinder.find(search, on: radio.adapter, within: .seconds(choice.timeout)) {
          Console.note(search: $0, always: verbose)
        }
      }
    }
    Console.note(found: found)
    return (found.address, found.name)
  }
}

/// Sensors that can be relayed.
enum RelayKind: String, CaseIterable {
  case ring, thermometer, cycling, polar
  case heartRate = "heart-rate"
}

/// A recording that is used as a sensor by replaying its packet log.
private struct RelayedCapture {
  let kind: RelayKind
  let transport: String

  init(_ directory: String, _ speed: String) throws {
    guard Files.exists(directory) else {
      let kinds = RelayKind.allCases.map(\.rawValue).joined(separator: ", ")
      throw ValidationError(
        "'\(directory.printable)' is neither the directory of a recording nor a sensor; sensors are \(kinds)")
    }
    let capture: RecordedCapture
    do throws(ConversionError) { capture = try RecordedCapture(directory) } catch { throw Failure(error) }
    let names = Set(capture.tables.map(\.name))
    let known: [(table: String, kind: RelayKind)] = [
      ("heart_rate", .heartRate), ("temperature", .thermometer), ("cycling", .cycling), ("samples", .ring),
    ]
    guard let kind = known.first(where: { names.contains($0.table) })?.kind else {
      throw Failure(
        "\(directory) has no heart rate, temperature, cycling or ring data to relay; it has "
          + names.sorted().joined(separator: ", "))
    }
    let logs = CaptureLogFormat.allCases.map(\.fileName).filter { Files.exists(directory + "/" + $0) }
    guard let log = logs.first else {
      throw Failure("\(directory) has no packet log to replay")
    }
    // Check that the log is a regular file, because opening a pipe would block.
    try failing { () throws(SystemError) in _ = try FileDescriptor.regularFile("\(directory)/\(log)") }
    (self.kind, transport) = (kind, "replay:\(directory)/\(log),speed=\(speed)")
  }
}

/// The output of `relay`, as text or as JSON lines.
struct RelayText: Sendable {
  let isJSON: Bool
  var name = ""
  var adapter = ""
  var address = DeviceAddress.any

  func show(_ event: RelayHub.Event, _ gaps: NoteLimit) throws(Console.WriteError) {
    switch event {
    case .ready(let service): try ready(service)
    case .value(let value): try show(value)
    case .central(let event, let attributes): try ServeText(isJSON: isJSON).show(event, attributes)
    case .gap(let gap, let change):
      let cause = GapText.cause(gap)
      gaps.note(change == .lost ? "\(cause); reconnecting" : "streaming again")
      guard isJSON else { return }
      try Console.json { line in
        line.member("event", "gap")
        line.member("state", change == .lost ? "lost" : "back")
        line.member("cause", cause)
      }
    }
  }

  private func ready(_ service: RelayedService) throws(Console.WriteError) {
    guard isJSON else {
      return try Console.print("ready \(adapter) \(address) \(service.uuid) \(name)")
    }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", adapter)
      line.members(of: address)
      line.member("service", service.uuid.description)
      line.member("name", name)
    }
  }

  // MARK: Values

  private func show(_ value: RelayedValue) throws(Console.WriteError) {
    guard isJSON else { return try Console.print(Self.text(value)) }
    try Console.json { line in
      line.member("event", "value")
      line.member("measured_ns", value.measuredAt.nanoseconds)
      line.member("known_ns", value.knownAt.nanoseconds)
      Self.encode(value.measurement, into: &line)
      line.member("quality", optional: value.quality)
    }
  }

  private static func encode(_ measurement: RelayedValue.Measurement, into line: inout JSONLine) {
    switch measurement {
    case .heartRate(let value):
      line.member("kind", "heartRate")
      if value.contact != .notDetected { line.member("bpm", value.beatsPerMinute) }
      if value.contact != .notSupported { line.member("contact", value.contact == .detected) }
      let intervals = value.rrIntervals
      line.member(
        "rr_1024ths", array: { line in for index in intervals.indices { line.value(intervals[index]) } })
    case .temperature(let value), .intermediate(let value):
      let isResult = if case .temperature = measurement { true } else { false }
      line.member("kind", isResult ? "temperature" : "intermediateTemperature")
      line.member("celsius", optional: value.celsius)
    case .cycling(let value):
      line.member("kind", "cycling")
      if let wheel = value.wheel { line.member("wheelRevolutions", wheel.revolutions) }
      if let crank = value.crank { line.member("crankRevolutions", crank.revolutions) }
    case .battery(let value):
      line.member("kind", "battery")
      line.member("percent", value.percent)
    }
  }

  private static func text(_ value: RelayedValue) -> String {
    switch value.measurement {
    case .heartRate(let measurement) where measurement.contact == .notDetected: return "no contact"
    case .heartRate(let measurement):
      let quality = value.quality.map { ", quality \(Int(($0 * 100).rounded())) %" } ?? ""
      let intervals = measurement.rrIntervals
      let beats = intervals.indices.map { "\(Int((intervals.seconds($0) * 1000).rounded()))" }
      return "\(measurement.beatsPerMinute) bpm" + quality
        + (beats.isEmpty ? "" : "  " + beats.joined(separator: " ") + " ms")
    case .temperature(let measurement), .intermediate(let measurement):
      return measurement.celsius.map { NumberText.fixed($0, 2) + " °C" } ?? "no reading"
    case .cycling(let speed):
      let parts = [
        speed.wheel.map { "wheel \($0.revolutions)" }, speed.crank.map { "crank \($0.revolutions)" },
      ]
      return parts.compactMap(\.self).joined(separator: "  ")
    case .battery(let level): return "battery \(level.percent) %"
    }
  }

  // MARK: The end

  func end(_ outcome: RelayOutcome) throws(Console.WriteError) {
    let delays: [(key: String, words: String, histogram: LogLinearHistogram)] = [
      ("estimator", "from sample to value", outcome.delays.estimator),
      ("transport", "from value to link", outcome.delays.transport),
      ("total", "total", outcome.delays.total),
    ]
    guard isJSON else {
      var lines = [
        "end \(counted(outcome.values, "value")), \(counted(outcome.silences, "silence")), \(outcome.centrals.notifications) "
          + "notified, \(outcome.centrals.indications) indicated, \(outcome.dropped) dropped, "
          + counted(outcome.gaps, "gap")
      ]
      for delay in delays {
        guard let summary = DurationSummary(delay.histogram) else { continue }
        lines.append("  delay \(delay.words): p50 \(Self.time(summary.p50)), p99 \(Self.time(summary.p99))")
      }
      return try Console.print(lines.joined(separator: "\n"))
    }
    try Console.json { line in
      line.member("event", "end")
      line.member("values", outcome.values)
      line.member("silences", outcome.silences)
      line.member("connected", outcome.centrals.centrals)
      line.member("notified", outcome.centrals.notifications)
      line.member("indicated", outcome.centrals.indications)
      line.member("dropped", outcome.dropped)
      line.member("malformed", outcome.malformed)
      line.member("lost", outcome.lost)
      line.member("gaps", outcome.gaps)
      line.member("delay") { line in
        for delay in delays {
          guard let summary = DurationSummary(delay.histogram) else { continue }
          line.member(delay.key) { line in
            line.member("p50Ms", Double(summary.p50) / 1e6)
            line.member("p99Ms", Double(summary.p99) / 1e6)
          }
        }
      }
      if let failure = outcome.failure { line.member("reason", "\(failure)") }
    }
  }

  private static func time(_ nanoseconds: Int64) -> String {
    nanoseconds < 1_000_000_000
      ? NumberText.fixed(Double(nanoseconds) / 1e6, 1) + " ms"
      : NumberText.fixed(Double(nanoseconds) / 1e9, 1) + " s"
  }
}
