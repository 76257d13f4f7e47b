package import BLELinux

/// Error that prevents a conversion.
package enum ConversionError: Error, Sendable, CustomStringConvertible {
  /// The directory is not a capture.
  case noCapture(directory: String, why: String)
  /// Tables of format 1.
  ///
  /// - Parameter log: path of the capture's packet log; `nil` if there is none.
  case oldFormat(directory: String, tables: [String], log: String?)
  case outputExists(String)
  /// The tables have nothing that the format can hold.
  case unsuitable(String)
  case output(SystemError)

  package var description: String {
    switch self {
    case .noCapture(let directory, let why): "\(directory) is not a capture's directory: \(why)"
    case .oldFormat(let directory, let tables, let log):
      "\(directory) has tables of format 1 (\(tables.joined(separator: ", "))), which no release wrote and this version cannot read; "
        + (log.map { "create new ones from its packet log: ringtap import \($0) --output NEW" }
          ?? "import its packet log again, or build ringtap from commit a430ec80, the last that reads them")
    case .outputExists(let path): "\(path) already exists; choose another --output"
    case .unsuitable(let why): why
    case .output(let error): "\(error)"
    }
  }
}
