/// Result of publishing a capture.
public struct PublishReport: Hashable, Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Rows that a collector has in files, including earlier runs.
    public var confirmed: Int
    /// Rows that the collector does not have, as far as they are counted.
    public var waiting: Int
  }

  public var publisher: String
  public var session: String
  /// Rows sent, including resent ones.
  public var sent = 0
  public var batches = 0
  /// Rows that the broker acknowledged, including earlier runs.
  public var acknowledged = 0
  /// Rows that a collector has in files, including earlier runs.
  public var confirmed = 0
  public var tables: [Table] = []
  /// Whether `session.json` was too large to send.
  public var isDocumentLeftOut = false
  /// Rows that were skipped because the backlog was too large.
  public var skipped = 0
  /// Number of times that a table was resent from an earlier row because a collector lacked rows.
  public var resent = 0
  public var connections = 0
  /// The collector that confirmed rows; `nil` if none did.
  public var collector: String?
  /// Whether a collector has everything in files.
  public var isConfirmed = false
  /// CPU time of the publisher's thread.
  public var processorTime = Duration.zero
  /// Reason why not everything was published; `nil` if everything was.
  public var problem: String?
  /// Whether the problem is in the capture's own files, so that other captures can still be published.
  public var isCapturesFault = false

  /// Rows that no collector has confirmed, as far as they are counted.
  public var waiting: Int { tables.reduce(0) { $0 + $1.waiting } }

  init(publisher: String, session: String) {
    self.publisher = publisher
    self.session = session
  }
}
