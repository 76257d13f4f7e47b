import CaptureTables

/// Why there is no report.
package enum ReportError: Error, Sendable, CustomStringConvertible {
  /// The directory has nothing of a capture.
  case nothing(String, String)
  /// The file cannot be opened, or is no packet log.
  case unreadable(String)

  package var description: String {
    switch self {
    case .nothing(let directory, let why): "nothing to report in \(directory): \(why)"
    case .unreadable(let why): "\(why); give a capture's directory or a packet log"
    }
  }
}
