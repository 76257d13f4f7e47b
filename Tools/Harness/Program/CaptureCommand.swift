import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CMallocCounter
import CommandKit
import Commands
import JSONText
import Recording
import RingTap
import SensorSessions

/// `harness capture`: measures the cost of a complete capture.
struct CaptureCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "capture",
    abstract: "Measure a complete capture of a ring, including its files.",
    discussion: """
      Records as `ringtap capture` does and reports the cost: processor time of the whole process from the \
      first connection attempt until the files are closed, and mallocs of all its threads in the second half \
      of the stream. With --transport virtual:… both figures include the emulation, which runs in the same \
      process.

      EXAMPLES
        harness capture 70:CB:0D:00:A1:B2 --count 10000 --output walk
        harness capture --transport virtual:ring,rate=300 --output walk \\
          --json | jq .mallocs

      Exit status 3: the measurement is complete, but data was lost; the report lists where.
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions

  @Argument(help: "The ring, such as 70:CB:0D:00:A1:B2; not needed with --transport virtual:…")
  var address: String?

  @Option(
    help: "End after this many samples.", in: NumberRange(100...1_000_000_000_000_000))
  var count = 10_000

  @Option(name: [.short, .long], help: "The capture directory.")
  var output: String

  @Flag(help: "Print the callers of the first counted mallocs on standard error. Slows down each malloc.")
  var callers = false

  @Flag(help: "Print one JSON object.")
  var json = false

  func run() async throws {
    let address = try BenchTarget.address(address, device)
    let (request, timeout) = (try device.link.request(), Duration.seconds(device.timeout))
    let cost = try await device.withRadio(LoopTuning(), .whole) { [output, count, callers] radio in
      try await CaptureCost.measure(address, radio.adapter, count, output, tellingCallers: callers) {
        $0.plan.request = request
        $0.plan.connectTimeout = timeout
        $0.plan.answerTimeout = timeout
      }
    }
    try cost.show(json: json)
    if cost.report.lost.total > 0 { throw ExitCode(3) }
  }
}

/// A capture's report and its cost.
struct CaptureCost: Sendable {
  var report: SessionReport
  /// Processor time of the process, from the connection attempt until the files are closed.
  var processNanoseconds: Int64
  /// Mallocs of all threads from the middle of the stream to its last timestamp; `nil` if they were not
  /// counted.
  var mallocs: Int?
  var residentKilobytes: Int

  static func measure(
    _ address: DeviceAddress, _ adapter: any Adapter, _ count: Int, _ directory: String,
    tellingCallers: Bool = false, _ configure: (inout SensorRecording) -> Void = { _ in }
  ) async throws -> CaptureCost {
    var recording = SensorRecording(
      of: address, on: adapter, into: directory, RecordingLimits(count: count))
    configure(&recording)
    let begin = ThreadUsage.processNanoseconds
    malloc_counter_watch(tellingCallers)
    let ready = recording
    let result = try await failing { () async throws(HostError) in try await ready.run(.ring) }
    let resident = ProcessFacts.residentKilobytes ?? 0
    if let failure = result.failure { throw Failure("\(failure)") }
    return CaptureCost(
      report: result.report, processNanoseconds: ThreadUsage.processNanoseconds - begin,
      mallocs: mallocs(result.report, tellingCallers), residentKilobytes: resident)
  }

  private static func mallocs(_ report: SessionReport, _ tellingCallers: Bool) -> Int? {
    guard let first = report.firstSampleAt?.nanoseconds, let last = report.lastSampleAt?.nanoseconds else {
      return nil
    }
    let middle = first + (last - first) / 2
    let calls = malloc_counter_between(middle, last)
    if tellingCallers, calls != 0 {
      // A negative number of calls means that more mallocs occurred than the counter can store.
      Console.note(
        "\(calls > 0 ? "the first" : "some of more than 1,048,576") mallocs in the second half of the stream, "
          + "the innermost caller first:")
      malloc_counter_tell(middle, calls > 0 ? last : .max, 3)
    }
    return malloc_counter_counts() && calls >= 0 ? Int(calls) : nil
  }

  /// Time from the first sample to the last, in seconds.
  var seconds: Double {
    guard let first = report.firstSampleAt, let last = report.lastSampleAt else { return 0 }
    return (last - first).seconds
  }

  private var perSecond: Double { seconds > 0 ? Double(report.received - 1) / seconds : 0 }

  private var nanosecondsEach: Double {
    report.received > 0 ? Double(processNanoseconds) / Double(report.received) : 0
  }

  func show(json: Bool) throws(Console.WriteError) {
    if json { try Console.json { encode(into: &$0) } } else { try Console.print(text) }
  }

  private var text: String {
    """
    \(report.device) by \(report.adapter), \(report.mode) mode
    \(counted(report.received, "notification")) in \(BenchText.number(seconds)) s: \(BenchText.number(perSecond))/s, \
    \(report.lost.total) lost
    each notification: \(BenchText.precise(nanosecondsEach / 1000)) µs of the process
    mallocs in the second half of the stream: \(mallocs.map { "\($0)" } ?? "not counted")
    resident memory: \(BenchText.number(Double(residentKilobytes) / 1024)) MiB
    """
  }

  private func encode(into line: inout JSONLine) {
    line.member("device", report.device.description)
    line.member("adapter", report.adapter)
    line.member("mode", report.mode)
    line.member("received", report.received)
    line.member("lost", report.lost.total)
    line.member("seconds", seconds)
    line.member("notificationsPerSecond", perSecond)
    line.member("processNsPerNotification", nanosecondsEach)
    if let mallocs { line.member("mallocs", mallocs) }
    line.member("residentKilobytes", residentKilobytes)
  }
}
