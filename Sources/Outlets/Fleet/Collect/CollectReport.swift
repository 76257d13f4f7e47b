package import JSONText

/// Result of a collection.
public struct CollectReport: Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Number of rows in the file.
    public var rows: Int
    /// Number of rows written by this run.
    public var received: Int
    /// Number of rows that were received again and dropped.
    public var duplicated: Int
    /// Number of rows that are known to exist but are not in the file.
    public var missing: Int
    /// Number of requests to the publisher to resend rows.
    public var requests: Int
  }

  public struct Session: Hashable, Sendable {
    public var publisher: String
    public var session: String
    /// `online`, `offline`, `ended` or `unknown`.
    public var state: String
    /// Whether all rows that the publisher had have been collected.
    public var isComplete: Bool
    public var tables: [Table] = []

    public var rows: Int { tables.reduce(0) { $0 + $1.rows } }
    public var received: Int { tables.reduce(0) { $0 + $1.received } }
    public var duplicated: Int { tables.reduce(0) { $0 + $1.duplicated } }
    public var missing: Int { tables.reduce(0) { $0 + $1.missing } }
  }

  /// Sessions that are still in memory. The following totals include all other sessions.
  public var sessions: [Session] = []
  public var received: Int
  public var duplicated: Int
  /// Number of times that a session was set aside: removed from memory to make room for others. Its files
  /// remain.
  public var setAside: Int
  /// Number of rows that were missing from sessions when these were set aside.
  public var setAsideMissing: Int
  /// Rejected messages: invalid messages, and messages of a publisher that exceeded its share.
  package var refusals: Refusals
  public var connections = 0

  public var refused: Int { refusals.count }
  public var missing: Int { sessions.reduce(setAsideMissing) { $0 + $1.missing } }

  init(received: Int, duplicated: Int, setAside: Int, setAsideMissing: Int, refusals: Refusals) {
    (self.received, self.duplicated) = (received, duplicated)
    (self.setAside, self.setAsideMissing) = (setAside, setAsideMissing)
    self.refusals = refusals
  }

  /// Encodes the report as one JSON object with a line feed.
  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("received", received)
      line.member("duplicated", duplicated)
      line.member("missing", missing)
      line.member("refused", refused)
      if let last = refusals.last { line.member("lastRefusal", last) }
      line.key("refusals")
      line.array { line in
        for entry in refusals.entries { Self.encode(entry, into: &line) }
      }
      line.member("refusalsForgotten", refusals.forgotten)
      line.member("setAside", setAside)
      line.member("connections", connections)
      line.key("sessions")
      line.array { line in
        for session in sessions { Self.encode(session, into: &line) }
      }
    }
    line.endLine()
  }

  private static func encode(_ entry: Refusals.Entry, into line: inout JSONLine) {
    line.object { line in
      if let publisher = entry.publisher { line.member("publisher", publisher) }
      line.member("reason", entry.reason.rawValue)
      line.member("count", entry.count)
      line.member("last", entry.last)
    }
  }

  private static func encode(_ session: Session, into line: inout JSONLine) {
    line.object { line in
      line.member("publisher", session.publisher)
      line.member("session", session.session)
      line.member("state", session.state)
      line.member("isComplete", session.isComplete)
      line.key("tables")
      line.array { line in
        for table in session.tables {
          line.object {
            $0.member("name", table.name)
            $0.member("rows", table.rows)
            $0.member("received", table.received)
            $0.member("duplicated", table.duplicated)
            $0.member("missing", table.missing)
            $0.member("requests", table.requests)
          }
        }
      }
    }
  }
}
