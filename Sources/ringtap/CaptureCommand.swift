import ArgumentParser
import BLECore
import BLEHost
import BLEPacketLog
import BLESensors
import BLESystem
import Foundation
import RingTap

/// `ringtap capture [ADDRESS]`: the main job.
struct CaptureCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "capture",
    abstract: "Record the raw PPG, SpO2 and accelerometer stream of one or several rings.",
    discussion: """
      Finds the ring by its name (or takes the address given), connects, subscribes, starts the raw stream and \
      records until --duration, --count or Ctrl-C; then the stream is stopped. The capture is a directory: \
      accelerometer.csv, ppg.csv, spo2.csv (first column: nanoseconds since the Unix epoch, stamped by the \
      kernel), samples.csv (the same tick by tick, on the sensor's own clock), packets.btsnoop and session.json \
      with the loss report, the sampling rate and its jitter.

      With an address no privilege is needed; finding a ring needs CAP_NET_RAW (beside bluetoothd: CAP_NET_ADMIN).

      EXAMPLES
        ringtap capture --duration 60
        ringtap capture 70:CB:0D:00:A1:B2 --count 3000 --output walk
        ringtap capture --json | jq .lost
            the last line is what session.json says
        ringtap capture --rings 4 --output group --duration 60
            four at once, each in a directory of its own below group
        ringtap capture --transport replay:walk/packets.pcapng --output again
            from a log: the same tables as the live capture, octet for octet

      Exit status 3: recorded, but something was lost; the report says where.
      """)

  @OptionGroup var device: DeviceOptions

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
    guard Set(parsed).count == parsed.count else { throw ValidationError("an address stands twice") }
  }

  func run() async throws {
    let wanted = try addresses.map { RingCapture.Target(address: try device.parse($0)) }
    let directory = output ?? Self.nameByTime()
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) is there already and not empty; give another --output")
    }
    let (options, plan) = (device.radio, try plan(directory))
    let (name, rings) = (name, rings)
    let outcomes = try await Interruption.cancelling {
      let radio = try await options.open()
      do {
        let outcomes = try await failing { () async throws(HostError) in
          let targets =
            if !wanted.isEmpty {
              wanted
            } else if let peer = radio.replay?.peer, rings == 1, name == nil {
              [RingCapture.Target(address: peer)]
            } else {
              try await Self.find(rings, name, radio.adapter, plan.timeout)
            }
          return await plan.capture(targets, on: radio.adapter)
        }
        await radio.close()
        return outcomes
      } catch {
        await radio.close()
        throw error
      }
    }
    if Console.isErrorTerminal { Console.progress("") }
    try finish(outcomes)
  }

  /// What all captures of this command have in common.
  private struct Plan: Sendable {
    let directory: String
    let limits: RingCapture.Limits
    let request: LinkRequest
    let timeout: Duration
    let logFormat: CaptureLogFormat

    /// One goes straight into the directory, several each into one of their own below it.
    func capture(_ targets: [RingCapture.Target], on adapter: any Adapter) async -> [CaptureGroup.Outcome] {
      let captures = targets.map { target in
        var capture = RingCapture(
          target, adapter: adapter, limits: limits,
          directory: targets.count == 1
            ? directory : CaptureGroup.directory(of: target.address, in: directory))
        capture.connectTimeout = timeout
        capture.request = request
        capture.isAnnounced = true
        capture.logFormat = logFormat
        return capture
      }
      return await CaptureGroup(captures).run { progress in
        Console.progress(
          "\(progress.elapsed.components.seconds) s  \(progress.samples) samples  "
            + "\(progress.lost) lost  \(progress.malformed) malformed   (Ctrl-C ends)")
      }
    }
  }

  private func plan(_ directory: String) throws -> Plan {
    Plan(
      directory: directory, limits: RingCapture.Limits(duration: duration.map { .seconds($0) }, count: count),
      request: try device.link.request(), timeout: .seconds(device.timeout),
      logFormat: logFormat.capture)
  }

  private static func find(
    _ count: Int, _ name: String?, _ adapter: any Adapter, _ timeout: Duration
  ) async throws(HostError) -> [RingCapture.Target] {
    let what = count == 1 ? name ?? "a ring" : "\(count) rings"
    Console.progress("looking for \(what) …")
    let found = try await RingFinder.find(count, named: name, on: adapter, within: timeout)
    Console.progress("")
    for ring in found {
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
      try Console.print(text(report, directory))
    }
    for note in LinkText.refusals(report.changes) { Console.note(note) }
    if device.radio.verbose, let error = report.lastMalformed { Console.note("last malformed: \(error)") }
  }

  private func text(_ report: SessionReport, _ directory: String) -> String {
    let seconds =
      Double((report.endedAt ?? report.startedAt).nanoseconds - report.startedAt.nanoseconds) / 1e9
    let rows = report.streams.reduce(0) { $0 + $1.samples }
    var lines = [
      "\(rows) samples in \(String(format: "%.1f", seconds)) s from \(report.device)"
        + (report.deviceName.map { " (\($0.printable))" } ?? "") + "; \(report.endReason ?? "")"
    ]
    for stream in report.streams {
      let clock = stream.part.flatMap(Self.clock).map { "  " + $0 } ?? ""
      lines.append("  \(stream.samples) \(stream.name)  \(directory)/\(stream.file)\(clock)")
    }
    if let ticks = report.ticks, let file = report.ticksFile {
      lines.append("  \(ticks.ticks) ticks  \(directory)/\(file)  \(Self.gaps(ticks, report.startedAt))")
    }
    if let log = report.packetLog { lines.append("  packets  \(directory)/\(log)") }
    if let link = LinkText.inForce(LinkState(after: report.changes)) { lines.append("  link  \(link)") }
    let lost = report.lost
    lines.append(
      lost.total == 0
        ? "0 lost of \(report.received)"
        : "\(lost.total) lost of \(report.received + lost.kernelQueue): kernel queue \(lost.kernelQueue), "
          + "sample queue \(lost.sampleQueue), packet log \(lost.packetLog), disk \(lost.disk)")
    if report.malformed > 0 { lines.append("\(report.malformed) malformed, not recorded") }
    if report.adapterFaults > 0 {
      lines.append("\(report.adapterFaults) faults of the controller's: notifications may be missing")
    }
    if report.withoutKernelStamp > 0 {
      lines.append("\(report.withoutKernelStamp) without a kernel stamp: stamped on arrival here")
    }
    return lines.joined(separator: "\n")
  }

  /// Rate and jitter of one stream.
  private static func clock(_ part: TickReport.Part) -> String? {
    guard let rate = part.rate, part.samples > 0 else { return nil }
    return String(
      format: "%.4g Hz, jitter %.1f ms RMS, %.1f ms p99", rate, part.residual / 1e6, part.residualP99 / 1e6)
  }

  /// What never came; of many gaps the first few.
  private static func gaps(_ ticks: TickReport, _ start: ReceiveTime) -> String {
    let clock = ticks.clock
    guard clock.missing > 0 else { return "none missing" }
    let shown = ticks.gaps.prefix(3).map { gap in
      let seconds = Double(gap.after.nanoseconds - start.nanoseconds) / 1e9
      return "\(gap.ticks) after \(String(format: "%.1f", seconds)) s"
    }
    return "\(clock.missing) missing in \(clock.gaps) gaps: " + shown.joined(separator: ", ")
      + (clock.gaps > shown.count ? " …" : "")
  }

  private static func nameByTime() -> String {
    let parts = Calendar.current.dateComponents(
      [.year, .month, .day, .hour, .minute, .second], from: Date())
    func two(_ part: Int?) -> String { String(format: "%02d", part ?? 0) }
    return "ringtap-\(parts.year ?? 0)\(two(parts.month))\(two(parts.day))-"
      + "\(two(parts.hour))\(two(parts.minute))\(two(parts.second))"
  }
}

extension CaptureGroup.Outcome {
  fileprivate var hasLost: Bool {
    if case .success(let result) = result { result.report.lost.total > 0 } else { false }
  }
}
