import BLELinux
import Recording

/// Output format of a conversion.
package enum ConversionFormat: String, CaseIterable, Sendable {
  case csv, npy, edf, bdf, wfdb, ndjson, influx

  /// Default output path.
  package func output(of directory: String) -> String {
    // Resolve "." and the like to the real name.
    var name = Substring(directory.hasSuffix(".") ? Files.absolute(directory) ?? directory : directory)
    while name.count > 1, name.hasSuffix("/") { name = name.dropLast() }
    return switch self {
    case .csv, .npy, .wfdb: "\(name)-\(rawValue)"
    case .edf, .bdf, .ndjson: "\(name).\(rawValue)"
    case .influx: "\(name).line"
    }
  }

  /// Whether the output is a folder.
  var isFolder: Bool {
    switch self {
    case .csv, .npy, .wfdb: true
    case .edf, .bdf, .ndjson, .influx: false
    }
  }
}

/// Converts the tables of a capture to other formats. Existing files are never overwritten.
package enum CaptureConversion {
  /// - Parameters:
  ///   - directory: directory of the capture, with tables as text or as arrays.
  ///   - output: a folder or a file, depending on the format; `-` is standard output for line formats.
  ///   - progress: called from time to time.
  package static func run(
    _ directory: String, to format: ConversionFormat, output: String,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) -> ConversionReport {
    let capture = try RecordedCapture(directory)
    // An empty folder lists two names ("." and ".."); a file lists no names.
    let isTaken =
      format.isFolder
      ? Files.names(in: output).count != 2 && Files.isOccupied(output) : Files.isOccupied(output)
    guard !isTaken else { throw .outputExists(output) }
    var report = ConversionReport(format, output)
    report.leftOut = capture.leftOut
    report.ledger = capture.ledger
    report.unknownLoss = capture.unknownLoss
    report.lacksSession = SessionDocument.isMissing(in: directory)
    report.problems += capture.problems
    switch format {
    case .csv: try TableConversion.run(capture, to: output, .csv, &report, progress: progress)
    case .npy: try TableConversion.run(capture, to: output, .npy, &report, progress: progress)
    case .ndjson, .influx: try TableConversion.writeLines(capture, to: output, &report, progress: progress)
    case .edf: try EDFConversion.run(capture, to: output, .edf, &report, progress: progress)
    case .bdf: try EDFConversion.run(capture, to: output, .bdf, &report, progress: progress)
    case .wfdb: try WFDBConversion.run(capture, to: output, &report, progress: progress)
    }
    return report
  }
}
