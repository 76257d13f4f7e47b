import ArgumentParser
import BLELinux
import CommandKit
import Fleet
import JSONText
import Recording
import Synchronization

/// Options for publishing during a recording.
struct PublishOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Also publish the recording through this broker: mqtt[s]://[user@]host[:port][/prefix].",
      valueName: "url"))
  var publish: String?

  @Option(
    help: ArgumentHelp(
      "The publisher's name (default: the names of this machine and the device).", valueName: "name"))
  var publishAs: String?

  @Option(
    help: ArgumentHelp(
      "Skip the oldest rows if more than this are queued in a table, such as 500k or 10M (default: 1G).",
      valueName: "size"),
    transform: ByteCount.atLeast(.fourKilobytes))
  var publishBacklog = ByteCount.gigabyte

  @Option(
    help: ArgumentHelp(
      "At the end, how long to continue without progress, and to wait for a collector's receipts.",
      valueName: "seconds"), in: Self.patiences)
  var publishPatience = 10.0

  @Option(
    help: ArgumentHelp(
      "The CA certificate (PEM) for mqtts:// (default: the system's).", valueName: "file"))
  var publishCa: String?

  @Option(
    help: ArgumentHelp(
      "A file whose first line is the password (default: RINGTAP_MQTT_PASSWORD in the environment).",
      valueName: "file"))
  var publishPasswordFile: String?

  /// Range of the time to continue without progress.
  static let patiences = NumberRange(above: 0, upTo: 1e6, "seconds")

  func validate() throws { _ = try plan() }

  /// Returns the publishing plan.
  ///
  /// - Returns: `nil` if nothing is published.
  func plan() throws -> PublishRun.Plan? {
    guard let publish else {
      let isAlone = publishAs != nil || publishCa != nil || publishPasswordFile != nil
      if isAlone { throw ValidationError("--publish-as, -ca and -password-file need --publish") }
      return nil
    }
    var plan = PublishRun.Plan(try BrokerOptions.broker(publish, passwordFile: publishPasswordFile))
    try Self.take(publishAs, publishBacklog, publishPatience, into: &plan)
    plan.certificates = publishCa
    return plan
  }

  static func take(
    _ name: String?, _ backlog: ByteCount, _ patience: Double, into plan: inout PublishRun.Plan
  ) throws {
    if let name, !FleetName.isValid(name) {
      throw ValidationError("'\(name.printable)' is not a name: use 1 … 64 letters, digits, '.', '_' and '-'")
    }
    plan.name = name
    plan.backlogByteCount = backlog.value
    plan.patience = .seconds(patience)
  }

  /// Returns the publishing job for a command that records.
  func publishing(_ format: TableOptions.Format) throws -> Publishing? {
    guard let plan = try plan() else { return nil }
    if format != .csv { throw ValidationError("--publish needs text tables; record with --format csv") }
    return Publishing(plan)
  }
}

/// `publish` in the daemon's configuration file.
struct DaemonPublishOptions: ParsableArguments {
  @Option var to: String?
  @Option var `as`: String?
  @Option(transform: ByteCount.atLeast(.fourKilobytes)) var backlog = ByteCount.gigabyte
  @Option var ca: String?
  @Option var passwordFile: String?

  /// Returns the publishing plan.
  ///
  /// - Returns: `nil` if nothing is published.
  func plan() throws -> PublishRun.Plan? {
    guard let to else { return nil }
    var plan = PublishRun.Plan(try BrokerOptions.broker(to, passwordFile: passwordFile))
    // The daemon sets its own time limit.
    try PublishOptions.take(`as`, backlog, 1, into: &plan)
    plan.certificates = ca
    return plan
  }

  func validate() throws { _ = try plan() }
}

/// Publishes the capture directories of a command that records.
final class Publishing: Sendable {
  private let plan: PublishRun.Plan
  private let runs = Mutex<[PublishRun]>([])

  init(_ plan: PublishRun.Plan) { self.plan = plan }

  /// Starts publishing a directory into which a recording is about to start.
  func follow(_ directory: String, isAlone: Bool = true) {
    var plan = plan
    // Each device publishes under its own name.
    if !isAlone, let name = plan.name {
      plan.name = FleetName.made(of: "\(name)-\(directory.split(separator: "/").last ?? "")")
    }
    do throws(SystemError) {
      let run = try PublishRun(directory, plan) { Console.note($0) }
      try run.start()
      runs.withLock { $0.append(run) }
    } catch { Console.note("cannot publish: \(error)") }
  }

  /// Stops publishing: nothing was recorded, or the rest is not needed.
  func abandon() {
    for run in runs.withLock({ $0 }) { run.abandon() }
  }

  /// Waits until everything is published, or until progress stops. Ctrl-C ends the wait.
  ///
  /// - Returns: whether everything was published.
  func finish() async throws -> Bool {
    let runs = runs.withLock { $0 }
    let reports = try await Interruption.cancelling {
      await withTaskGroup(of: (Int, PublishReport?).self) { group in
        for (index, run) in runs.enumerated() { group.addTask { (index, await run.finish()) } }
        return await group.reduce(into: [Int: PublishReport]()) { $0[$1.0] = $1.1 }
      }
    }
    var isWhole = true
    for (index, run) in runs.enumerated() {
      guard let report = reports[index] else { continue }
      PublishText.tell(report, plan.broker)
      guard let problem = report.problem else { continue }
      isWhole = false
      Console.note(
        "not everything was published: \(problem); later, `ringtap publish \(run.directory) \(plan.broker)` "
          + "sends the rest"
      )
    }
    return isWhole
  }
}

/// Text about publishing for the user.
enum PublishText {
  static func tell(_ report: PublishReport, _ broker: BrokerAddress) {
    guard !report.session.isEmpty else { return }
    let confirmation =
      report.isConfirmed
      ? "\(report.collector ?? "a collector") has everything"
      : report.collector.map { "\($0) did not confirm everything" } ?? "no collector confirmed anything"
    let skipped = report.skipped > 0 ? ", \(report.skipped) skipped" : ""
    let parts = report.processorTime.components
    let seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
    Console.note(
      "published \(report.confirmed) rows as \(broker)/\(report.publisher)/\(report.session)\(skipped); "
        + "\(confirmation); \(NumberText.fixed(seconds, 2)) s of processor time")
    if !report.isConfirmed, report.waiting > 0 {
      let tables = report.tables.filter { $0.waiting > 0 }.map { "\($0.waiting) of \($0.name)" }
      Console.note("not confirmed: \(report.waiting) rows, \(tables.joined(separator: ", "))")
    }
    if report.isDocumentLeftOut {
      Console.note("session.json is too large or not JSON and was not published")
    }
  }
}
