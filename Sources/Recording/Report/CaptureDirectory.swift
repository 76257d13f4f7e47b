import BLECore
import BLEHost
import BLELinux
import Glibc
import JSONText

/// The folder of one capture and its `session.json`.
struct CaptureDirectory: ~Copyable {
  /// Room that `session.json` takes from the start, so that it can be completed on a full disk.
  private static let reservedByteCount = 8192

  let path: String
  private var session: OutputFile

  /// Nothing recorded is ever overwritten: asked before a stream is started for nothing.
  ///
  /// - Throws: EEXIST where a capture is there already.
  static func refuse(_ path: String) throws(HostError) {
    guard !Files.exists(path + "/session.json") else {
      throw .system(SystemError(call: "open \(path)/session.json", number: EEXIST))
    }
  }

  /// Makes the folder and a first `session.json`.
  ///
  /// - Throws: EEXIST where a capture is there already: nothing recorded is ever overwritten.
  init(creating path: String, _ report: SessionReport) throws(SystemError) {
    try Files.createDirectory(path)
    var session = try OutputFile(creating: path + "/session.json", ifExists: .fail)
    try session.replace(with: Self.text(report, paddedTo: Self.reservedByteCount).span)
    self.path = path
    self.session = session
  }

  /// Completes `session.json` in place. On a full disk it may be without its lists, which have no limit: their counts are
  /// there.
  mutating func finish(_ report: SessionReport) throws(SystemError) {
    do throws(SystemError) { try session.replace(with: Self.text(report, paddedTo: 0).span) } catch {
      var short = report
      (short.gaps, short.changes, short.requestsBeforeFirstSample) = ([], [], [])
      try session.replace(with: Self.text(short, paddedTo: 0).span)
      throw error
    }
  }

  private static func text(_ report: SessionReport, paddedTo byteCount: Int) -> [UInt8] {
    var line = JSONLine()
    report.encode(into: &line)
    var octets = line.octets
    // White space before the final line feed leaves it valid JSON.
    let missing = max(0, byteCount - octets.count)
    octets.insert(contentsOf: [UInt8](repeating: UInt8(ascii: " "), count: missing), at: octets.count - 1)
    return octets
  }
}
