import ArgumentParser
import BLELinux
import CommandKit
import Fleet
import JSONText

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
