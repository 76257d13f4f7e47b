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
      missing ticks, and fits the times to the sensor's own clock; the kernel's timestamps are kept. Straps, \
      ECG, acceleration, thermometers and cycling sensors are recognised by their tables. If the directory \
      contains several captures, it reports on each. A packet log is imported first, as by `ringtap import`.

      EXAMPLES
        ringtap analyse ringtap-20251211-225417
        ringtap analyse walk --output walk-analysed
            also writes the tables that the capture's data allows: samples.csv (each
            tick, with kernel timestamps and fitted time), pulse.csv (8 s windows
            every 2 s, with quality and method), beat-windows.csv (10 s windows),
            beats.csv (each interval), ecg-windows.csv and ecg-beats.csv (the same
            from an ECG), respiration.csv (30 s windows every 8 s), variability.csv
            (5 min windows) and activity.csv (each minute, with counts, steps and
            rest)
        ringtap analyse walk --json | jq .pulse
        ringtap analyse ride --json | jq '.variability[].segments[].rmssdMs'

      The pulse needs 18 samples per second, an ECG 100, steps 15. Rest needs a recording of ten minutes, \
      variability one minute, and its spectrum four. The pulse is computed from beats if they are clear, and \
      tracked if the hand moves. Its quality is the share of such windows whose pulse is within 5 bpm. A \
      window of ten seconds with low quality or movement yields no beats. Respiration is computed at rest, \
      if half a minute of good beats shows a clear rate between 8 and 45 per minute. Variability is not \
      computed if more than 5 % of the intervals had to be corrected. The guide "What a capture contains" \
      has methods, sources and limits. All results are estimates; none is medical advice.

      A missing or damaged table is reported on standard error; the rest is analysed, and the exit status is \
      1. It is 3 if values of the sensor are known to be lost.
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

  /// Analyses one capture and prints the results.
  ///
  /// - Parameter heading: the capture's name, if there are several captures.
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
      let times = report.clockStepCount == 1 ? "" : " \(counted(report.clockStepCount, "time"))"
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
