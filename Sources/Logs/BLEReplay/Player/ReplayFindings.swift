/// A difference between our host and a log.
public struct ReplayDifference: Hashable, Sendable {
  public enum Kind: String, CaseIterable, Sendable {
    /// The recorded host sent it, but our host does not.
    case missing
    /// Our host sends it, but the log does not contain it.
    case unexpected
    /// Both hosts send a packet for the same purpose, with different bytes.
    case different
    /// Our host waits for controller buffers where the recorded host did not.
    case heldBack
    /// The log has no response to it.
    case unanswered
    /// A response to a request or command that is not in the log.
    case unasked
    /// A packet from the controller or the peer breaks a rule: our host drops it or would close the channel.
    case refused
  }

  public let kind: Kind
  /// Number of the packet in the log; `nil` if the difference is not about a packet of the log.
  public let index: Int?
  /// Packets with their H4 type bytes.
  public let recorded: [UInt8]?
  public let ours: [UInt8]?
  public let why: String?

  package init(kind: Kind, index: Int?, recorded: [UInt8]?, ours: [UInt8]?, why: String?) {
    self.kind = kind
    self.index = index.flatMap { $0 > 0 ? $0 : nil }
    self.recorded = recorded
    self.ours = ours
    self.why = why
  }

  package init(
    _ kind: Kind, _ packet: ReplayPacket? = nil, ours: [UInt8]? = nil, why: String? = nil
  ) {
    self.init(kind: kind, index: packet?.index, recorded: packet?.octets, ours: ours, why: why)
  }
}

/// Result of a replay.
public struct ReplayFindings: Hashable, Sendable {
  /// Maximum number of examples kept of each kind; further differences are only counted.
  public static let exampleLimit = 10

  /// Packets of the log that were delivered or compared.
  public package(set) var played = 0
  /// Packets of the recorded host that our host sent byte for byte.
  public package(set) var reproduced = 0
  /// Packets that our host sent after the end of the log. They do not count as differences.
  public package(set) var afterEnd = 0
  /// Packets of links other than LE, and of types that an LE host does not use.
  public package(set) var notPlayed = 0
  /// Advertising reports.
  public package(set) var reports = 0
  /// Number of differences by kind.
  public private(set) var counts: [ReplayDifference.Kind: Int] = [:]
  public private(set) var examples: [ReplayDifference] = []

  public init() {}

  public var differenceCount: Int { counts.values.reduce(0, +) }

  package mutating func add(_ difference: ReplayDifference) {
    let count = counts[difference.kind, default: 0] + 1
    counts[difference.kind] = count
    if count <= Self.exampleLimit { examples.append(difference) }
  }
}
