/// What was published of a capture.
public struct PublishReport: Hashable, Sendable {
  public struct Table: Hashable, Sendable {
    public var name: String
    /// Rows that a collector has in files, with earlier runs.
    public var confirmed: Int
    /// Rows that it has not, as far as they are counted.
    public var waiting: Int
  }

  public var publisher: String
  public var session: String
  /// Rows that left, those that left again included.
  public var sent = 0
  public var batches = 0
  /// Rows that the broker acknowledged, with earlier runs.
  public var acknowledged = 0
  /// Rows that a collector has in files, with earlier runs.
  public var confirmed = 0
  public var tables: [Table] = []
  /// Whether `session.json` is too large to be sent.
  public var isDocumentLeftOut = false
  /// Rows that were left out as too many waited.
  public var skipped = 0
  /// How often a table went back to what a collector lacked.
  public var resent = 0
  public var connections = 0
  /// Who told that it has rows; `nil`: nobody did.
  public var collector: String?
  /// Whether a collector has everything in files.
  public var isConfirmed = false
  /// Processor time of the publisher's thread.
  public var processorTime = Duration.zero
  /// Why not everything was published; `nil`: it was.
  public var problem: String?
  /// Whether the problem lies in the capture's own files: another one can be published all the same.
  public var isCapturesFault = false

  /// Rows that no collector has confirmed, as far as they are counted.
  public var waiting: Int { tables.reduce(0) { $0 + $1.waiting } }

  init(publisher: String, session: String) {
    self.publisher = publisher
    self.session = session
  }
}
