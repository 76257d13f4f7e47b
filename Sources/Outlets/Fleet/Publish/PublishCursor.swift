import BLELinux
import JSONText

/// Progress of publishing a capture, stored as `publish.json` in its directory.
///
/// `{"version":1,"session":"5f1e…","publisher":"ward-3-70-CB-0D-00-A1-B2","tables":{"ppg":{"rows":5900,"octets":230100,
/// "skipped":0,"from":0}},"isComplete":false}`
package struct PublishCursor: Hashable, Sendable {
  static let fileName = "publish.json"
  private static let version = 1
  private static let byteCountLimit = 1 << 16

  struct Table: Hashable, Sendable {
    /// Number of rows that a collector has confirmed or the publisher has skipped.
    var rows: Int
    /// Offset of the next row in the file, in bytes.
    var octets: Int
    /// Number of rows that were skipped because the backlog was too large.
    var skipped = 0
    /// Number of the first row that can still be sent.
    var from = 0
  }

  /// Globally unique name of this capture: 128 random bits in hexadecimal.
  var session: String
  var publisher: String
  var tables: [String: Table] = [:]
  /// Whether publishing has finished after the end of the capture.
  package var isComplete = false

  static func newSession() -> String {
    var session = ""
    for _ in 0..<2 {
      let digits = String(UInt64.random(in: .min ... .max), radix: 16)
      session += String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
    return session
  }

  var octets: [UInt8] {
    var line = JSONLine()
    line.object { line in
      line.member("version", Self.version)
      line.member("session", session)
      line.member("publisher", publisher)
      line.key("tables")
      line.object { line in
        for (name, table) in tables.sorted(by: { $0.key < $1.key }) {
          line.key(name)
          line.object {
            $0.member("rows", table.rows)
            $0.member("octets", table.octets)
            $0.member("skipped", table.skipped)
            $0.member("from", table.from)
          }
        }
      }
      line.member("isComplete", isComplete)
    }
    line.endLine()
    return line.octets
  }

  func write(in directory: String) throws(SystemError) {
    let octets = octets
    try Files.replace(directory + "/" + Self.fileName, with: octets.span)
  }

  /// Reads the progress of a capture.
  ///
  /// - Returns: `nil` if nothing has been published yet.
  /// - Throws: `damaged` if the file is invalid.
  package static func read(in directory: String) throws(PublishProblem) -> PublishCursor? {
    let path = directory + "/" + fileName
    guard Files.exists(path) else { return nil }
    let octets: [UInt8]
    do throws(SystemError) { octets = try Files.octets(of: path, limit: byteCountLimit) } catch {
      throw .system(error)
    }
    guard let cursor = try? PublishCursor(parsing: octets) else { throw .damaged(path) }
    return cursor
  }
}

extension PublishCursor {
  init(parsing octets: [UInt8]) throws(Batch.Refusal) {
    guard let document = try? JSONDocument(octets), document["version"]?.integer(Int.self) == Self.version,
      let session = document["session"]?.text, FleetName.isValid(session),
      let publisher = document["publisher"]?.text, FleetName.isValid(publisher),
      case .object(let members)? = document["tables"]
    else { throw Batch.Refusal("not a cursor") }
    self.init(session: session, publisher: publisher, isComplete: document["isComplete"]?.flag ?? false)
    for (name, member) in members {
      let numbers = ["rows", "octets", "skipped", "from"].map { member[$0]?.integer(Int.self) ?? -1 }
      guard FleetName.isValid(name), numbers.allSatisfy({ (0..<Batch.rowLimit).contains($0) }) else {
        throw Batch.Refusal("not a cursor")
      }
      tables[name] = Table(rows: numbers[0], octets: numbers[1], skipped: numbers[2], from: numbers[3])
    }
  }
}
