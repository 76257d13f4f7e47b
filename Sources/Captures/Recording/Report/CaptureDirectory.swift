import BLEHost
package import BLELinux
import BLEWire
import Glibc
import JSONText

/// Folder of one capture, with its `session.json`.
package struct CaptureDirectory: ~Copyable {
  /// Space reserved for `session.json` at the start, in bytes. It allows the file to be completed on a full
  /// disk.
  private static let reservedByteCount = 8192

  private static let fileName = "session.json"

  package let path: String
  private let folder: OpenFolder
  private var session: OutputFile

  /// Checks that the folder contains no capture. Captures are never overwritten. Call this before starting a
  /// stream.
  ///
  /// - Throws: EEXIST if the folder contains a capture.
  static func refuse(_ path: String) throws(HostError) {
    guard !Files.exists(path + "/" + fileName) else {
      throw .system(SystemError(call: "open \(path)/\(fileName)", number: EEXIST))
    }
  }

  /// Creates the folder and a first `session.json`.
  ///
  /// - Throws: EEXIST if the folder contains a capture. Captures are never overwritten.
  package init(creating path: String, _ report: SessionReport) throws(SystemError) {
    try Files.createDirectory(path)
    let folder = try OpenFolder(path)
    var session = try OutputFile(creating: Self.fileName, in: folder, path + "/" + Self.fileName)
    try session.replace(with: Self.text(report, paddedTo: Self.reservedByteCount).span)
    try session.writeOut(.begun)
    self.path = path
    self.folder = folder
    self.session = session
  }

  /// Current path of the folder; `nil` if it was removed.
  var place: String? { folder.place(openedAs: path) }

  /// Completes `session.json`, even if the folder was moved. If the file was removed, it is created again. On
  /// a full disk, it is rewritten in place and may omit its lists of unlimited size, but still contains their
  /// counts.
  package mutating func finish(_ report: SessionReport) throws(SystemError) {
    do throws(SystemError) {
      try session.replace(with: Self.text(report, paddedTo: 0).span, in: folder)
    } catch {
      var short = report
      (short.gaps, short.changes, short.requestsBeforeFirstSample) = ([], [], [])
      try session.replace(with: Self.text(short, paddedTo: 0).span, in: folder)
      throw error
    }
  }

  private static func text(_ report: SessionReport, paddedTo byteCount: Int) -> [UInt8] {
    var line = JSONLine()
    report.encode(into: &line)
    var octets = line.octets
    // White space before the final line feed keeps the JSON valid.
    let missing = max(0, byteCount - octets.count)
    octets.insert(contentsOf: [UInt8](repeating: UInt8(ascii: " "), count: missing), at: octets.count - 1)
    return octets
  }
}
