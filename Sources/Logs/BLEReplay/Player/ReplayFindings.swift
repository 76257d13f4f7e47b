/// A difference between ringtap's host and a log.
public struct ReplayDifference: Hashable, Sendable {
  public enum Kind: String, CaseIterable, Sendable {
    /// A packet that the recorded host sent, but ringtap's host does not.
    case missing
    /// A packet that ringtap's host sends, but the log does not contain.
    case unexpected
    /// A packet that both hosts send for the same purpose, with different bytes.
    case different
    /// A wait of ringtap's host for controller buffers at a place at which the recorded host did not wait.
    case heldBack
    /// A request or command without a response in the log.
    case unanswered
    /// A response to a request or command that is not in the log.
    case unasked
    /// A packet from the controller or the peer that violates a rule: ringtap's host drops the packet or
    /// would close the channel.
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
  /// Maximum number of examples of each kind. Further differences are only counted.
  public static let exampleLimit = 10

  /// Number of packets of the log that were delivered or compared.
  public package(set) var played = 0
  /// Number of packets of the recorded host that ringtap's host sent with the same bytes.
  public package(set) var reproduced = 0
  /// Number of packets that ringtap's host sent after the end of the log, which do not count as differences.
  public package(set) var afterEnd = 0
  /// Number of packets of links other than LE, and of types that an LE host does not use.
  public package(set) var notPlayed = 0
  /// Number of advertising reports.
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
