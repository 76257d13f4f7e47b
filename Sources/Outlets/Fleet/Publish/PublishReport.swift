/// Result of publishing a capture.
public struct PublishReport: Hashable, Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Number of rows that a collector has in files, including those of earlier runs.
    public var confirmed: Int
    /// Number of rows that no collector has confirmed, as far as they have been counted.
    public var waiting: Int
  }

  public var publisher: String
  public var session: String
  /// Number of rows sent, including resent rows.
  public var sent = 0
  public var batches = 0
  /// Number of rows that the broker has acknowledged, including those of earlier runs.
  public var acknowledged = 0
  /// Number of rows that a collector has in files, including those of earlier runs.
  public var confirmed = 0
  public var tables: [Table] = []
  /// Whether `session.json` was too large to send.
  public var isDocumentLeftOut = false
  /// Number of rows that were skipped because the backlog was too large.
  public var skipped = 0
  /// Number of times that a table was resent from an earlier row, because a collector was missing rows.
  public var resent = 0
  public var connections = 0
  /// Name of the collector that confirmed rows; `nil` if none did.
  public var collector: String?
  /// Whether a collector has everything in files.
  public var isConfirmed = false
  /// CPU time of the publisher's thread.
  public var processorTime = Duration.zero
  /// Why some rows were not published; `nil` if everything was published.
  public var problem: String?
  /// Whether the problem is in this capture's files, so that other captures can still be published.
  public var isCapturesFault = false

  /// Number of rows that no collector has confirmed, as far as they have been counted.
  public var waiting: Int { tables.reduce(0) { $0 + $1.waiting } }

  init(publisher: String, session: String) {
    self.publisher = publisher
    self.session = session
  }
}
