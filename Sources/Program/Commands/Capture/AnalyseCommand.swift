import ArgumentParser
import BLELinux
import BLEWire
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
    abstract: "Compute pulse, variability, movement and clocks.",
    discussion: """
      Reads the tables of any capture's directory. Of a ring the frames of a tick are put together, ticks that never \
      came are counted, and the times are refitted to the sensor's own clock; kernel stamps stay. A strap, an ECG, \
      acceleration, a thermometer or a cyclist's sensor is told by what it measures; of a directory of several captures \
      each is told. A packet log is imported first, as `ringtap import` does.

      EXAMPLES
        ringtap analyse ringtap-20251211-225417
        ringtap analyse walk --output walk-analysed
            also writes, as far as the capture bears it, samples.csv (each tick, with
            kernel stamps and fitted time; as the capture did), pulse.csv (eight
            seconds each two, with quality and method), beat-windows.csv (each ten
            seconds), beats.csv (each interval), ecg-windows.csv and ecg-beats.csv
            likewise, variability.csv (each five minutes) and activity.csv (each
            minute, with counts, steps and rest)
        ringtap analyse walk --json | jq .pulse
        ringtap analyse ride --json | jq '.variability[].segments[].rmssdMs'

      The pulse needs 18 samples a second, an ECG 100, steps 15; rest needs ten minutes, variability one, its spectrum four. \
      The pulse comes from beats where they are good, and is tracked where the hand moves; quality is the share of such \
      windows that are within 5 a minute. Ten seconds whose quality is low, or in which the hand moved, give no beats. \
      Variability is refused where more than a twentieth of the intervals had to be corrected. Methods, sources and limits \
      are in the guide "What a capture has in it". All are estimates, and none is medical advice.

      A table that is missing or broken is told on standard error; the rest is analysed, and the exit status is 1. \
      It is 3 if something that the sensor sent or measured is known to be lost.
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

  /// - Parameter heading: what the capture is called, where there are several.
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
      Console.note("the wall clock was set\(times) meanwhile: `clockSteps` in session.json says when")
    }
    for problem in report.problems { Console.note(problem) }
    return report
  }

  private func finish(_ report: AnalysisReport) throws {
    if report.isIncomplete { throw ExitCode.failure }
    try CaptureText.end(lost: report.lostCount)
  }
}
