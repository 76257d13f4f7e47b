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
import Synchronization

/// Limits of a stream of samples.
struct SensorStream: Sendable {
  let count: Int?
  let duration: Duration?

  struct Outcome: Sendable {
    var values = 0
    /// Number of samples received, with or without a value.
    var samples = 0
    /// Number of skipped samples, which were shorter than their flags indicate.
    var malformed = 0
    /// Number of samples lost because the reader of the output was too slow, or the kernel's queue was full.
    var lost = 0
    /// Number of samples missing by the sensor's clock; `nil` if the sensor has no clock.
    var missing: Int?
    /// Number of lost links.
    var gaps = 0
    /// The error that ended the stream early.
    var failure: HostError?
    /// Whether the sensor ended the stream on a link that is still up.
    var isEndedBySensor = false
    var isInterrupted = false

    private static let silence =
      "the sensor sent nothing: it may be asleep, not worn, or sending to another host; `ringtap gatt "
      + "ADDRESS` shows its characteristics"

    private var reason: String? {
      failure.map { "\($0)" } ?? (isEndedBySensor ? "the sensor stopped the stream by itself" : nil)
    }

    /// Prints the last line if the output is JSON, and messages about problems.
    func show(json: Bool) throws {
      if json {
        try Console.json { line in
          line.member("event", "end")
          line.member("values", values)
          line.member("malformed", malformed)
          line.member("lost", lost)
          if let missing { line.member("missing", missing) }
          line.member("gaps", gaps)
          if let reason { line.member("reason", reason) }
        }
      }
      if malformed > 0 {
        Console.note("skipped \(malformed) malformed values: shorter than their flags require")
      }
      if lost > 0 {
        Console.note(
          "\(counted(lost, "value was", "values were")) lost: the reader of the output is too slow")
      }
      if let missing, missing > 0 {
        Console.note("\(missing) \(missing == 1 ? "sample is" : "samples are") missing by the sensor's clock")
      }
      if let reason { throw Failure("\(reason) after \(counted(values, "value"))") }
      guard samples == 0, malformed == 0, lost == 0 else { return }
      guard isInterrupted else { throw Failure(Self.silence) }
      Console.note("interrupted before the first value")
      throw ExitCode(130)
    }
  }
}

/// Prints the samples of one kind of sensor.
protocol SensorWriter<Session>: Sendable {
  associatedtype Session: SensorSession

  /// Whether the writer prints the sensor's identity.
  static var introducesSensors: Bool { get }
  /// Prints lines before the first sample. Called once, when the stream has started for the first time.
  mutating func begin(_ session: Session) throws
  /// Prints the sensor's identity. Called once, soon after the first sample.
  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws
  /// Prints one sample.
  mutating func show(_ sample: Session.Sample) throws
  /// Prints the retained samples at the end of the stream.
  ///
  /// - Returns: the number of samples that are missing by the sensor's clock, including late samples; `nil`
  ///   if the sensor has no clock.
  mutating func finish() throws -> Int?
}

extension SensorWriter {
  static var introducesSensors: Bool { true }

  mutating func begin(_ session: Session) throws {}
  mutating func finish() throws -> Int? { nil }
}

/// A writer shared by two tasks. Only one task prints at a time.
private final class Shown<Writer: SensorWriter>: Sendable {
  private let state: Mutex<(writer: Writer, isIntroduced: Bool)>

  init(_ writer: Writer, _ session: Writer.Session) throws {
    var writer = writer
    try writer.begin(session)
    state = Mutex((writer, false))
  }

  func show(_ sample: Writer.Session.Sample) throws { try state.withLock { try $0.writer.show(sample) } }

  func finish() throws -> Int? { try state.withLock { try $0.writer.finish() } }

  /// Prints the sensor's identity on the first call.
  func introduce(_ facts: SensorFacts, _ peer: DeviceAddress) throws {
    try state.withLock { state in
      guard !state.isIntroduced else { return }
      state.isIntroduced = true
      try state.writer.introduce(facts, peer)
    }
  }
}

/// Keeps a sensor connected and prints its samples.
struct SensorStreaming<Writer: SensorWriter>: Sendable {
  /// Time limit at the end of a stream for the sensor's identity to arrive.
  private static var introductionPatience: Duration { .seconds(1) }

  private let profile: SensorProfile<Writer.Session>
  private let session: DeviceSession

  init(_ settings: Writer.Session.Settings, _ plan: DeviceSession.Plan, on adapter: any Adapter) {
    profile = SensorProfile(settings)
    session = DeviceSession(plan, on: adapter)
  }

  /// Runs until the stream's limits are reached, the task is cancelled, or the sensor does not reconnect.
  func run(_ stream: SensorStream, _ writer: Writer) async throws -> SensorStream.Outcome {
    let (profile, session) = (profile, session)
    let states = await session.states()
    let notes = Task { await Self.note(states, session) }
    let running = Task { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    return try await withTaskCancellationHandler {
      do {
        let outcome = try await take(stream, running, writer)
        // Cancelling is the normal way to end a session, which then stops the sensor's stream.
        running.cancel()
        let failure = await running.value
        await notes.value
        guard var outcome else { throw failure.map { Failure($0) } ?? CancellationError() }
        outcome.isInterrupted = Task.isCancelled
        if outcome.values != stream.count {
          (outcome.failure, outcome.isEndedBySensor) = (failure, profile.isEndedBySensor)
        }
        outcome.lost += await session.statistics.kernelQueueDrops
        outcome.gaps = await session.gapCount
        return outcome
      } catch {
        running.cancel()
        _ = await running.value
        await notes.value
        throw error
      }
    } onCancel: {
      running.cancel()
      // A device that does not respond must not delay an interrupted command.
      _ = session.adapter.loop.after(Interruption.patience) { await session.cut() }
    }
  }

  /// Prints the samples.
  ///
  /// - Returns: the outcome; `nil` if no stream was started.
  private func take(
    _ stream: SensorStream, _ running: Task<HostError?, Never>, _ writer: Writer
  ) async throws -> SensorStream.Outcome? {
    let (profile, peer) = (profile, session.plan.peer)
    guard let first = await profile.firstStream() else { return nil }
    let shown = try Shown(writer, first.session)
    // The identity is printed after the first sample, or earlier if the first sample takes longer.
    let introduction = Task {
      let facts = await profile.learned()
      if !Task.isCancelled { try shown.introduce(facts, peer) }
    }
    defer { introduction.cancel() }
    let loop = session.adapter.loop
    let timer = stream.duration.map { loop.after($0) { running.cancel() } }
    defer { timer?.cancel() }
    var (values, samples) = (0, 0)
    for await sample in profile.samples {
      try shown.show(sample)
      samples += 1
      if sample.isValue { values += 1 }
      if values == stream.count { break }
    }
    let missing = try shown.finish()
    let (malformed, dropped) = (profile.samples.malformed, profile.samples.dropped)
    if Writer.introducesSensors {
      // A short stream may end before the sensor's identity is known, so wait for the identity.
      let limit = loop.after(Self.introductionPatience) { introduction.cancel() }
      defer { limit.cancel() }
      await withTaskCancellationHandler {
        _ = await introduction.result
      } onCancel: {
        introduction.cancel()
      }
      try shown.introduce(profile.facts ?? SensorFacts(), peer)
    }
    return SensorStream.Outcome(
      values: values, samples: samples, malformed: malformed, lost: dropped, missing: missing)
  }

  /// Prints a message when the link is lost, and another message when the stream continues.
  private static func note(_ states: AsyncStream<SessionState>, _ session: DeviceSession) async {
    let links = NoteLimit(on: session.adapter.loop) { Console.note($0) }
    defer { links.flush() }
    var isLost = false
    var told: Set<LinkRemark> = []
    for await state in states {
      for remark in await session.remarks where told.insert(remark).inserted { Console.note("\(remark)") }
      switch state {
      case .reconnecting:
        guard !isLost, let gap = await session.gaps.last else { continue }
        links.note(GapText.lost(gap))
        isLost = true
      case .streaming where isLost:
        links.note("streaming again")
        isLost = false
      default: break
      }
    }
  }

  /// Prints refused requests and, if `isVerbose`, the statistics of all links.
  func showLinks(_ isVerbose: Bool) async {
    let (links, statistics) = (await session.links, await session.statistics)
    if isVerbose {
      Console.note(
        "MTU \(links.last?.mtu ?? 0), \(statistics.received) PDUs received, \(statistics.sent) sent, "
          + "\(statistics.malformed) malformed, \(statistics.kernelQueueDrops) dropped by the kernel")
      if let link = links.last.flatMap({ LinkText.inForce(LinkState(after: $0.changes)) }) {
        Console.note("link: \(link)")
      }
      if let error = statistics.lastMalformed { Console.note("last malformed: \(error)") }
    }
    if let note = LinkText.strays(statistics.strayResponses) { Console.note(note) }
    if let note = LinkText.unsubscribed(statistics.unsubscribed) { Console.note(note) }
    for note in LinkText.refusals(links.last?.changes ?? []) { Console.note(note) }
  }
}

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
