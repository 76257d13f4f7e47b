import ArgumentParser
import BLECore
import BLEHost
import BLEPacketLog
import BLESystem
import Foundation
import RingTap

/// `ringtap capture [ADDRESS]`: the main job.
struct CaptureCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "capture",
    abstract: "Record a ring's raw PPG, SpO2 and accelerometer stream.",
    discussion: """
      Finds the ring by its name (or takes the address given), connects, subscribes, starts the raw stream and \
      records until --duration, --count or Ctrl-C; then the stream is stopped. The capture is a directory: \
      accelerometer.csv, ppg.csv, spo2.csv (first column: nanoseconds since the Unix epoch, stamped by the \
      kernel), packets.btsnoop and session.json with the loss report.

      With an address no privilege is needed; finding a ring needs CAP_NET_RAW.

      EXAMPLES
        ringtap capture --duration 60
        ringtap capture 70:CB:0D:00:A1:B2 --count 3000 --output walk
        ringtap capture --json | jq .lost
            the last line is what session.json says

      Exit status 3: recorded, but something was lost; the report says where.
      """)

  @OptionGroup var device: DeviceOptions

  @Argument(help: "The ring, such as 70:CB:0D:00:A1:B2; the first one in range if not given.")
  var address: String?

  @Option(help: "The ring's advertised name, exactly, instead of any ring's.")
  var name: String?

  @Option(name: [.short, .long], help: "The capture directory; named after the time if not given.")
  var output: String?

  @Option(help: ArgumentHelp("End after this time.", valueName: "seconds"))
  var duration: Double?

  @Option(help: "End after this many samples, over all streams.")
  var count: Int?

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws {
    if let count, count < 1 { throw ValidationError("--count must be at least 1") }
    if let duration, duration <= 0 { throw ValidationError("--duration must be above 0") }
    if address != nil, name != nil { throw ValidationError("an address or --name, not both") }
  }

  func run() async throws {
    let wanted = try address.map { try device.parse($0) }
    let directory = output ?? Self.nameByTime()
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) is there already and not empty; give another --output")
    }
    let limits = RingCapture.Limits(duration: duration.map { .seconds($0) }, count: count)
    let (name, timeout) = (name, Duration.seconds(device.timeout))
    let (options, request) = (device.radio, try device.link.request())
    let result = try await Interruption.cancelling {
      let radio = try await options.open()
      do {
        let result = try await failing { () async throws(HostError) in
          try await Self.capture(radio.adapter, wanted, name, timeout, request, limits, directory)
        }
        await radio.close()
        return result
      } catch {
        await radio.close()
        throw error
      }
    }
    if Console.isErrorTerminal { Console.progress("") }
    try finish(result, directory)
  }

  private static func capture(
    _ adapter: any Adapter, _ wanted: DeviceAddress?, _ name: String?, _ timeout: Duration,
    _ request: LinkRequest, _ limits: RingCapture.Limits, _ directory: String
  ) async throws(HostError) -> RingCapture.Result {
    let target: RingCapture.Target
    if let wanted {
      target = RingCapture.Target(address: wanted)
    } else {
      target = try await find(name, adapter, timeout)
    }
    var capture = RingCapture(target, adapter: adapter, limits: limits, directory: directory)
    capture.connectTimeout = timeout
    capture.request = request
    return try await capture.run { progress in
      Console.progress(
        "\(progress.elapsed.components.seconds) s  \(progress.samples) samples  "
          + "\(progress.lost) lost  \(progress.malformed) malformed   (Ctrl-C ends)")
    }
  }

  private static func find(
    _ name: String?, _ adapter: any Adapter, _ timeout: Duration
  ) async throws(HostError) -> RingCapture.Target {
    Console.progress("looking for \(name ?? "a ring") …")
    let found = try await RingFinder.find(named: name, on: adapter, within: timeout)
    Console.progress("")
    Console.note("found \((found.name ?? "").printable) \(found.address) (\(found.address.type.name))")
    return RingCapture.Target(address: found.address, name: found.name)
  }

  private func finish(_ result: RingCapture.Result, _ directory: String) throws {
    let report = result.report
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try Console.write(line.octets)
    } else {
      try Console.print(text(report, directory))
    }
    for note in LinkText.refusals(report.changes) { Console.note(note) }
    if device.radio.verbose, let error = report.lastMalformed { Console.note("last malformed: \(error)") }
    if let failure = result.failure {
      throw Failure("\(failure); what was recorded until then is in \(directory)")
    }
    if report.lost.total > 0 { throw ExitCode(3) }
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
      lines.append("  \(stream.samples) \(stream.name)  \(directory)/\(stream.file)")
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
    if report.withoutKernelStamp > 0 {
      lines.append("\(report.withoutKernelStamp) without a kernel stamp: stamped on arrival here")
    }
    return lines.joined(separator: "\n")
  }

  private static func nameByTime() -> String {
    let parts = Calendar.current.dateComponents(
      [.year, .month, .day, .hour, .minute, .second], from: Date())
    func two(_ part: Int?) -> String { String(format: "%02d", part ?? 0) }
    return "ringtap-\(parts.year ?? 0)\(two(parts.month))\(two(parts.day))-"
      + "\(two(parts.hour))\(two(parts.minute))\(two(parts.second))"
  }
}
