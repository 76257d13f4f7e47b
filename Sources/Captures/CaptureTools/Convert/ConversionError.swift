package import BLELinux

/// Error that prevents a conversion.
package enum ConversionError: Error, Sendable, CustomStringConvertible {
  /// The directory is not a capture.
  case noCapture(directory: String, why: String)
  case outputExists(String)
  /// The tables have nothing that the format can hold.
  case unsuitable(String)
  case output(SystemError)

  package var description: String {
    switch self {
    case .noCapture(let directory, let why): "\(directory) is not a capture's directory: \(why)"
    case .outputExists(let path): "\(path) already exists; choose another --output"
    case .unsuitable(let why): why
    case .output(let error): "\(error)"
    }
  }
}
