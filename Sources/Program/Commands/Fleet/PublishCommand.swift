import ArgumentParser
import BLELinux
import CommandKit
import Fleet
import JSONText

/// `ringtap publish DIR URL`.
struct PublishCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "publish",
    abstract: "Publish a capture to an MQTT broker.",
    discussion: """
      What `ringtap capture --publish` does while it records, afterwards or beside it: the rows of the directory's \
      tables go out in batches with QoS 1, from where the last run of either stopped (publish.json keeps that), until a \
      collector (`ringtap collect`) has confirmed all of them: a broker's word is not enough. Rows that went out twice are recognised by their numbers. Where \
      nobody is subscribed, or the broker is away, rows wait in their tables. MQTT 5 is needed, and Debian's package \
      libmosquitto1.

      At the end it waits for the collector's receipts, --patience seconds without progress at most. What none has \
      confirmed is told, by table, and publish.json stays before it.

      EXAMPLES
        ringtap publish walk mqtt://broker.local
        ringtap publish walk mqtts://nurse@broker.local/clinic --ca ca.pem \\
          --password-file secret
        ringtap publish walk mqtt://broker.local --follow
            of a capture that runs: until Ctrl-C
        ringtap publish walk mqtt://broker.local --again
            all from the first row, for a collector that has lost its files

      Exit status: 0 a collector has confirmed everything, 1 nothing was sent: the message says why, 2 wrong usage, \
      4 sent, but no collector has confirmed everything: the same command goes on.
      """)

  @Argument(help: ArgumentHelp("A capture's directory.", valueName: "directory"))
  var directory: String

  @Argument(help: ArgumentHelp("mqtt[s]://[user[:password]@]host[:port][/prefix]", valueName: "url"))
  var url: String

  @OptionGroup var broker: BrokerOptions

  @Option(
    help: ArgumentHelp(
      "The publisher's name; this machine's and the device's if not given.", valueName: "name"))
  var `as`: String?

  @Option(
    help: ArgumentHelp(
      "Skip the oldest rows where more wait in a table than this, such as 500k or 10M; 1G if not given.",
      valueName: "size"),
    transform: ByteCount.atLeast(.fourKilobytes))
  var backlog = ByteCount.gigabyte

  @Option(
    help: ArgumentHelp(
      "How long to go on without progress, and to wait for a collector's receipts.", valueName: "seconds"),
    in: PublishOptions.patiences)
  var patience = 10.0

  @Flag(help: "Go on with what is still recorded, until Ctrl-C.")
  var follow = false

  @Flag(help: "Forget what was published: a new session, from the first row.")
  var again = false

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws { _ = try plan() }

  private func plan() throws -> PublishRun.Plan {
    var plan = PublishRun.Plan(try BrokerOptions.broker(url, passwordFile: broker.passwordFile))
    try PublishOptions.take(`as`, backlog, patience, into: &plan)
    plan.certificates = broker.ca
    return plan
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
    Console.note("not everything was published: \(problem); the same command goes on")
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
