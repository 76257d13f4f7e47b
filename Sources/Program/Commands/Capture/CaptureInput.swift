import ArgumentParser
import BLELinux
import BLEPacketLog
import CaptureTools
import CommandKit

/// A capture's directory, or a packet log that becomes one for as long as it is needed.
enum CaptureInput {
  /// Lends the directory. One that a log was imported into is removed afterwards.
  ///
  /// - Parameter keys: of encrypted links in a log from the air.
  static func withDirectory<Value>(
    of path: String, keys: [AirKey], _ body: (String) throws -> Value
  ) throws -> Value {
    // A folder has two names at least, a file none.
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

  /// Where something that is made of it is put: a capture's path, a log's without the end of its name.
  static func base(of path: String) -> String {
    guard Files.names(in: path).isEmpty, let dot = path.lastIndex(of: "."), dot > path.startIndex,
      !path[dot...].contains("/")
    else { return path }
    return String(path[..<dot])
  }
}
