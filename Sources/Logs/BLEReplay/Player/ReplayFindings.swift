/// Where our stack and a log do not agree.
public struct ReplayDifference: Hashable, Sendable {
  public enum Kind: String, CaseIterable, Sendable {
    /// The recorded host sent it, ours does not.
    case missing
    /// Ours sends it, the log does not have it.
    case unexpected
    /// Both send a packet of the same purpose, with other octets.
    case different
    /// Ours waits for room in the controller where the recorded host did not.
    case heldBack
    /// The log has no answer to it.
    case unanswered
    /// An answer to something that the log does not have.
    case unasked
    /// What the controller or the peer sent breaks a rule: our stack drops it, or would close the channel.
    case refused
  }

  public let kind: Kind
  /// The number of the packet in the log; `nil` where no packet of the log is meant.
  public let index: Int?
  /// With their H4 type octets.
  public let recorded: [UInt8]?
  public let ours: [UInt8]?
  public let why: String?

  init(kind: Kind, index: Int?, recorded: [UInt8]?, ours: [UInt8]?, why: String?) {
    self.kind = kind
    self.index = index.flatMap { $0 > 0 ? $0 : nil }
    self.recorded = recorded
    self.ours = ours
    self.why = why
  }

  init(
    _ kind: Kind, _ packet: ReplayPacket? = nil, ours: [UInt8]? = nil, why: String? = nil
  ) {
    self.init(kind: kind, index: packet?.index, recorded: packet?.octets, ours: ours, why: why)
  }
}

/// What came of a replay.
public struct ReplayFindings: Hashable, Sendable {
  /// Differences that are kept of each kind; the others are counted.
  public static let exampleLimit = 10

  /// Packets of the log that were delivered or compared.
  public internal(set) var played = 0
  /// Packets of the recorded host that ours sent octet for octet.
  public internal(set) var reproduced = 0
  /// Packets that ours sent when the log was at its end; no differences.
  public internal(set) var afterEnd = 0
  /// Packets of links that are not LE, and of kinds that an LE host does not have.
  public internal(set) var notPlayed = 0
  /// Reports of advertisers.
  public internal(set) var reports = 0
  /// By kind.
  public private(set) var counts: [ReplayDifference.Kind: Int] = [:]
  public private(set) var examples: [ReplayDifference] = []

  public init() {}

  public var differenceCount: Int { counts.values.reduce(0, +) }

  mutating func add(_ difference: ReplayDifference) {
    let count = counts[difference.kind, default: 0] + 1
    counts[difference.kind] = count
    if count <= Self.exampleLimit { examples.append(difference) }
  }
}
