/// A log that is replayed instead of a controller, with options: `packets.btsnoop`,
/// `packets.btsnoop,speed=10x,link=2`, `air.pcap,ltk=4C68384139F574D836BCF34E9DFB01BF`.
public struct ReplaySource: Hashable, Sendable {
  public var path: String
  public var speed: ReplaySpeed
  /// Number of the link, from 1, whose ATT channel is replayed. If `nil`, the whole log is replayed if our
  /// own host recorded it, otherwise its first link.
  public var link: Int?
  /// Long-term keys of encrypted links in an over-the-air log: 32 hexadecimal digits each.
  public var keys: [String] = []

  public init(path: String, speed: ReplaySpeed = .max, link: Int? = nil) {
    self.path = path
    self.speed = speed
    self.link = link
  }

  /// Parses a path with options.
  ///
  /// - Returns: `nil` for an unknown or invalid option. A comma that is not followed by an option belongs to
  ///   the path.
  init?(_ text: String) {
    var fields = text.split(separator: ",", omittingEmptySubsequences: false)
    self.init(path: "")
    while fields.count > 1, let last = fields.last, let equals = last.firstIndex(of: "=") {
      let value = last[last.index(after: equals)...]
      switch last[..<equals] {
      case "speed":
        guard let speed = ReplaySpeed(value) else { return nil }
        self.speed = speed
      case "link":
        guard let link = Int(value), link > 0 else { return nil }
        self.link = link
      case "ltk":
        guard value.count == 32, value.allSatisfy(\.isHexDigit), value.utf8.count == 32 else { return nil }
        keys.insert(String(value), at: 0)
      default: return nil
      }
      fields.removeLast()
    }
    path = fields.joined(separator: ",")
    if path.isEmpty { return nil }
  }
}

extension ReplaySource: CustomStringConvertible {
  public var description: String {
    path + (speed == .max ? "" : ",speed=\(speed)") + (link.map { ",link=\($0)" } ?? "")
      + keys.map { ",ltk=\($0)" }.joined()
  }
}

/// Playback speed of a log.
public enum ReplaySpeed: Hashable, Sendable {
  /// Multiple of the recorded speed.
  case times(Int)
  /// As fast as the stack accepts packets.
  case max

  /// Parses `1x`, `10x`, `max`.
  public init?(_ text: some StringProtocol) {
    if text == "max" {
      self = .max
    } else {
      guard text.last == "x", let factor = Int(text.dropLast()), (1...1_000_000).contains(factor) else {
        return nil
      }
      self = .times(factor)
    }
  }
}

extension ReplaySpeed: CustomStringConvertible {
  public var description: String {
    switch self {
    case .times(let factor): "\(factor)x"
    case .max: "max"
    }
  }
}
