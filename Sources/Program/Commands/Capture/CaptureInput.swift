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
    // `Files.names` is empty for a file. For a directory, it has at least the names `.` and `..`.
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
    let hasTables = outcome.captures.contains { capture in
      Files.names(in: capture.directory).contains { $0 == "columns.json" || $0.hasSuffix(".csv") }
    }
    guard hasTables else {
      throw Failure(
        "\(path): the log has answers of a sensor, but none of its samples; `ringtap log show \(path)` lists them"
      )
    }
    let value: Value
    do { value = try body(directory) } catch let failure as Failure {
      // The message names the log, because the temporary directory no longer exists.
      throw Failure(renamed(failure.message, from: directory, to: path))
    }
    if !outcome.problems.isEmpty { throw ExitCode.failure }
    return value
  }

  /// Replaces a path in a text.
  private static func renamed(_ text: String, from old: String, to new: String) -> String {
    let (octets, old) = (Array(text.utf8), Array(old.utf8))
    var result: [UInt8] = []
    var index = 0
    while index < octets.count {
      if octets[index...].starts(with: old) {
        result += Array(new.utf8)
        index += old.count
      } else {
        result.append(octets[index])
        index += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// Returns the path from which output names are derived: a capture's path, or a log's path without its
  /// extension.
  static func base(of path: String) -> String {
    guard Files.names(in: path).isEmpty, let dot = path.lastIndex(of: "."), dot > path.startIndex,
      !path[dot...].contains("/")
    else { return path }
    return String(path[..<dot])
  }
}
