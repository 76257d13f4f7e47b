import ArgumentParser
import BLELinux
import BLEPacketLog
import CaptureTools
import CommandKit

/// A capture's directory, or a packet log imported into a temporary directory.
enum CaptureInput {
  /// Passes the directory to `body`. Afterwards removes the temporary directory of an imported log.
  ///
  /// - Parameter keys: keys for encrypted links in an air log.
  static func withDirectory<Value>(
    of path: String, keys: [AirKey], _ body: (String) throws -> Value
  ) throws -> Value {
    // For a file, `Files.names` is empty. A directory has at least the names `.` and `..`.
    guard Files.names(in: path).isEmpty, Files.exists(path) else { return try body(path) }
    let folder = try failing { () throws(SystemError) in try Files.temporaryDirectory("ringtap-import") }
    defer { try? Files.removeTree(folder) }
    let directory = folder + "/" + CaptureGroup.name(base(of: path))
    let outcome = try failing { () throws(LogImport.Failure) in
      var importing = LogImport(path, into: directory)
      importing.keys = keys
      return try importing.run { Console.progress($0) }
    }
    if Console.isErrorTerminal { Console.progress("") }
    for text in outcome.remarks + outcome.problems { Console.note(text) }
    let value = try body(directory)
    if !outcome.problems.isEmpty { throw ExitCode.failure }
    return value
  }

  /// The path from which output names are derived: a capture's path, or a log's path without its extension.
  static func base(of path: String) -> String {
    guard Files.names(in: path).isEmpty, let dot = path.lastIndex(of: "."), dot > path.startIndex,
      !path[dot...].contains("/")
    else { return path }
    return String(path[..<dot])
  }
}
