import BLELinux
import FoundationEssentials
import JSONText
package import Recording

/// A packet log that another ringtap process is writing, as described by its announcement file.
package struct AnnouncedLog {
  private struct Word: Decodable {
    var pid: Int
    var log: String
    var adapter: String
    var mode: String
    var device: String?
    var deviceName: String?
  }

  /// The process ID and the log's number within that process, such as `1234-1`.
  package let name: String
  package let processID: Int
  package let log: RunningLog
  /// Description of the device and adapter whose packets the log contains.
  package let text: String

  private init?(_ path: String) {
    guard let watch = try? LockWatch(path), watch.isHeld, let text = Files.text(at: path),
      let word = try? JSONDecoder().decode(Word.self, from: Data(text.utf8))
    else { return nil }
    name = URL(filePath: path).deletingPathExtension().lastPathComponent
    processID = word.pid
    log = RunningLog(path: word.log, word: path)
    let whose = [word.deviceName, word.device].compactMap { $0?.printable }
    self.text =
      whose.joined(separator: " ") + (whose.isEmpty ? "" : " on ")
      + "\(word.adapter.printable) (\(word.mode))"
  }

  /// Returns all logs that are being written, sorted by name.
  package static func all() -> [AnnouncedLog] {
    RuntimeFolder.all.flatMap { folder in
      Files.names(in: folder).filter { $0.hasSuffix(".json") }.sorted()
        .compactMap { AnnouncedLog(folder + "/" + $0) }
    }
  }

  /// Returns the log that matches the user's text: a process ID, a log name such as `1234-1`, a capture
  /// directory or a path.
  package static func find(_ text: String) throws -> AnnouncedLog {
    let all = all()
    let below =
      Files.absolute(text).map { path in
        all.filter { $0.log.path == path || $0.log.path.hasPrefix(path + "/") }
      } ?? []
    let found = below.isEmpty ? all.filter { Int(text) == $0.processID || text == $0.name } : below
    if found.count == 1 { return found[0] }
    guard found.isEmpty else {
      throw Failure("\(text) has several logs; choose one of them: \(paths(found))")
    }
    throw Failure(
      all.isEmpty
        ? "no capture is running; `ringtap log convert` copies a finished log"
        : "\(text) is not a running capture; these are running: \(paths(all))")
  }

  private static func paths(_ logs: [AnnouncedLog]) -> String {
    logs.map(\.log.path).joined(separator: ", ")
  }
}
