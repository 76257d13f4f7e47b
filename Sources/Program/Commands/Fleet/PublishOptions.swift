import ArgumentParser
import BLELinux
import CommandKit
import Fleet
import JSONText
import Recording
import Synchronization

/// Publishing while recording.
struct PublishOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Send what is recorded through this broker too: mqtt[s]://[user@]host[:port][/prefix].",
      valueName: "url"))
  var publish: String?

  @Option(
    help: ArgumentHelp(
      "The publisher's name there; this machine's and the device's if not given.", valueName: "name"))
  var publishAs: String?

  @Option(
    help: ArgumentHelp(
      "Skip the oldest rows where more wait in a table than this, such as 500k or 10M; 1G if not given.",
      valueName: "size"),
    transform: ByteCount.atLeast(.fourKilobytes))
  var publishBacklog = ByteCount.gigabyte

  @Option(
    help: ArgumentHelp(
      "How long to go on at the end without progress, and to wait for a collector's receipts.",
      valueName: "seconds"), in: Self.patiences)
  var publishPatience = 10.0

  @Option(
    help: ArgumentHelp(
      "The authority's certificate (PEM) for mqtts://; the system's if not given.", valueName: "file"))
  var publishCa: String?

  @Option(
    help: ArgumentHelp(
      "A file whose first line is the password; else RINGTAP_MQTT_PASSWORD in the environment.",
      valueName: "file"))
  var publishPasswordFile: String?

  /// How long a publisher may go on without progress.
  static let patiences = NumberRange(above: 0, upTo: 1e6, "seconds")

  func validate() throws { _ = try plan() }

  /// - Returns: `nil` where nothing is to be published.
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
      throw ValidationError("'\(name.printable)' is no name; it is 1 … 64 letters, digits, '.', '_' and '-'")
    }
    plan.name = name
    plan.backlogByteCount = backlog.value
    plan.patience = .seconds(patience)
  }

  /// For a command that records.
  func publishing(_ format: TableOptions.Format) throws -> Publishing? {
    guard let plan = try plan() else { return nil }
    if format != .csv { throw ValidationError("--publish sends tables of text; record with --format csv") }
    return Publishing(plan)
  }
}

/// `publish` in a daemon's file.
struct DaemonPublishOptions: ParsableArguments {
  @Option var to: String?
  @Option var `as`: String?
  @Option(transform: ByteCount.atLeast(.fourKilobytes)) var backlog = ByteCount.gigabyte
  @Option var ca: String?
  @Option var passwordFile: String?

  /// - Returns: `nil` where nothing is to be published.
  func plan() throws -> PublishRun.Plan? {
    guard let to else { return nil }
    var plan = PublishRun.Plan(try BrokerOptions.broker(to, passwordFile: passwordFile))
    // How patient a daemon is it knows itself.
    try PublishOptions.take(`as`, backlog, 1, into: &plan)
    plan.certificates = ca
    return plan
  }

  func validate() throws { _ = try plan() }
}

/// What a command publishes while it records: a directory or several.
final class Publishing: Sendable {
  private let plan: PublishRun.Plan
  private let runs = Mutex<[PublishRun]>([])

  init(_ plan: PublishRun.Plan) { self.plan = plan }

  /// A directory that is about to be recorded into.
  func follow(_ directory: String, isAlone: Bool = true) {
    var plan = plan
    // Each ring's name is its own.
    if !isAlone, let name = plan.name {
      plan.name = FleetName.made(of: "\(name)-\(directory.split(separator: "/").last ?? "")")
    }
    do throws(SystemError) {
      let run = try PublishRun(directory, plan) { Console.note($0) }
      try run.start()
      runs.withLock { $0.append(run) }
    } catch { Console.note("nothing is published: \(error)") }
  }

  /// Nothing was recorded, or nothing more is wanted.
  func abandon() {
    for run in runs.withLock({ $0 }) { run.abandon() }
  }

  /// Waits until all is published, or nothing goes on. Ctrl-C ends the waiting.
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
        "not everything was published: \(problem); then `ringtap publish \(run.directory) \(plan.broker)` sends the rest"
      )
    }
    return isWhole
  }
}

/// A publication in words.
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
        + "\(confirmation); \(NumberText.fixed(seconds, 2)) s of the processor")
    if !report.isConfirmed, report.waiting > 0 {
      let tables = report.tables.filter { $0.waiting > 0 }.map { "\($0.waiting) of \($0.name)" }
      Console.note("not confirmed: \(report.waiting) rows, \(tables.joined(separator: ", "))")
    }
    if report.isDocumentLeftOut {
      Console.note("session.json is too large, or no JSON, and was not published")
    }
  }
}
