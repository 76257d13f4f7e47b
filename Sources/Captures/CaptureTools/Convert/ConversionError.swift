package import BLELinux

/// Why a capture was not converted.
package enum ConversionError: Error, Sendable, CustomStringConvertible {
  /// The directory is no capture.
  case noCapture(directory: String, why: String)
  case outputExists(String)
  /// The tables have nothing that the format could hold.
  case unsuitable(String)
  case output(SystemError)

  package var description: String {
    switch self {
    case .noCapture(let directory, let why): "\(directory) is not a capture's directory: \(why)"
    case .outputExists(let path): "\(path) is there already; give another --output"
    case .unsuitable(let why): why
    case .output(let error): "\(error)"
    }
  }
}
