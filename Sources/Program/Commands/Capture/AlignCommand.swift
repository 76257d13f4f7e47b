import ArgumentParser
import BLELinux
import BLEWire
import CaptureTools
import CommandKit
import JSONText

/// `ringtap align DIR`: several devices on one clock.
struct AlignCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "align",
    abstract: "Find the offset between the clocks of sensors.",
    discussion: """
      Devices that `ringtap capture` records at once have times by one clock, the kernel's. What that cannot know is how long \
      each sensor keeps its values before it sends them. This compares what they have seen of the same body: movement, where two have \
      accelerometers, else heart beats (a strap's intervals, an electrocardiogram, a pulse). Shake both, or clap with them, where \
      there is no other movement; a walk serves too.

      For each device it tells how much later than the reference it sends the same things, how that grows, by how much its own clock is \
      fast, and how sure all that is: 95 of 100 such ranges have the true value. An offset's range has the waits for connection \
      events in it; how the rows of both lie to each other is known better, and told beside it. What cannot be told is refused, with the \
      reason. Beats in light come some tenths of a second after the heart's: such an offset has that way in it, and says so.

      It writes \(Alignment.fileName) into the directory, which `ringtap convert --grid` uses.

      EXAMPLES
        ringtap align ride
        ringtap align ride --json | jq '.devices[] | [.directory, .lateMs, .driftPPM]'
        ringtap convert ride --grid 50 --to csv
            all signals at 50 samples a second on one clock

      Exit status 1: a device shares nothing with the others, or a table ends before its time; the rest is aligned.
      """)

  @Argument(
    help: ArgumentHelp("The directory with the captures of the devices in it.", valueName: "directory"))
  var path: String

  @Option(
    help: ArgumentHelp(
      "The device that the others are compared with; the best if not given.", valueName: "address"))
  var reference: String?

  @Option(
    help: ArgumentHelp("How far apart the clocks may be, either way, 0.5 … 60.", valueName: "seconds"),
    in: NumberRange(0.5...60, "seconds"))
  var search = 10.0

  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object: what the file has.")
  var json = false

  func run() throws {
    let file = path + "/" + Alignment.fileName
    // What an earlier run has found is found again.
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
