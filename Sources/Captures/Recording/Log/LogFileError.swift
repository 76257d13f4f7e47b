public import BLEHost
public import BLELinux

/// An error that prevents recording a log. Its description has the cause and what to do.
public enum LogFileError: Error, Hashable, Sendable {
  /// The file exists already; recordings are never overwritten.
  case exists(String)
  /// The file to append to has another format.
  case foreign(String, LogFilePlan.Format)
  /// The file to append to is damaged before its end.
  case damaged(String, offset: Int)
  case host(HostError)
  case system(SystemError)
}

extension LogFileError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .exists(let path): "\(path) already exists; choose another name, or continue it with --append"
    case .foreign(let path, let format): "\(path) is not a \(format.name), so it cannot be continued as one"
    case .damaged(let path, let offset):
      "\(path) is damaged at byte \(offset), not only truncated at its end; record into another file"
    case .host(let error): "\(error)"
    case .system(let error): "\(error)"
    }
  }
}
