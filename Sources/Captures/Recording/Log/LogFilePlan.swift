public import BLEHost
public import BLELinux
import BLEPacketLog

/// File formats of a packet log that is being written.
public enum CaptureLogFormat: String, CaseIterable, Sendable {
  /// Timestamps in microseconds; readable by most programs. Each record contains the cumulative drop count.
  case btsnoop
  /// Timestamps in nanoseconds, as in the tables. Each adapter has its own interface and drop count.
  case pcapng

  public var fileName: String { "packets.\(rawValue)" }

  /// Selects the format of an HCI log by its file extension.
  init(path: String) { self = path.hasSuffix(".pcapng") ? .pcapng : .btsnoop }

  /// Name of the format in messages about a monitor's log.
  var name: StaticString {
    switch self {
    case .btsnoop: "btsnoop log of the monitor (2001)"
    case .pcapng: "pcapng file"
    }
  }
}

/// Path, format and rotation of a log.
public struct LogFilePlan: Hashable, Sendable {
  /// Action if the log already exists.
  public enum Existing: Hashable, Sendable { case fail, append }

  /// Path of the log; `-` is standard output.
  public var path: String
  public var format = CaptureLogFormat.btsnoop
  public var existing = Existing.fail
  /// Maximum size of a file, in bytes. Only a file with a single record can be larger.
  public var rotateByteCount: Int?
  /// Maximum duration of one file.
  public var rotateTime: Duration?
  /// Maximum number of records in one file.
  public var rotateCount: Int?
  /// Number of files to keep. The oldest files are deleted.
  public var keptFiles: Int?
  /// Kind of records in the log's queue.
  var records = LogRecords.monitor

  public init(path: String) { self.path = path }

  /// Whether the log is split into PATH.1, PATH.2 and so on, newest last. If not, it is the single file PATH.
  public var isSeries: Bool { rotateByteCount != nil || rotateTime != nil || rotateCount != nil }

  public func path(_ number: Int) -> String { isSeries ? "\(path).\(number)" : path }

  /// Returns the numbers of the existing files of the series, in order.
  func numbersThere() -> [Int] {
    let prefix = Files.name(of: path) + "."
    return Files.names(in: Files.folder(of: path)).compactMap { name in
      guard name.hasPrefix(prefix), let number = Int(name.dropFirst(prefix.count)), number > 0,
        "\(number)" == name.dropFirst(prefix.count)
      else { return nil }
      return number
    }.sorted()
  }
}

/// Error that prevents recording a log. Its description states the cause and the remedy.
public enum LogFileError: Error, Hashable, Sendable {
  /// The file already exists. Recordings are never overwritten.
  case exists(String)
  /// The file to append to has another format.
  case foreign(String, CaptureLogFormat)
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
