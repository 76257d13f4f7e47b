import BLEWire
import JSONText

/// Common format of all messages: a line of JSON, followed by the body.
enum FleetMessage {
  /// Maximum size of the JSON line including its line feed, in bytes.
  static let lineByteCountLimit = 1 << 16

  static func split(
    _ payload: Span<UInt8>, version: Int
  ) throws(Batch.Refusal) -> (document: JSONDocument, body: [UInt8]) {
    var end = 0
    while end < payload.count, payload[end] != UInt8(ascii: "\n") { end += 1 }
    guard end < payload.count, end < lineByteCountLimit else {
      throw Batch.Refusal("the first line has no end within \(lineByteCountLimit) bytes")
    }
    let line = copy(payload.extracting(..<end))
    let document: JSONDocument
    do throws(JSONDocument.Failure) { document = try JSONDocument(line) } catch {
      throw Batch.Refusal("the first line is not JSON")
    }
    guard document["version"]?.integer(Int.self) == version else {
      throw Batch.Refusal("its version is not \(version): both sides need the same ringtap")
    }
    return (document, copy(payload.extracting((end + 1)...)))
  }

  private static func copy(_ span: Span<UInt8>) -> [UInt8] {
    [UInt8](encoding: span.count) { $0.append(span) }
  }
}

/// End of a session: the row counts of each table, and the capture's `session.json`. The publisher sends this
/// message after all rows.
///
/// ```
/// {"version":1,"session":"5f1e…","tables":{"ppg":{"header":"time_ns,…","rows":6000,"from":0}}}
/// {"device":{"address":"70:CB:0D:00:A1:B2",…
/// ```
struct SessionEnd: Hashable, Sendable {
  struct Table: Hashable, Sendable {
    var header: String
    var rows: Int
    var from: Int
  }

  static let tableLimit = Limit(
    64, "tables of a session", by: .broker, whenFull: "the message is refused",
    counted: "`refusals` of `collect`")
  /// Maximum size of the document. The message is then slightly smaller than the maximum packet size that the
  /// collector announces to the broker.
  static let documentByteCountLimit = Limit(
    2_097_152, "bytes of a published `session.json`", by: .broker,
    whenFull: "a publisher omits it",
    counted: "`isDocumentLeftOut` of `publish`")
  private static let version = 1

  var session: String
  var tables: [String: Table]
  /// Contents of `session.json`; empty if the file does not exist.
  var document: [UInt8]

  var octets: [UInt8] {
    var line = JSONLine()
    line.object { line in
      line.member("version", Self.version)
      line.member("session", session)
      line.key("tables")
      line.object { line in
        for (name, table) in tables.sorted(by: { $0.key < $1.key }) {
          line.key(name)
          line.object {
            $0.member("header", table.header)
            $0.member("rows", table.rows)
            $0.member("from", table.from)
          }
        }
      }
    }
    line.endLine()
    return line.octets + document
  }
}

extension SessionEnd {
  init(parsing payload: Span<UInt8>, session: String) throws(Batch.Refusal) {
    guard payload.count <= Self.documentByteCountLimit.count else {
      throw Batch.Refusal("session.json is too large")
    }
    let (line, body) = try FleetMessage.split(payload, version: Self.version)
    guard line["session"]?.text == session, case .object(let members)? = line["tables"],
      members.count <= Self.tableLimit.count
    else { throw Batch.Refusal("the end names another session than its topic, or no tables") }
    var tables: [String: Table] = [:]
    for (name, member) in members {
      guard FleetTopic.isTable(name), let header = member["header"]?.text, Batch.isHeader(header),
        let rows = member["rows"]?.integer(Int.self), let from = member["from"]?.integer(Int.self),
        (0..<Batch.rowLimit).contains(rows), (0...rows).contains(from)
      else { throw Batch.Refusal("the end has an invalid table") }
      tables[name] = Table(header: header, rows: rows, from: from)
    }
    // The body must be valid, because it becomes a file that programs read.
    if !body.isEmpty {
      do throws(JSONDocument.Failure) { _ = try JSONDocument(body) } catch {
        throw Batch.Refusal("session.json is not JSON")
      }
    }
    self.init(session: session, tables: tables, document: body)
  }
}

/// Status of a publisher, retained by the broker.
///
/// `{"version":1,"state":"online","session":"5f1e…","device":"70:CB:0D:00:A1:B2","timeNs":"1700000000000000000",
/// "rows":6000,"acknowledged":5900,"skipped":0}`
struct PublisherStatus: Hashable, Sendable {
  enum State: String, Hashable, Sendable {
    case online
    /// The connection was lost. The broker publishes this status as the last will.
    case offline
    /// The publisher has sent all rows.
    case ended
  }

  private static let version = 1

  var state: State
  var session: String
  var device: String?
  /// Row counts; `nil` in the last will, which is set when the connection starts.
  var counts: Counts?

  struct Counts: Hashable, Sendable {
    var time: ReceiveTime
    var rows: Int
    var acknowledged: Int
    var skipped: Int
  }

  var octets: [UInt8] {
    var line = JSONLine()
    line.object { line in
      line.member("version", Self.version)
      line.member("state", state.rawValue)
      line.member("session", session)
      if let device { line.member("device", device) }
      if let counts {
        line.member("timeNs", counts.time)
        line.member("rows", counts.rows)
        line.member("acknowledged", counts.acknowledged)
        line.member("skipped", counts.skipped)
      }
    }
    line.endLine()
    return line.octets
  }
}

extension PublisherStatus {
  init(parsing payload: Span<UInt8>) throws(Batch.Refusal) {
    let (line, _) = try FleetMessage.split(payload, version: Self.version)
    guard let state = line["state"]?.text.flatMap(State.init(rawValue:)), let session = line["session"]?.text,
      FleetName.isValid(session)
    else { throw Batch.Refusal("the status has no state or session") }
    self.init(state: state, session: session, device: line["device"]?.text)
  }
}

/// A collector's message to a publisher: the number of rows that the collector has of each table, and the
/// tables whose further rows the publisher must resend.
///
/// `{"version":1,"session":"5f1e…","collector":"hospital","tables":{"ppg":5900},"resend":["ppg"],
/// "isComplete":false}`
///
/// A broker that is killed may lose acknowledged messages. The rows are not lost, because they remain in the
/// capture's tables.
struct Receipt: Hashable, Sendable {
  private static let version = 1

  /// Value in `resend` that means all tables. A table cannot have this name.
  static let all = "*"

  var session: String
  var collector: String
  var tables: [String: Int] = [:]
  var resend: [String] = []
  /// Whether all rows announced by the end-of-session message are in files.
  var isComplete = false

  var octets: [UInt8] {
    var line = JSONLine()
    line.object { line in
      line.member("version", Self.version)
      line.member("session", session)
      line.member("collector", collector)
      line.key("tables")
      line.object { line in
        for (name, rows) in tables.sorted(by: { $0.key < $1.key }) { line.member(name, rows) }
      }
      line.key("resend")
      line.array { line in
        for name in resend.sorted() { line.value(name) }
      }
      line.member("isComplete", isComplete)
    }
    line.endLine()
    return line.octets
  }
}

extension Receipt {
  init(parsing payload: Span<UInt8>) throws(Batch.Refusal) {
    let (line, _) = try FleetMessage.split(payload, version: Self.version)
    guard let session = line["session"]?.text, let collector = line["collector"]?.text,
      FleetName.isValid(collector),
      case .object(let members)? = line["tables"], members.count <= SessionEnd.tableLimit.count
    else { throw Batch.Refusal("not a receipt") }
    var tables: [String: Int] = [:]
    for (name, member) in members {
      guard let rows = member.integer(Int.self), (0..<Batch.rowLimit).contains(rows) else {
        throw Batch.Refusal("a receipt with an invalid number")
      }
      tables[name] = rows
    }
    self.init(
      session: session, collector: collector, tables: tables,
      resend: (line["resend"]?.array ?? []).compactMap(\.text), isComplete: line["isComplete"]?.flag ?? false)
  }
}
