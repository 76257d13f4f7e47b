import ArgumentParser
import BLELinux
import BLEWire
import CaptureTools
import ColmiRing
import CommandKit
import JSONText
import Physiology
import Recording

/// `ringtap analyse DIR`: computes results from raw signals.
struct AnalyseCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "analyse",
    abstract: "Compute pulse, variability, movement and clocks.",
    discussion: """
      Reads the tables of a capture's directory. For a ring, it joins the frames of each tick, counts \
      missing ticks, and refits the times to the sensor's own clock; the kernel's timestamps are kept. A \
      strap, an ECG, acceleration, a thermometer or a cycling sensor is recognised by its tables. If the \
      directory contains several captures, it reports on each. A packet log is imported first, as `ringtap \
      import` does.

      EXAMPLES
        ringtap analyse ringtap-20251211-225417
        ringtap analyse walk --output walk-analysed
            also writes, as far as the capture bears it, samples.csv (each tick, with
            kernel stamps and fitted time; as the capture did), pulse.csv (eight
            seconds each two, with quality and method), beat-windows.csv (each ten
            seconds), beats.csv (each interval), ecg-windows.csv and ecg-beats.csv
            likewise, respiration.csv (half a minute each eight seconds),
            variability.csv (each five minutes) and activity.csv (each minute, with
            counts, steps and rest)
        ringtap analyse walk --json | jq .pulse
        ringtap analyse ride --json | jq '.variability[].segments[].rmssdMs'

      The pulse needs 18 samples a second, an ECG 100, steps 15; rest needs ten minutes, variability one, its spectrum four. \
      The pulse comes from beats where they are good, and is tracked where the hand moves; quality is the share of such \
      windows that are within 5 a minute. Ten seconds whose quality is low, or in which the hand moved, give no beats. \
      Breathing is told at rest, where a rate between 8 and 45 a minute stands out of half a minute of good beats. \
      Variability is refused where more than a twentieth of the intervals had to be corrected. Methods, sources and limits \
      are in the guide "What a capture has in it". All are estimates, and none is medical advice.

      A missing or damaged table is reported on standard error; the rest is analysed, and the exit status is \
      1. It is 3 if something that the sensor sent or measured is known to be lost.
      """, aliases: ["analyze"])

  @Argument(help: ArgumentHelp("A capture's directory, or a packet log.", valueName: "path"))
  var path: String

  @Option(name: [.short, .long], help: "Write tables into this directory.")
  var output: String?

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

  @Flag(help: "Print one JSON object.")
  var json = false

  func run() throws { try CaptureInput.withDirectory(of: path, keys: air.keys) { try analyse($0) } }

  private func analyse(_ directory: String) throws {
    let captures = CaptureGroup.members(of: directory)
    guard captures != [directory] else { return try finish(try analyse(directory, output: output)) }
    var (hasFailed, lost) = (false, 0)
    if let output { try failing { () throws(SystemError) in try Files.createDirectory(output) } }
    for capture in captures {
      let name = CaptureGroup.name(capture)
      do {
        let report = try analyse(capture, output: output.map { "\($0)/\(name)" }, heading: name)
        hasFailed = report.isIncomplete || hasFailed
        lost += report.lostCount
      } catch let failure as Failure {
        Console.note(failure.message)
        hasFailed = true
      }
    }
    if hasFailed { throw ExitCode.failure }
    try CaptureText.end(lost: lost)
  }

  /// - Parameter heading: the capture's name, if there are several.
  private func analyse(
    _ directory: String, output: String?, heading: String? = nil
  ) throws -> AnalysisReport {
    let report = try failing { () throws(AnalysisError) in
      try CaptureAnalysis.run(directory, output: output)
    }
    if json {
      var line = JSONLine()
      report.encode(into: &line, of: heading)
      try Console.write(line.octets)
    } else {
      if let heading { try Console.print(heading.printable) }
      try Console.write(AnalysisText.text(report).printableLines.utf8)
    }
    if report.clockStepCount > 0 {
      let times = report.clockStepCount == 1 ? "" : " \(report.clockStepCount) times"
      Console.note("the wall clock was set\(times) during the recording: see `clockSteps` in session.json")
    }
    for problem in report.problems { Console.note(problem) }
    return report
  }

  private func finish(_ report: AnalysisReport) throws {
    if report.isIncomplete { throw ExitCode.failure }
    try CaptureText.end(lost: report.lostCount)
  }
}
