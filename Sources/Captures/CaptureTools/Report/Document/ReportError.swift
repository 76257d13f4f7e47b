/// Error that prevents a report.
package enum ReportError: Error, Sendable, CustomStringConvertible {
  /// The directory has no part of a capture.
  case nothing(String, String)
  /// The file cannot be opened, or is not a packet log.
  case unreadable(String)
  /// The task was cancelled.
  case interrupted
  /// No stream has that name; the array lists the existing ones.
  case noStream(String, [String])
  /// The time is outside the recording; the range is the recording's start and end.
  case outside(String, ClosedRange<Int64>)
  /// The stretch ends before it begins, or has no length.
  case noStretch(from: String, to: String)

  package var description: String {
    switch self {
    case .nothing(let directory, let why): "nothing to report in \(directory): \(why)"
    case .unreadable(let why): "\(why); give a capture's directory or a packet log"
    case .interrupted: "interrupted"
    case .noStream(let name, let names):
      names.isEmpty
        ? "no stream '\(name)': the capture has no streams"
        : "no stream '\(name)'; there are \(names.joined(separator: ", "))"
    case .outside(let option, let recording):
      "\(option) is outside the recording, which lasts "
        + "\(ReportText.length(ReportText.difference(recording.lowerBound, recording.upperBound))) from "
        + "\(UTCText(recording.lowerBound).iso) to \(UTCText(recording.upperBound).iso)"
    case .noStretch(let from, let to): "--from \(from) is not before --to \(to)"
    }
  }
}
