import ArgumentParser
import BLEHost
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import Recording
import SensorSessions

/// Text about a capture for the user.
enum CaptureText {
  /// Returns a line about an event of a recording.
  ///
  /// - Parameters:
  ///   - directory: the capture's directory.
  ///   - isAlone: whether this is the only sensor. If not, the line names the sensor.
  static func text(
    of news: SensorRecording.News, of address: DeviceAddress, in directory: String, isAlone: Bool
  ) -> String {
    let name = isAlone ? "" : "\(address): "
    return switch news {
    case .begun: "\(name)recording into \(directory)"
    case .lost(let gap): "\(name)\(GapText.lost(gap))"
    case .remark(let remark): "\(name)\(remark)"
    case .back(let gap):
      "\(name)streaming again after \(gap.attempts) \(gap.attempts == 1 ? "attempt" : "attempts")"
    case .removed(let removal): removal.text(in: directory)
    }
  }

  /// Returns the summary printed at the end.
  static func summary(_ report: SessionReport, _ directory: String) -> String {
    // With ticks, each part of a tick has its own samples. Without ticks, the first table has every sample,
    // and further tables repeat samples.
    let parts = report.streams.filter { $0.part != nil }
    let rows = parts.isEmpty ? report.streams.first?.samples ?? 0 : parts.reduce(0) { $0 + $1.samples }
    let duration = ((report.endedAt ?? report.startedAt) - report.startedAt).nanoseconds
    var lines = [
      "\(counted(rows, "sample")) in \(seconds(duration)) from \(report.device)"
        + (report.deviceName.map { " (\($0.printable))" } ?? "") + "; \(report.endReason ?? "")"
    ]
    for stream in report.streams {
      let clock = stream.part.flatMap(clock).map { "  " + $0 } ?? ""
      lines.append("  \(stream.samples) \(stream.name)  \(directory)/\(stream.file)\(clock)")
      if let restarts = stream.restarts, restarts > 0 {
        lines.append(
          "  \(restarts) \(restarts == 1 ? "restart" : "restarts") of the sensor's counts: no rate there")
      }
    }
    if let ticks = report.ticks, let file = report.ticksFile {
      lines.append("  \(counted(report.tickRows, "tick"))  \(directory)/\(file)  \(missing(ticks, report))")
    }
    if let log = report.packetLog { lines.append("  packets  \(directory)/\(log)") }
    if let link = LinkText.inForce(LinkState(after: report.changes)) { lines.append("  link  \(link)") }
    if let gaps = gaps(report) { lines.append(gaps) }
    lines += losses(report)
    return lines.joined(separator: "\n")
  }

  /// Describes the gaps, for example `2 gaps, 12.3 s without samples: 1 of 0x08, 1 of 0x13; median 0.9 s from
  /// a lost link to the next sample`.
  static func gaps(_ report: SessionReport) -> String? {
    guard report.gapCount > 0 else { return nil }
    let length = report.gaps.compactMap(report.lengthNanoseconds).reduce(0, +)
    let causes = Dictionary(grouping: report.gaps) { gap in
      gap.reason.map { "0x" + hexadecimal($0.rawValue) } ?? "\(gap.end)"
    }.map { "\($1.count) of \($0)" }.sorted()
    var line =
      "\(report.gapCount) \(report.gapCount == 1 ? "gap" : "gaps"), \(time(length)) without samples: "
      + causes.joined(separator: ", ")
    if let median = report.medianRecoveryNanoseconds {
      line += "; median \(time(median)) from a lost link to the next sample"
    }
    return line
  }

  /// Returns rate and jitter of one stream as text.
  private static func clock(_ part: TickReport.Part) -> String? {
    guard let rate = part.rate, part.samples > 0 else { return nil }
    func milliseconds(_ nanoseconds: Double) -> String { NumberText.fixed(nanoseconds / 1e6, 1) + " ms" }
    return "\(NumberText.significant(rate, 4)) Hz, jitter \(milliseconds(part.residual)) RMS, "
      + "\(milliseconds(part.residualP99)) p99"
  }

  /// Describes the missing samples. If samples are missing in many places, lists only the first few.
  private static func missing(_ ticks: TickReport, _ report: SessionReport) -> String {
    let (clock, start) = (ticks.clock, report.startedAt)
    if clock.isLinkTooSlow { return "unknown how many are missing: the link is too slow for this rate" }
    guard let most = clock.missingAtMost else {
      return (clock.missing > 0 ? "\(clock.missing) or more missing" : "unknown how many are missing")
        + ": the arrival times do not show it"
    }
    let doubtful = most - clock.missing
    guard clock.missing > 0 else {
      if doubtful > 0 { return "up to \(doubtful) may be missing" }
      return report.isNumbered
        ? "none missing" : "unknown how many are missing: the arrival times are too uneven"
    }
    let shown = ticks.gaps.prefix(3).map { gap in
      "\(gap.ticks) after \(seconds((gap.after - start).nanoseconds))"
    }
    let places = "\(clock.gaps) \(clock.gaps == 1 ? "place" : "places")"
    return "\(clock.missing) missing at \(places): " + shown.joined(separator: ", ")
      + (clock.gaps > shown.count ? " …" : "")
      + (doubtful > 0 ? "; up to \(doubtful) more may be missing" : "")
  }

  static func losses(_ report: SessionReport) -> [String] {
    var lines = Ledger(report).lines
    if report.adapterFaults > 0 {
      lines.append("\(report.adapterFaults) controller faults: notifications may be missing")
    }
    if let line = LinkText.unsubscribed(report.unsubscribedValues) { lines.append(line) }
    if report.withoutKernelStamp > 0 {
      lines.append("\(report.withoutKernelStamp) without a kernel timestamp: timestamped on arrival")
    }
    return lines
  }

  /// Ends a command with status 3 if anything was lost. The preceding output lists the losses.
  static func end(lost total: Int) throws {
    guard total > 0 else { return }
    Console.note("\(total) lost")
    throw ExitCode(3)
  }

  private static func seconds(_ nanoseconds: Int64) -> String {
    NumberText.fixed(Double(nanoseconds) / 1e9, 1) + " s"
  }

  /// Returns a duration as text, in milliseconds if it is shorter than a second.
  private static func time(_ nanoseconds: Int64) -> String {
    nanoseconds < 1_000_000_000 ? "\((nanoseconds &+ 500_000) / 1_000_000) ms" : seconds(nanoseconds)
  }
}
