import ArgumentParser
import BLECore
import BLEHost
import BLELinux
import BLEReplay
import CaptureTools
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap capture [ADDRESS]`: the main job.
struct CaptureCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "capture",
    abstract: "Record the raw PPG, SpO2 and accelerometer stream of one or several rings.",
    discussion: """
      Finds the ring by its name (or takes the address given), connects, subscribes, starts the raw stream and \
      records until --duration, --count or Ctrl-C; then the stream is stopped. The capture is a directory: \
      accelerometer.csv, ppg.csv, spo2.csv (first column: nanoseconds since the Unix epoch, stamped by the \
      kernel), samples.csv (the same tick by tick, on the sensor's own clock), packets.btsnoop and session.json \
      with the loss report, the sampling rate and its jitter. With --format npy each table is a folder of NumPy arrays \
      instead, one for each column, which columns.json lists; `ringtap convert` turns either into the other.

      A lost link is a gap: the ring is connected again at once and then less and less often, for --patience seconds, \
      and the same tables go on. session.json lists each gap with its cause and length. --duration and --count run on \
      through gaps.

      On a terminal it shows itself meanwhile on standard error: link, streams, pulse, losses; see --quiet.

      With an address no privilege is needed; finding a ring needs CAP_NET_RAW (beside bluetoothd: CAP_NET_ADMIN).

      EXAMPLES
        ringtap capture --duration 60
        ringtap capture 70:CB:0D:00:A1:B2 --count 3000 --output walk
        ringtap capture --format npy --output walk
            numpy.load("walk/ppg/value_counts.npy"), also while it is recorded
        ringtap capture --json | jq .lost
            the last line is what session.json says
        ringtap capture --rings 4 --output group --duration 60
            four at once, each in a directory of its own below group
        ringtap capture --publish mqtt://broker.local --output walk
            to whoever runs `ringtap collect mqtt://broker.local`, while it is recorded
        ringtap capture --transport replay:walk/packets.pcapng --output again
            from a log: the same tables as the live capture, octet for octet

      Exit status 1: it ended before what was asked for: the ring did not come back, say. What came is recorded.
      Exit status 3: recorded, but something that had arrived was lost; the report says where. What a ring did not send \
      during a gap is none of that.
      Exit status 4: recorded, but not all of it was published; `ringtap publish` sends the rest.
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @OptionGroup var patience: PatienceOptions
  @OptionGroup var thread: ReceiveThreadOptions

  @Argument(help: "The rings, such as 70:CB:0D:00:A1:B2; the first one in range if none is given.")
  var addresses: [String] = []

  @Option(help: ArgumentHelp("Find and record this many rings at once.", valueName: "count"))
  var rings = 1

  @Option(help: "The ring's advertised name, exactly, instead of any ring's.")
  var name: String?

  @Option(name: [.short, .long], help: "The capture directory; named after the time if not given.")
  var output: String?

  @Option(help: ArgumentHelp("End after this time.", valueName: "seconds"))
  var duration: Double?

  @Option(help: "End after this many samples, over all streams.")
  var count: Int?

  @Option(
    help: ArgumentHelp(
      "The packet log's format: btsnoop has microseconds, pcapng the tables' nanoseconds.",
      valueName: "format"))
  var logFormat = LogFormat.btsnoop

  @OptionGroup var tables: TableOptions
  @OptionGroup var publishing: PublishOptions
  @OptionGroup var view: ViewOptions

  enum LogFormat: String, CaseIterable, ExpressibleByArgument {
    case btsnoop, pcapng

    var capture: CaptureLogFormat { self == .btsnoop ? .btsnoop : .pcapng }
  }

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws {
    if let count, count < 1 { throw ValidationError("--count must be at least 1") }
    if let duration, duration <= 0 { throw ValidationError("--duration must be above 0") }
    if !addresses.isEmpty, name != nil { throw ValidationError("an address or --name, not both") }
    if !addresses.isEmpty, rings != 1 { throw ValidationError("addresses or --rings, not both") }
    guard (1...64).contains(rings) else { throw ValidationError("--rings must be 1 … 64") }
    let parsed = try addresses.map { try device.parse($0) }
    guard Set(parsed).count == parsed.count else { throw ValidationError("duplicate address") }
  }

  func run() async throws {
    let wanted = try targets()
    let directory = output ?? Self.nameByTime()
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) is there already and not empty; give another --output")
    }
    let (plan, patience) = (try plan(directory), patience)
    let publishing = plan.publishing
    let (name, rings) = (name, rings)
    defer { publishing?.abandon() }
    let outcomes = try await view.showing(plan.limits, into: directory) { view in
      try await device.withRadio(thread.tuning) { radio in
        view?.use(radio.adapter)
        let targets = try await failing { () async throws(HostError) in
          if !wanted.isEmpty { return wanted }
          if let peer = radio.replay?.peer, rings == 1, name == nil {
            return [RingCapture.Target(address: peer)]
          }
          return try await Self.find(rings, name, radio.adapter, plan.timeout, view)
        }
        let outcomes = await plan.capture(
          targets, on: radio.adapter, patience: patience.duration(on: radio), view)
        // Nothing was begun that could have been ended.
        if !outcomes.contains(where: \.hasReport) { try Task.checkCancellation() }
        return outcomes
      }
    }
    let isPublished = try await publishing?.finish() ?? true
    try finish(outcomes)
    if !isPublished { throw ExitCode(4) }
  }

  /// Those that need not be looked for.
  private func targets() throws -> [RingCapture.Target] {
    if rings == 1, let known = device.known(name) { return [RingCapture.Target(address: known, name: name)] }
    return try addresses.map { RingCapture.Target(address: try device.parse($0)) }
  }

  /// What all captures of this command have in common.
  private struct Plan: Sendable {
    let begunAt = SystemClock.now()
    let directory: String
    let limits: RecordingLimits
    let request: LinkRequest
    let timeout: Duration
    let logFormat: CaptureLogFormat
    let tableFormat: TableFormat
    let publishing: Publishing?

    /// One goes straight into the directory, several each into one of their own below it.
    func capture(
      _ targets: [RingCapture.Target], on adapter: any Adapter, patience: Duration, _ view: LiveView?
    ) async -> [CaptureGroup.Outcome] {
      // The ring is found: in a moment it streams, for hours.
      ProgramCode.releaseOnce(after: .seconds(5))
      let captures = targets.map { target in
        var capture = RingCapture(
          target, adapter: adapter, limits: limits,
          directory: targets.count == 1
            ? directory : CaptureGroup.directory(of: target.address, in: directory))
        capture.connectTimeout = timeout
        capture.request = request
        capture.patience = patience
        capture.begunAt = begunAt
        capture.news = { CaptureText.note($0, of: target, isAlone: targets.count == 1) }
        capture.isAnnounced = true
        capture.logFormat = logFormat
        capture.tableFormat = tableFormat
        publishing?.follow(capture.directory, isAlone: targets.count == 1)
        capture.live = view?.feed(of: target.address, name: target.name)
        return capture
      }
      return await CaptureGroup(captures).run()
    }
  }

  private func plan(_ directory: String) throws -> Plan {
    Plan(
      directory: directory, limits: RecordingLimits(duration: duration.map { .seconds($0) }, count: count),
      request: try device.link.request(), timeout: .seconds(device.timeout),
      logFormat: logFormat.capture, tableFormat: tables.tableFormat,
      publishing: try publishing.publishing(tables.format))
  }

  private static func find(
    _ count: Int, _ name: String?, _ adapter: any Adapter, _ timeout: Duration, _ view: LiveView?
  ) async throws(HostError) -> [RingCapture.Target] {
    view?.look(for: count == 1 ? name ?? "a ring" : "\(count) rings")
    let found = try await RingFinder.find(count, named: name, on: adapter, within: timeout)
    for ring in found {
      view?.found(ring)
      Console.note("found \((ring.name ?? "").printable) \(ring.address) (\(ring.address.type.name))")
    }
    guard found.count == count else {
      throw .notFound(
        found.isEmpty
          ? name.map { "device named \($0)" } ?? "ring" : "more than \(found.count) of \(count) rings",
        seconds: Int(timeout.components.seconds))
    }
    return found.map { RingCapture.Target(address: $0.address, name: $0.name) }
  }

  private func finish(_ outcomes: [CaptureGroup.Outcome]) throws {
    var failures: [String] = []
    for outcome in outcomes {
      switch outcome.result {
      case .success(let result):
        try show(result.report, outcome.directory)
        if let failure = result.failure {
          failures.append("\(failure); what was recorded until then is in \(outcome.directory)")
        }
      case .failure(let error): failures.append("\(error)")
      }
    }
    // The last goes the way of every failed command.
    for failure in failures.dropLast() { Console.note(failure) }
    if let failure = failures.last { throw Failure(failure) }
    if outcomes.contains(where: \.hasLost) { throw ExitCode(3) }
  }

  private func show(_ report: SessionReport, _ directory: String) throws {
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try Console.write(line.octets)
    } else {
      try Console.print(CaptureText.summary(report, directory))
    }
    for note in LinkText.refusals(report.changes) { Console.note(note) }
    if device.radio.verbose, let error = report.lastMalformed { Console.note("last malformed: \(error)") }
  }

  private static func nameByTime() -> String {
    let now = LocalTime(SystemClock.now())
    func two(_ part: Int) -> String { NumberText.padded(part, 2) }
    return "ringtap-\(now.year)\(two(now.month))\(two(now.day))-"
      + "\(two(now.hour))\(two(now.minute))\(two(now.second))"
  }
}

extension CaptureGroup.Outcome {
  fileprivate var hasReport: Bool {
    if case .success = result { true } else { false }
  }

  fileprivate var hasLost: Bool {
    if case .success(let result) = result { result.report.lost.total > 0 } else { false }
  }
}
