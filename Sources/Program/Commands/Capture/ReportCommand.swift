import ArgumentParser
import BLELinux
import BLEWire
import CaptureTools
import CommandKit

/// `ringtap report`: renders a recording as a page.
struct ReportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "report",
    abstract: "Write an HTML page with plots.",
    discussion: """
      The page needs no network and no other file. It lists errors, then the main results: pulse, duration, \
      samples, dropouts, losses, gaps. Plots of all streams with pulse and activity follow, on one time axis \
      that zooms down to single samples; then gaps and losses with their causes. Folded sections show how \
      the recording was made, histograms of intervals and latencies, connection parameters, and the ATT \
      traffic.

      A gap is a period without data during the recording, usually because of a lost link; a loss is data \
      known to be missing while the rest arrived. A plot's axis covers all values except isolated outliers, \
      which are counted, marked with triangles, and shown fully when the plot is zoomed.

      EXAMPLES
        ringtap report walk
            writes walk/report.html
        ringtap report packets.btsnoop --title "Monday, at rest"
            any packet log: a section for each device; for a directory with several
            captures, a section for each
        ringtap report walk --output - | ssh host 'cat > walk.html'
        ringtap report walk --png walk.png
            one picture for a paper instead of the page; ringtap draws --svg itself,
            and uses rsvg-convert for --png
        ringtap report walk --svg walk.svg --from 1:30 --to 1:45 --stream ppg,pulse
            two streams and 15 seconds; a page opens with the same selection

      Parts that cannot be read are reported on standard error and in the page; the rest is shown, and the \
      exit status is 1. It is 3 if something is known to be lost.
      """)

  @Argument(help: ArgumentHelp("A capture's directory, or a packet log.", valueName: "path"))
  var path: String

  @Option(
    name: [.short, .long],
    help: ArgumentHelp("The page to write; '-' is standard output.", valueName: "file"))
  var output: String?

  @Option(help: "The page's title (default: the device's name).")
  var title: String?

  @Option(help: ArgumentHelp("Draw a picture as SVG.", valueName: "file"))
  var svg: String?

  @Option(help: ArgumentHelp("Draw a picture as PNG.", valueName: "file"))
  var png: String?

  @Option(
    help: ArgumentHelp(
      "Start of the plots: seconds since the start, such as 90 or 1:30, or a UTC time, such as 2026-11-21T06:50:00Z.",
      valueName: "time"))
  var from: String?

  @Option(help: ArgumentHelp("End of the plots, in the same format.", valueName: "time"))
  var to: String?

  @Option(
    help: ArgumentHelp(
      "Draw only this stream, such as ppg, accelerometer, pulse or beats; several separated by commas, or repeated.",
      valueName: "name"))
  var stream: [String] = []

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions
  @OptionGroup var overwriting: OverwriteOptions

  func validate() throws {
    _ = try view
    if path == "-", output == nil, svg == nil, png == nil {
      throw ValidationError("standard input has no name; give --output")
    }
  }

  func run() throws {
    let (view, keys) = (try view, air.keys)
    for (file, option) in [(svg, "--svg"), (png, "--png"), (page, "--output")] {
      try overwriting.check(file, option, inputs: [path])
    }
    let converter = try png.map { file in try Converter(into: file, ifExists: overwriting.existing) }
    Confinement.filterFiles()
    let document = try failing { () throws(ReportError) in
      var document = try ReportDocument.read(path, title: title, keys: keys) { Console.progress($0) }
      try document.show(view)
      return document
    }
    if Console.isErrorTerminal { Console.progress("") }
    for problem in document.problemTexts { Console.note(problem) }
    if let svg { try write(document.picture, to: svg) }
    if let png, let converter { try draw(document.picture, to: png, by: converter) }
    if let page { try write(document.page, to: page, document) }
    if document.isIncomplete { throw ExitCode.failure }
    if document.hasLosses { throw ExitCode(3) }
  }

  private var view: ReportView {
    get throws {
      let names = stream.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }.map(
        String.init)
      if names.contains("") { throw ValidationError("--stream: a name is empty") }
      return ReportView(
        from: try from.map { try Self.moment($0, "--from") }, to: try to.map { try Self.moment($0, "--to") },
        streams: names)
    }
  }

  private static func moment(_ text: String, _ option: String) throws -> ReportView.Moment {
    guard let moment = ReportView.Moment(text) else {
      throw ValidationError(
        "\(option): '\(text)' is not a time; give seconds since the start, 90 or 1:30, or "
          + "2026-11-21T06:50:00Z")
    }
    return moment
  }

  /// The path of the page; `nil` if only pictures are written. The default is in the capture's directory, or
  /// beside the log.
  private var page: String? {
    if let output { return output }
    guard svg == nil, png == nil else { return nil }
    let name = path.hasSuffix("/") ? String(path.dropLast()) : path
    return Files.names(in: path).isEmpty ? name + ".html" : name + "/report.html"
  }

  private func write(_ octets: [UInt8], to file: String, _ document: ReportDocument? = nil) throws {
    if file == "-" { return try Console.write(octets) }
    do throws(SystemError) {
      try Files.write(octets.span, to: file, ifExists: overwriting.existing)
    } catch {
      throw Failure("cannot write \(file): \(error); choose another file with --output")
    }
    guard let document else { return try Console.print("\(file)  \(counted(octets.count, "byte"))") }
    try Console.print(
      "\(file)  \(counted(octets.count, "byte")), \(counted(document.sampleCount, "sample")), \(document.missingText)"
    )
  }

  /// The program that converts a picture, and the program's output file.
  private final class Converter {
    let command: ReadingCommand
    var output: NamedOutput

    /// Starts the program before untrusted data is read: the system-call filter installed later forbids
    /// starting programs. Without a picture, the program draws nothing. The program writes to an open file,
    /// so it needs no file name.
    init(into file: String, ifExists existing: Files.Existing) throws {
      do throws(SystemError) { output = try NamedOutput(file, to: .anything, ifExists: existing) } catch {
        throw Failure("cannot write \(file): \(error)")
      }
      let draw = "rsvg-convert --zoom 2 >\(output.pathForChildren())"
      guard
        let command = ReadingCommand("svg=$(cat); [ -z \"$svg\" ] || printf %s \"$svg\" | \(draw)")
      else { throw Failure("cannot start rsvg-convert") }
      self.command = command
    }
  }

  private func draw(_ picture: [UInt8], to file: String, by converter: Converter) throws {
    // If the program is missing, the write fails, and the program's exit status has the reason.
    try? converter.command.write(picture.span)
    guard converter.command.finish() == 0 else {
      throw Failure(
        "rsvg-convert failed to write \(file); install it (Debian: librsvg2-bin), or use --svg")
    }
    do throws(SystemError) { try converter.output.commit() } catch {
      throw Failure("cannot write \(file): \(error)")
    }
    try Console.print(file)
  }
}
