package import JSONText

/// Result of a collection.
public struct CollectReport: Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Rows in the file.
    public var rows: Int
    /// Rows written by this run.
    public var received: Int
    /// Rows that were received again and dropped.
    public var duplicated: Int
    /// Rows that are known to exist and are not in the file.
    public var missing: Int
    /// Number of times that the publisher was asked to resend rows.
    public var requests: Int
  }

  public struct Session: Hashable, Sendable {
    public var publisher: String
    public var session: String
    /// `online`, `offline`, `ended` or `unknown`.
    public var state: String
    /// Whether all rows that the publisher had were collected.
    public var isComplete: Bool
    public var tables: [Table] = []

    public var rows: Int { tables.reduce(0) { $0 + $1.rows } }
    public var received: Int { tables.reduce(0) { $0 + $1.received } }
    public var duplicated: Int { tables.reduce(0) { $0 + $1.duplicated } }
    public var missing: Int { tables.reduce(0) { $0 + $1.missing } }
  }

  /// Sessions still in memory. The totals below include the others.
  public var sessions: [Session] = []
  public var received: Int
  public var duplicated: Int
  /// Number of times that a session was set aside to make room for others. Its files remain.
  public var setAside: Int
  /// Rows missing from sessions when they were set aside.
  public var setAsideMissing: Int
  /// Rejected messages: invalid ones, and those of a publisher that exceeded its share.
  package var refusals: Refusals
  public var connections = 0

  public var refused: Int { refusals.count }
  public var missing: Int { sessions.reduce(setAsideMissing) { $0 + $1.missing } }

  init(received: Int, duplicated: Int, setAside: Int, setAsideMissing: Int, refusals: Refusals) {
    (self.received, self.duplicated) = (received, duplicated)
    (self.setAside, self.setAsideMissing) = (setAside, setAsideMissing)
    self.refusals = refusals
  }

  /// Encodes the report as one JSON object with a line end.
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
