import ArgumentParser
import BLEHost
import BLELinux
import BLEReplay
import BLEStack
import BLEWire
import CommandKit
import JSONText
import LiveView
import Outlets
import Recording
import RingTap
import SensorSessions

/// The recording made by `capture`, and by each sensor command with `--output`: finds the sensors, records
/// them until a limit or a signal, and prints the results.
struct RecordingJob: Sendable {
  /// A sensor to record.
  struct Wanted: Sendable {
    let kind: AnySensorKind
    /// The sensor's address; `nil` to use the first sensor of the kind that is found.
    var address: DeviceAddress?
    /// The advertised name, if known.
    var name: String?
  }

  let begunAt = SystemClock.now()
  let wanted: [Wanted]
  /// The exact name of the sensor to find.
  var name: String?
  let directory: String
  let limits: RecordingLimits
  var logFormat = CaptureLogFormat.btsnoop
  let tables: TableOptions
  let device: DeviceReach
  let patience: PatienceOptions
  let tuning: LoopTuning
  /// Whether to recover an adapter that does not respond.
  var recovers = false
  var outputs = Outputs()
  var outputEnd = SampleStream.OutputEnd.goesOn

  /// Records the sensors, and prints the results.
  ///
  /// - Parameter json: whether to print the reports as JSON.
  func run(_ view: ViewOptions, json: Bool) async throws {
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) already exists and is not empty; choose another --output")
    }
    let request = try device.link.request()
    let lab = outputs.isForLab ? try LabStreaming.open() : nil
    let database = try InfluxWriter.open(outputs.influx)
    defer { database?.abandon() }
    let publishing = outputs.fleet.map { Publishing($0) }
    defer { publishing?.abandon() }
    let home = outputs.homeAssistant.map { HomeAssistant($0) { Console.note($0) } }
    defer { home?.abandon() }
    let osc = try outputs.osc.map { place in
      try failing { () throws(SystemError) in (place, try OSCOutput(place)) }
    }
    let stream = try SampleStream.open(outputs.streams, outputEnd)
    defer { stream?.close() }
    let outcomes = try await quietened(view).showing(limits, into: directory) { view in
      // Recovering an adapter needs the capabilities until the end.
      try await device.withRadio(tuning, .whole, links: recovers ? .max : wanted.count) { radio in
        let watching = recovers ? Self.watch(radio) : nil
        defer { watching?.cancel() }
        view?.use(radio.adapter)
        let found = try await failing { () async throws(HostError) in try await find(on: radio, view) }
        let links = NoteLimit(on: radio.adapter.loop) { Console.note($0) }
        defer { links.flush() }
        let taps: [@Sendable (SampleDevice) -> any SampleOutput] =
          [
            stream?.output, lab?.output, database?.output,
          ].compactMap(\.self) + osc.map { $0.1.output }
        let recordings = found.map {
          recording(of: $0, request, radio, isAlone: found.count == 1, view, taps, publishing, home, links)
        }
        // Streaming may last for hours. Release the memory of code that only the setup needs.
        ProgramCode.releaseOnce(after: .seconds(5))
        let outcomes = await RecordingGroup(Array(zip(found.map(\.kind), recordings))).run()
        // If no recording was started, throw a cancellation as such.
        if !outcomes.contains(where: \.hasReport) { try Task.checkCancellation() }
        return outcomes
      }
    }
    await stream?.finishAndTell()
    await lab?.finish()
    for (place, output) in osc where output.missed > 0 {
      Console.note(
        "at least \(counted(output.missed, "message")) to \(place) did not arrive; the recording has all values"
      )
    }
    // The outputs finish concurrently, so that an interrupted command waits only for the slowest output.
    async let told = home?.finishAndTell() ?? true
    async let written = database?.finishAndTell() ?? true
    let isPublished = try await publishing?.finish() ?? true
    let (isTold, isWritten) = await (told, written)
    try finish(outcomes, json: json)
    if !isPublished || !isTold || !isWritten { throw ExitCode(4) }
  }

  /// Recovers the adapter until the task is cancelled.
  private static func watch(_ radio: Radio) -> Task<Void, Never>? {
    guard let watch = AdapterWatch(radio.adapter, note: { Console.note($0) }) else {
      Console.note("--recover has no effect in exclusive mode")
      return nil
    }
    return radio.adapter.loop.task { await watch.run() }
  }

  private var streamsToOutput: Bool { outputs.streams.contains(.standardOutput) }

  /// Turns off the live view if samples go to standard output, because both may be on the same terminal.
  private func quietened(_ view: ViewOptions) -> ViewOptions {
    var view = view
    view.quiet = view.quiet || streamsToOutput
    return view
  }

  /// Plans the recording of a sensor. A single recording is written directly into the directory. Each of
  /// several recordings is written into a subdirectory.
  private func recording(
    of sensor: Wanted, _ request: LinkRequest, _ radio: Radio, isAlone: Bool, _ view: LiveView?,
    _ taps: [@Sendable (SampleDevice) -> any SampleOutput], _ publishing: Publishing?, _ home: HomeAssistant?,
    _ links: NoteLimit
  ) -> SensorRecording {
    let address = sensor.address ?? .any
    var recording = SensorRecording(
      of: address, named: sensor.name, on: radio.adapter,
      into: isAlone ? directory : RecordingGroup.directory(of: address, in: directory), limits)
    recording.plan.connectTimeout = .seconds(device.timeout)
    recording.plan.startTimeout = .seconds(device.timeout)
    recording.plan.answerTimeout = .seconds(device.timeout)
    recording.plan.request = request
    recording.plan.patience = patience.duration(on: radio)
    recording.begunAt = begunAt
    let path = recording.directory
    recording.news = { news in
      // The live view and the summary already show the directory.
      if case .begun = news { return }
      let text = CaptureText.text(of: news, of: address, in: path, isAlone: isAlone)
      // Messages about links are rate-limited, because they may come in bursts.
      if case .removed = news { Console.note(text) } else { links.note(text) }
    }
    recording.isAnnounced = true
    recording.logFormat = logFormat
    recording.tableFormat = tables.tableFormat
    recording.syncInterval = tables.syncInterval
    publishing?.follow(recording.directory, isAlone: isAlone)
    let described = SampleDevice(address, kind: sensor.kind.name, name: sensor.name)
    let tap = taps.isEmpty ? nil : SampleTap(into: taps.map { $0(described) }, outputs.rows)
    let watchers: [(any RecordingWatcher)?] = [
      view?.feed(of: address, name: sensor.name), tap,
      home?.watcher(address, kind: sensor.kind.name, name: sensor.name),
    ]
    recording.live = RecordingWatchers.of(watchers.compactMap(\.self))
    return recording
  }

  // MARK: Finding

  private func find(on radio: Radio, _ view: LiveView?) async throws(HostError) -> [Wanted] {
    var found = wanted
    if let peer = radio.replay?.peer, wanted.count == 1, name == nil {
      found[0].address = found[0].address ?? peer
    }
    let places = found.indices.filter { found[$0].address == nil }
    guard !places.isEmpty else { return found }
    let searches = places.map { found[$0].kind.search }
    view?.look(for: name ?? (places.count == 1 ? "a " + searches[0].name : counted(places.count, "sensor")))
    let (adapter, timeout) = (radio.adapter, Duration.seconds(device.timeout))
    let isVerbose = device.radio.verbose
    let advertisers = try await SensorFinder.find(searches, named: name, on: adapter, within: timeout) {
      Console.note(search: $0, always: isVerbose)
    }
    for case let sensor? in advertisers {
      view?.found(sensor)
      Console.note(found: sensor)
    }
    for (place, advertiser) in zip(places, advertisers) {
      guard let advertiser else {
        throw .notFound(missing(searches, advertisers), seconds: Int(timeout.components.seconds))
      }
      (found[place].address, found[place].name) = (advertiser.address, advertiser.name)
    }
    return found
  }

  /// Returns the names of the sensors that were not found.
  private func missing(_ searches: [SensorSearch], _ found: [Advertiser?]) -> String {
    if searches.count == 1 { return name.map { "device named \($0)" } ?? searches[0].name }
    let rest = zip(searches, found).filter { $1 == nil }.map(\.0.name)
    let all = Set(searches.map(\.name)).count == 1
    let count = searches.count - rest.count
    return all && count > 0
      ? "more than \(count) of \(searches.count) \(rest[0])s" : rest.joined(separator: ", ")
  }

  // MARK: The end

  private func finish(_ outcomes: [RecordingGroup.Outcome], json: Bool) throws {
    var failures: [String] = []
    var isInterrupted = false
    for outcome in outcomes {
      switch outcome.result {
      case .success(let result):
        let directory = result.directory ?? outcome.recording.directory
        try show(result, directory, json: json)
        if directory != outcome.recording.directory { Console.note("the capture was moved to \(directory)") }
        if result.failure == nil, result.report.isEmpty, result.isInterrupted {
          Console.note("interrupted before the first value of \(outcome.recording.plan.peer)")
          isInterrupted = true
        } else if result.failure == nil, result.report.isEmpty {
          failures.append(
            "\(outcome.recording.plan.peer) sent nothing: it may be asleep, not worn, or sending to another "
              + "host; `ringtap gatt \(outcome.recording.plan.peer)` shows its characteristics")
        }
        if let failure = result.failure {
          let isThere = result.directory != nil
          failures.append(
            "\(failure); "
              + (isThere
                ? "the recording up to then is in \(directory)" : "nothing was saved: record again"))
        }
      case .failure(let error): failures.append("\(error)")
      }
    }
    // Print all failures except the last, which is thrown.
    for failure in failures.dropLast() { Console.note(failure) }
    if let failure = failures.last { throw Failure(failure) }
    if isInterrupted { throw ExitCode(130) }
    if outcomes.contains(where: \.isUnencrypted) {
      Console.note("a bonded device was recorded without encryption: it may be another device")
      throw ExitCode.failure
    }
    if outcomes.contains(where: \.fellSilent) {
      Console.note("samples may be missing: a stream stopped on a link that stayed up")
      throw ExitCode(3)
    }
    try CaptureText.end(lost: outcomes.reduce(0) { $0 + $1.lostCount })
  }

  private func show(_ result: SensorRecording.Result, _ directory: String, json: Bool) throws {
    let report = result.report
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try tell(line.octets)
    } else {
      try tell((CaptureText.summary(report, directory).printableLines + "\n").utf8)
    }
    if let note = LinkText.strays(report.strayResponses) { Console.note(note) }
    for note in LinkText.refusals(report.changes) { Console.note(note) }
    if device.radio.verbose, let error = report.lastMalformed { Console.note("last malformed: \(error)") }
  }
}

/// Opens LSL streams for a recording.
extension LabStreaming {
  fileprivate static func open() throws -> LabStreaming {
    do throws(NoLabStreaming) {
      return try LabStreaming { news in
        switch news {
        case .unavailable(let name):
          Console.note(
            failure: "liblsl cannot create the stream '\(name)'; the recording continues without it")
        case .refused(let device, let count):
          Console.note(
            failure:
              "liblsl did not accept \(counted(count, "sample")) of \(device.address); the recording has them"
          )
        }
      }
    } catch { throw Failure("\(error)") }
  }
}

/// Prints results on standard output, or on standard error if samples go to standard output.
extension RecordingJob {
  private func tell(_ octets: some Sequence<UInt8>) throws(Console.WriteError) {
    if streamsToOutput { Console.send([UInt8](octets)) } else { try Console.write(octets) }
  }
}

extension SessionReport {
  /// Whether no samples arrived, not even malformed or lost samples.
  fileprivate var isEmpty: Bool { received == 0 && malformed == 0 && lost.total == 0 }
}

extension RecordingGroup.Outcome {
  fileprivate var hasReport: Bool {
    if case .success = result { true } else { false }
  }

  fileprivate var isUnencrypted: Bool {
    if case .success(let result) = result { result.report.hasUnencryptedBond } else { false }
  }

  fileprivate var fellSilent: Bool {
    guard case .success(let result) = self.result else { return false }
    return result.report.gaps.contains { if case .silent = $0.end { true } else { false } }
  }

  fileprivate var lostCount: Int {
    if case .success(let result) = result { result.report.lost.total } else { 0 }
  }
}
