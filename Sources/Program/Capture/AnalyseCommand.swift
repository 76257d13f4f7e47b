import ArgumentParser
import BLECore
import CaptureTables
import CaptureTools
import ColmiRing
import CommandKit
import JSONText
import Physiology
import Recording

/// `ringtap analyse DIR`: from raw signals to numbers.
struct AnalyseCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "analyse",
    abstract: "Turn a capture into numbers: rate, gaps, clock, pulse, movement, rest.",
    discussion: """
      Reads accelerometer.csv, ppg.csv and spo2.csv of a capture's directory. The frames of a tick are put together, \
      ticks that never came are counted, and the times are refitted to the sensor's own clock; kernel stamps stay.

      EXAMPLES
        ringtap analyse ringtap-20251211-225417
        ringtap analyse walk --output walk-analysed
            also writes samples.csv (each tick, with kernel stamps and fitted time; as the capture did),
            pulse.csv (eight seconds each two, with quality and method), beat-windows.csv (each ten seconds),
            beats.csv (each interval) and activity.csv (each minute, with counts, steps and rest)
        ringtap analyse walk --json | jq .pulse

      The pulse needs 18 samples a second, steps 15; rest needs ten minutes. The pulse comes from beats \
      where they are good, and is tracked where the hand moves; quality is the share of such windows that are within 5 a \
      minute. Ten seconds whose quality is low, or in which the hand moved, give no beats. Methods, sources and limits are in the README. All are estimates, and none \
      is medical advice.

      A table that is missing or broken is told on standard error; the rest is analysed, and the exit status is 1.
      """)

  @Argument(help: ArgumentHelp("The capture.", valueName: "directory"))
  var directory: String

  @Option(name: [.short, .long], help: "Write tables into this directory.")
  var output: String?

  @Flag(help: "Print one JSON object.")
  var json = false

  func run() throws {
    let report = try failing { () throws(AnalysisError) in
      try CaptureAnalysis.run(directory, output: output)
    }
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try Console.write(line.octets)
    } else {
      try Console.write(text(report).utf8)
    }
    for problem in report.problems { Console.note(problem) }
    if !report.problems.isEmpty { throw ExitCode.failure }
  }

  // MARK: Text

  private func text(_ report: AnalysisReport) -> String {
    let lines =
      streamLines(report) + clockLines(report) + pulseLines(report.pulse) + activityLines(report.activity)
    return lines.joined(separator: "\n") + "\n"
  }

  private func streamLines(_ report: AnalysisReport) -> [String] {
    let samples = report.tables.map { "\($0.rows) \($0.stream.name)" }.joined(separator: ", ")
    let dropouts = report.tables.compactMap { table in table.dropouts.map { "\($0) \(table.stream.name)" } }
    let start = report.start?.nanoseconds ?? 0
    let seconds = Double((report.end?.nanoseconds ?? start) - start) / 1e9
    return [
      "samples   \(samples); \(report.ticks.ticks) ticks in \(fixed(seconds, 1)) s, "
        + "\(report.ticks.ticks - report.ticks.wholeTicks) of them not whole",
      "dropouts  \(dropouts.isEmpty ? "none" : dropouts.joined(separator: ", "))",
    ]
  }

  private func clockLines(_ report: AnalysisReport) -> [String] {
    let clock = report.ticks.clock
    let certainty = clock.rateUncertainty.map { ", ± \(fixed($0 * 1e6, 0)) ppm" } ?? ""
    var lines = [
      "rate      \(report.ticks.rate.map { fixed($0, 4) } ?? "?") ticks a second by the sensor's clock"
        + certainty,
      "clock     stamps late by \(milliseconds(clock.meanLateness)) ms on average, residual "
        + "\(milliseconds(clock.residual)) ms RMS, \(milliseconds(clock.earliest)) … "
        + "\(milliseconds(clock.latest)) ms",
      clock.missing == 0
        ? "gaps      none"
        : "gaps      \(clock.gaps), \(clock.missing) ticks never came, at most \(clock.longestGap) in a row",
    ]
    if let uncertainty = clock.offsetUncertainty {
      let most = milliseconds(uncertainty)
      lines.insert("          all times may be late by the same, at most \(most) ms", at: 2)
    }
    if clock.restarts > 0 { lines.append("          the clock began anew \(clock.restarts) times") }
    return lines
  }

  private func pulseLines(_ pulse: AnalysisReport.Pulse) -> [String] {
    if let refusal = pulse.refusal { return ["pulse     none: \(refusal)"] }
    let rejected = PulseRejection.allCases.compactMap { reason in
      pulse.rejections[reason].map { "\($0) \(reason.rawValue)" }
    }
    let windows =
      "\(pulse.goodWindows) of \(pulse.windows) windows of 10 s good"
      + (rejected.isEmpty ? "" : " (rejected: \(rejected.joined(separator: ", ")))")
    let beats = "beats     \(pulse.beats), \(pulse.acceptedIntervals) intervals accepted; \(windows)"
    return [rateLine(pulse.rate), beats]
  }

  private func rateLine(_ rate: AnalysisReport.Rate) -> String {
    let share = "\(rate.withPulse) of \(rate.windows) windows of 8 s"
    guard let mean = rate.mean, let lowest = rate.lowest, let highest = rate.highest,
      let quality = rate.meanQuality
    else { return "pulse     none in \(rate.windows) windows of 8 s" }
    let methods = PulseMethod.allCases.compactMap { method in
      rate.methods[method].map { "\($0) by \(method.rawValue)" }
    }
    return "pulse     \(fixed(mean, 1)) a minute on average, \(fixed(lowest, 1)) … \(fixed(highest, 1)), "
      + "quality \(fixed(quality, 2)); \(share) (\(methods.joined(separator: ", ")))"
  }

  private func activityLines(_ activity: AnalysisReport.Activity) -> [String] {
    if let refusal = activity.refusal { return ["movement  none: \(refusal)"] }
    let steps = activity.steps.map { "\($0) steps" } ?? "too slow for steps"
    var lines = [
      "movement  \(fixed(activity.counts, 0)) counts in \(activity.minutes) minutes, "
        + "\(fixed(activity.enmo, 1)) mg, \(steps)"
    ]
    if activity.hasRest {
      let rest = activity.rest
      lines.append(
        "rest      \(rest[.asleep, default: 0]) minutes at rest, \(rest[.awake, default: 0]) awake, "
          + "\(rest[.unknown, default: 0]) unknown (Cole and Kripke's rule; an estimate)")
    } else {
      lines.append("rest      too short to say: needs \(SleepRule.minimumMinutes) minutes")
    }
    return lines
  }

  private func fixed(_ number: Double, _ decimals: Int) -> String { NumberText.fixed(number, decimals) }

  private func milliseconds(_ nanoseconds: Double) -> String { fixed(nanoseconds / 1e6, 2) }
}
