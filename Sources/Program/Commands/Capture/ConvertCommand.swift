import ArgumentParser
import CaptureTools
import CommandKit
import JSONText
import Recording

/// `ringtap convert DIR --to FORMAT`: a capture for other programs.
struct ConvertCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "convert",
    abstract: "Convert a capture to arrays, text, EDF or WFDB.",
    discussion: """
      Reads the tables of a capture's directory, of csv or npy, or of a packet log as `ringtap import` makes them, and writes:
        csv      a directory of text tables, as a capture writes them, octet for octet
        npy      a directory of NumPy arrays, one for each column, and columns.json
        ndjson   a JSON object a line: the table and the columns by their names
        influx   InfluxDB's line protocol, for VictoriaMetrics, Telegraf and others too
        edf      EDF+ (16 bits) by EDFlib: signals on the sensor's clock, annotations
        bdf      BDF+ (24 bits), likewise
        wfdb     a WFDB record in a directory, for PhysioNet's tools

      Signals come of samples.csv, or of a raw stream of a Polar sensor, and bear the names of its columns. What did not \
      arrive, and what a ring sent without a reading (a dropout), is missing (NaN) in WFDB; EDF+ and BDF+ know no such thing, \
      and have the signal's lowest digital value there, which nothing else has, and an annotation. Values that 16 bits do not hold are rounded in EDF+, and \
      the report says to what; BDF+ holds 24 bits. Times are UTC. Nothing is said of the person.

      EXAMPLES
        ringtap convert walk --to edf
            writes walk.edf
        ringtap convert walk --to npy --output arrays
            numpy.load("arrays/ppg/ppg_counts.npy", mmap_mode="r")
        ringtap convert walk --to ndjson --output - | head
        ringtap convert walk --to influx -o - \\
          | curl --data-binary @- 'localhost:8428/write?precision=ns'
            into a VictoriaMetrics; 'localhost:8086/api/v2/write?org=lab&bucket=walks'
            and a token for an InfluxDB
        ringtap convert walk --to bdf --json | jq .signals
        ringtap convert ride --grid 50 --to csv
            of several devices that were recorded at once: one table, on one clock,
            after `ringtap align ride`

      Nothing that is there is overwritten. A table that is broken is converted up to there, told on standard error, and \
      the exit status is 1. It is 3 if something of the capture is known to be lost.
      """)

  enum Format: String, CaseIterable, ExpressibleByArgument {
    case csv, npy, edf, bdf, wfdb, ndjson, influx

    var format: ConversionFormat {
      switch self {
      case .csv: .csv
      case .npy: .npy
      case .edf: .edf
      case .bdf: .bdf
      case .wfdb: .wfdb
      case .ndjson: .ndjson
      case .influx: .influx
      }
    }
  }

  @Argument(help: ArgumentHelp("A capture's directory, or a packet log.", valueName: "path"))
  var path: String

  @Option(help: ArgumentHelp("csv, npy, edf, bdf, wfdb, ndjson or influx.", valueName: "format"))
  var to: Format

  @Option(
    name: [.short, .long],
    help: ArgumentHelp("Where to write; beside the capture if not given.", valueName: "path"))
  var output: String?

  @Option(
    help: ArgumentHelp(
      "Put the signals of all devices of a directory on one grid of so many rows a second, by what `ringtap align` found: csv, npy.",
      valueName: "rate"), in: NumberRange(GridConversion.rates, "rows a second"))
  var grid: Double?

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws {
    if grid != nil, tableFormat == nil { throw ValidationError("--grid goes with --to csv or npy") }
    guard output == "-" else { return }
    if to != .ndjson, to != .influx { throw ValidationError("only ndjson and influx go to standard output") }
    if json { throw ValidationError("--json would stand among the lines of --output -") }
  }

  func run() throws { try CaptureInput.withDirectory(of: path, keys: air.keys) { try convert($0) } }

  private var tableFormat: TableFormat? { TableFormat(rawValue: to.rawValue) }

  private func convert(_ directory: String) throws {
    let format = to.format
    let path = output ?? format.output(of: CaptureInput.base(of: path))
    let report: ConversionReport
    func tell(_ progress: ConversionProgress) { Console.progress("\(progress.what): \(progress.rows) rows") }
    do throws(ConversionError) {
      if let grid, let tableFormat {
        report = try GridConversion.run(directory, rate: grid, to: tableFormat, output: path, progress: tell)
      } else {
        report = try CaptureConversion.run(directory, to: format, output: path, progress: tell)
      }
    } catch {
      if case .output(let error) = error, path == "-" { throw Console.WriteError(error) }
      throw Failure(error)
    }
    if Console.isErrorTerminal { Console.progress("") }
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try Console.write(line.octets)
    } else if path != "-" {
      try Console.print(text(report))
    }
    for note in report.leftOut + report.problems { Console.note(note) }
    if let text = PayloadKnowledge(try? SessionDocument.read(in: directory)).text { Console.note(text) }
    if !report.problems.isEmpty || report.lacksSession { throw ExitCode.failure }
    try CaptureText.end(lost: report.ledger?.loss.total ?? 0)
  }

  private func text(_ report: ConversionReport) -> String {
    var lines = ["\(report.output)  \(report.tables.map { "\($0.rows) \($0.name)" }.joined(separator: ", "))"]
    for stream in report.streams {
      var missing =
        stream.gaps == 0
        ? "nothing missing" : "missing at \(stream.gaps) \(stream.gaps == 1 ? "place" : "places")"
      if stream.dropouts > 0 { missing += ", \(stream.dropouts) dropouts" }
      if let value = report.missing, stream.gaps + stream.dropouts > 0 { missing += ": \(value)" }
      let name = report.streams.count == 1 ? "" : "\(stream.table): "
      lines.append(
        "  \(name)\(stream.signals) \(stream.signals == 1 ? "signal" : "signals") of \(stream.samples) samples at "
          + "\(NumberText.fixed(stream.rate, 4)) Hz; \(missing)")
    }
    for signal in report.signals where !signal.isExact {
      lines.append(
        "  \(signal.label) is rounded to \(signal.resolution) \(signal.unit): bdf holds more bits")
    }
    lines += (report.ledger?.lines ?? []).map { "  " + $0 }
    if let why = report.unknownLoss { lines.append("  what was lost is not known: \(why)") }
    return lines.joined(separator: "\n")
  }
}
