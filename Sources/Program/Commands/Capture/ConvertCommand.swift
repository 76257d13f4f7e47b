import ArgumentParser
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording

/// `ringtap convert DIR --to FORMAT`: converts a capture for other programs.
struct ConvertCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "convert",
    abstract: "Convert a capture to arrays, text, EDF or WFDB.",
    discussion: """
      Reads the tables of a capture's directory, csv or npy, or a packet log as `ringtap import` does, and writes:
        csv      a directory of text tables, byte for byte as a capture writes them
        npy      a directory of NumPy arrays, one per column, and columns.json
        ndjson   a JSON object per line: the table, and the columns by name
        influx   InfluxDB's line protocol, also for VictoriaMetrics and Telegraf
        edf      EDF+ (16 bits) by EDFlib: signals on the sensor's clock, annotations
        bdf      BDF+ (24 bits), likewise
        wfdb     a WFDB record in a directory, for PhysioNet's tools

      Signals are taken from samples.csv, or from a Polar sensor's raw stream, and keep its column names. \
      Samples that did not arrive, and samples without a reading (a ring's dropouts), are NaN in WFDB. EDF+ \
      and BDF+ have no missing values: they get the signal's lowest digital value, which has no other use, \
      and an annotation. In EDF+, values that need more than 16 bits are rounded, and the report gives the \
      precision; BDF+ holds 24 bits. Times are UTC. The file contains no personal data.

      EXAMPLES
        ringtap convert walk --to edf
            writes walk.edf
        ringtap convert walk --to npy --output arrays
            numpy.load("arrays/ppg/ppg_counts.npy", mmap_mode="r")
        ringtap convert walk --to ndjson --output - | head
        ringtap convert walk --to influx -o - \\
          | curl --data-binary @- 'localhost:8428/write?precision=ns'
            into VictoriaMetrics; for InfluxDB, to a URL such as
            'localhost:8086/api/v2/write?org=lab&bucket=walks', with a token
        ringtap convert walk --to bdf --json | jq .signals
        ringtap convert ride --grid 50 --to csv
            several devices that were recorded together: one table on one clock,
            after `ringtap align ride`

      Existing files are never overwritten. A damaged table is converted up to the damage and reported on \
      standard error, and the exit status is 1. It is 3 if part of the capture is known to be lost.
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

  @Option(help: ArgumentHelp("The format: csv, npy, edf, bdf, wfdb, ndjson or influx.", valueName: "format"))
  var to: Format

  @Option(
    name: [.short, .long],
    help: ArgumentHelp("The file or directory to write (default: beside the capture).", valueName: "path"))
  var output: String?

  @Option(
    help: ArgumentHelp(
      "After `ringtap align`: resample all devices of a directory to this many rows per second; csv or npy.",
      valueName: "rate"), in: NumberRange(GridConversion.rates, "rows a second"))
  var grid: Double?

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws {
    if grid != nil, tableFormat == nil { throw ValidationError("--grid needs --to csv or npy") }
    guard output == "-" else { return }
    if to != .ndjson, to != .influx {
      throw ValidationError("only ndjson and influx can be written to standard output")
    }
    if json {
      throw ValidationError("--json cannot be combined with --output -: both write to standard output")
    }
  }

  func run() throws { try CaptureInput.withDirectory(of: path, keys: air.keys) { try convert($0) } }

  private var tableFormat: TableFormat? { TableFormat(rawValue: to.rawValue) }

  private func convert(_ directory: String) throws {
    let format = to.format
    let path = output ?? format.output(of: CaptureInput.base(of: path))
    let report: ConversionReport
    func tell(_ progress: ConversionProgress) {
      Console.progress("\(progress.what): \(counted(progress.rows, "row"))")
    }
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
      if stream.dropouts > 0 { missing += ", \(counted(stream.dropouts, "dropout"))" }
      if let value = report.missing, stream.gaps + stream.dropouts > 0 { missing += ": \(value)" }
      let name = report.streams.count == 1 ? "" : "\(stream.table): "
      lines.append(
        "  \(name)\(counted(stream.signals, "signal")) of \(counted(stream.samples, "sample")) at "
          + "\(NumberText.fixed(stream.rate, 4)) Hz; \(missing)")
    }
    for signal in report.signals where !signal.isExact {
      lines.append(
        "  \(signal.label) is rounded to \(signal.resolution) \(signal.unit): bdf has more bits")
    }
    lines += (report.ledger?.lines ?? []).map { "  " + $0 }
    if let why = report.unknownLoss { lines.append("  losses not known: \(why)") }
    return lines.joined(separator: "\n")
  }
}
