import ArgumentParser
import BLELinux
import BLEWire
import CaptureTools
import CommandKit
import JSONText

/// `ringtap align DIR`: puts several devices on one clock.
struct AlignCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "align",
    abstract: "Find the offsets between the clocks of sensors.",
    discussion: """
      The kernel's clock timestamps all devices of one `ringtap capture`, but timestamps do not show how \
      long each sensor keeps its values before it sends them. This command finds that delay by comparing \
      what the sensors measured on the same body: movement, if two have accelerometers, else heartbeats (a \
      strap's intervals, an ECG, a pulse). Walking is enough; if there is no other movement, shake both \
      sensors together, or clap while wearing them.

      For each device it reports the delay of its rows relative to the reference, the drift of that delay, \
      the error of the device's own clock, and a 95 % confidence interval of each value. An offset's \
      interval includes the wait for connection events. The offset between the rows of two devices is more \
      precise and is reported separately. If a value cannot be determined, the report has the reason. \
      Optical beats lag the heart by a few tenths of a second; an offset computed from them includes this \
      pulse transit time, and the report says so.

      Writes \(Alignment.fileName) into the directory, which `ringtap convert --grid` uses.

      EXAMPLES
        ringtap align ride
        ringtap align ride --json |
            jq '.devices[] | [.directory, .lateMs, .driftPPM]'
        ringtap convert ride --grid 50 --to csv
            all signals at 50 samples a second on one clock

      Exit status 1: a device has no signal in common with the others, or a table is truncated; the rest is \
      aligned.
      """)

  @Argument(
    help: ArgumentHelp("The directory that contains the captures of the devices.", valueName: "directory"))
  var path: String

  @Option(
    help: ArgumentHelp(
      "The device to compare the others with (default: the best).", valueName: "address"))
  var reference: String?

  @Option(
    help: ArgumentHelp("Maximum offset between the clocks, either way, 0.5 … 60.", valueName: "seconds"),
    in: NumberRange(0.5...60, "seconds"))
  var search = 10.0

  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object: the contents of the file.")
  var json = false

  func run() throws {
    let file = path + "/" + Alignment.fileName
    // The result of an earlier alignment may be replaced.
    if (try? Alignment(in: path)) == nil { try overwriting.check(file, "directory") }
    let found = try failing { () throws(AnalysisError) in
      try CaptureAlignment.run(path, reference: reference, search: search) { text in
        if Console.isErrorTerminal { Console.progress(text.printable) }
      }
    }
    if Console.isErrorTerminal { Console.progress("") }
    var line = JSONLine()
    found.alignment.encode(into: &line)
    try failing { () throws(SystemError) in
      try Files.replace(file, with: line.octets.span)
    }
    if json {
      try Console.write(line.octets)
    } else {
      try Console.write(AlignmentText.text(found.alignment).printableLines.utf8)
    }
    for problem in found.problems { Console.note(problem) }
    let isWhole = found.alignment.devices.allSatisfy { $0.late != nil }
    if !isWhole || !found.problems.isEmpty { throw ExitCode.failure }
  }
}
