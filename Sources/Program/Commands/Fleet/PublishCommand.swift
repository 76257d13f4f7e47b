import ArgumentParser
import BLELinux
import BLEWire
import CommandKit
import Fleet
import JSONText
import Recording
import Synchronization

/// The command `ringtap publish DIR URL`.
struct PublishCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "publish",
    abstract: "Publish a capture to an MQTT broker.",
    discussion: """
      Works like `ringtap capture --to mqtt://…`, but during or after a recording: sends the rows of the \
      directory's tables in batches with QoS 1, until a collector (`ringtap collect`) has confirmed all of \
      them; a broker's acknowledgement is not enough. It starts where the last run of either command stopped \
      (stored in publish.json). Rows that are sent twice are recognised by their numbers. While there is no \
      subscriber, or the broker is unreachable, rows wait in their tables. Needs MQTT 5, and Debian's \
      package libmosquitto1.

      At the end it waits for the collector's receipts, for at most --patience seconds without progress. \
      Unconfirmed rows are reported for each table; the next run sends them again.

      EXAMPLES
        ringtap publish walk mqtt://broker.local
        ringtap publish walk mqtts://nurse@broker.local/clinic --ca ca.pem \\
          --password-file secret
        ringtap publish walk mqtt://broker.local --follow
            a running capture: until Ctrl-C
        ringtap publish walk mqtt://broker.local --again
            everything from the first row, for a collector that has lost its files

      Exit status: 0 a collector has confirmed everything, 1 nothing was sent (the message has the reason), \
      2 wrong usage, 4 not everything was confirmed: run the command again to continue.
      """)

  @Argument(help: ArgumentHelp("A capture's directory.", valueName: "directory"))
  var directory: String

  @Argument(help: ArgumentHelp("mqtt[s]://[user[:password]@]host[:port][/prefix]", valueName: "url"))
  var url: String

  @OptionGroup var broker: BrokerOptions

  @Option(
    help: ArgumentHelp(
      "The publisher's name (default: the names of this machine and the device).", valueName: "name"))
  var `as`: String?

  @Option(
    help: ArgumentHelp(
      "Skip the oldest rows if more than this are queued in a table, such as 500k or 10M (default: 1G).",
      valueName: "size"),
    transform: ByteCount.atLeast(.fourKilobytes))
  var backlog = ByteCount.gigabyte

  @Option(
    help: ArgumentHelp(
      "Time limit without progress, and for a collector's receipts.", valueName: "seconds"),
    in: PublishOptions.patiences)
  var patience = 10.0

  @Flag(help: "Also publish the rows that are still being recorded, until Ctrl-C.")
  var follow = false

  @Flag(help: "Discard the publishing state and start a new session from the first row.")
  var again = false

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws { _ = try plan() }

  private func plan() throws -> PublishRun.Plan {
    PublishRun.Plan(
      try BrokerOptions.broker(url, passwordFile: broker.passwordFile), as: try `as`.map(FleetName.checked),
      backlog: backlog, patience: .seconds(patience), certificates: broker.ca)
  }

  func run() async throws {
    let plan = try plan()
    guard Files.names(in: directory).contains(where: { $0.hasSuffix(".csv") }) else {
      throw Failure(PublishProblem.noCapture(directory))
    }
    if again { try failing { () throws(SystemError) in try Files.remove(directory + "/publish.json") } }
    let run = try failing { () throws(SystemError) in
      let run = try PublishRun(directory, plan) { Console.note($0) }
      try run.start()
      return run
    }
    if follow {
      let (ends, end) = AsyncStream.makeStream(of: Void.self)
      try? await Interruption.cancelling {
        await withTaskCancellationHandler {
          for await _ in ends {}
        } onCancel: {
          end.finish()
        }
      }
    }
    let report = try await Interruption.cancelling { await run.finish() }
    guard let report else { throw Failure("\(directory): there was nothing to publish") }
    if json { try show(report) } else { PublishText.tell(report, plan.broker) }
    guard let problem = report.problem else { return }
    guard report.connections > 0, !report.isCapturesFault else { throw Failure(problem) }
    Console.note("not everything was published: \(problem); run the same command again to continue")
    throw ExitCode(4)
  }

  private func show(_ report: PublishReport) throws {
    try Console.json { line in
      line.member("publisher", report.publisher)
      line.member("session", report.session)
      line.member("sent", report.sent)
      line.member("acknowledged", report.acknowledged)
      line.member("confirmed", report.confirmed)
      line.member("waiting", report.waiting)
      line.member("skipped", report.skipped)
      line.member("resent", report.resent)
      line.member("batches", report.batches)
      line.member("connections", report.connections)
      if let collector = report.collector { line.member("collector", collector) }
      line.member("isConfirmed", report.isConfirmed)
      line.member("isDocumentLeftOut", report.isDocumentLeftOut)
      line.key("tables")
      line.array { line in
        for table in report.tables {
          line.object {
            $0.member("name", table.name)
            $0.member("confirmed", table.confirmed)
            $0.member("waiting", table.waiting)
          }
        }
      }
      if let problem = report.problem { line.member("problem", problem) }
    }
  }
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

  /// Stops publishing, because nothing was recorded or the remaining rows are not needed.
  func abandon() {
    for run in runs.withLock({ $0 }) { run.abandon() }
  }

  /// Waits until all rows are published, or until there is no more progress. Ctrl-C ends the wait.
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
      "published \(counted(report.confirmed, "row")) as \(broker)/\(report.publisher)/\(report.session)\(skipped); "
        + "\(confirmation); \(NumberText.fixed(seconds, 2)) s of processor time")
    if !report.isConfirmed, report.waiting > 0 {
      let tables = report.tables.filter { $0.waiting > 0 }.map { "\($0.waiting) of \($0.name)" }
      Console.note("not confirmed: \(counted(report.waiting, "row")), \(tables.joined(separator: ", "))")
    }
    if report.isDocumentLeftOut {
      Console.note("session.json is too large or not JSON and was not published")
    }
  }
}
