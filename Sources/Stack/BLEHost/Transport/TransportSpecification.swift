/// A path to a controller for exclusive use. The command line and programs use the same grammar.
public enum TransportSpecification: Hashable, Sendable {
  /// `hci-socket:0`: the user channel of a kernel adapter.
  case hciSocket(index: UInt16)
  /// `serial:/dev/ttyAMA0,115200` or `…,flow` for RTS/CTS.
  case serial(path: String, baud: UInt32, hardwareFlow: Bool)
  /// `tcp-client:host:port`.
  case tcpClient(host: String, port: UInt16)
  /// `tcp-server:host:port`: waits for the controller to connect. The host `_` means all addresses of this
  /// machine.
  case tcpServer(host: String?, port: UInt16)
  /// `unix:path`.
  case unix(path: String)
  /// `pty:`: a pseudo-terminal. Another program opens its other end as a serial port.
  case pseudoTerminal
  /// `virtual:ring`: a controller and a peripheral inside this process.
  case virtual(peripheral: String)
  /// `replay:packets.btsnoop`, or `…,speed=10x,link=2`: a packet log instead of a controller.
  case replay(ReplaySource)

  /// Reason why a text is not a valid transport.
  public struct ParseError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
  }

  public init(_ text: String) throws(ParseError) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    let rest = parts.count == 2 ? String(parts[1]) : ""
    switch parts[0] {
    case "hci-socket":
      guard let index = UInt16(rest) else { throw Self.error(text, "hci-socket:0") }
      self = .hciSocket(index: index)
    case "serial": self = try Self.serial(rest, text)
    case "tcp-client":
      guard let (host, port) = Self.endpoint(rest) else {
        throw Self.error(text, "tcp-client:127.0.0.1:6402")
      }
      self = .tcpClient(host: host, port: port)
    case "tcp-server":
      guard let (host, port) = Self.endpoint(rest) else {
        throw Self.error(text, "tcp-server:127.0.0.1:6402")
      }
      self = .tcpServer(host: host == "_" ? nil : host, port: port)
    case "pty":
      guard rest.isEmpty else { throw Self.error(text, "pty:") }
      self = .pseudoTerminal
    case "unix":
      guard !rest.isEmpty else { throw Self.error(text, "unix:/tmp/controller") }
      self = .unix(path: rest)
    case "virtual":
      guard !rest.isEmpty else { throw Self.error(text, "virtual:ring") }
      self = .virtual(peripheral: rest)
    case "replay":
      guard let source = ReplaySource(rest) else {
        throw Self.error(text, "replay:packets.btsnoop or replay:packets.btsnoop,speed=10x,link=1")
      }
      self = .replay(source)
    default:
      throw ParseError(
        "'\(text)' is not a transport; choose one of hci-socket:, serial:, tcp-client:, tcp-server:, unix:, "
          + "pty:, virtual:, replay:"
      )
    }
  }

  private static func serial(_ rest: String, _ text: String) throws(ParseError) -> Self {
    let fields = rest.split(separator: ",", omittingEmptySubsequences: false)
    guard (2...3).contains(fields.count), !fields[0].isEmpty, let baud = UInt32(fields[1]),
      fields.count == 2 || fields[2] == "flow"
    else { throw error(text, "serial:/dev/ttyAMA0,115200 or serial:/dev/ttyAMA0,1000000,flow") }
    return .serial(path: String(fields[0]), baud: baud, hardwareFlow: fields.count == 3)
  }

  private static func endpoint(_ text: String) -> (host: String, port: UInt16)? {
    guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
      let port = UInt16(text[text.index(after: colon)...]), port > 0
    else { return nil }
    return (String(text[..<colon]), port)
  }

  private static func error(_ text: String, _ example: String) -> ParseError {
    ParseError("'\(text)' is not a transport; it looks like \(example)")
  }
}

extension TransportSpecification: CustomStringConvertible {
  public var description: String {
    switch self {
    case .hciSocket(let index): "hci-socket:\(index)"
    case .serial(let path, let baud, let hardwareFlow):
      "serial:\(path),\(baud)\(hardwareFlow ? ",flow" : "")"
    case .tcpClient(let host, let port): "tcp-client:\(host):\(port)"
    case .tcpServer(let host, let port): "tcp-server:\(host ?? "_"):\(port)"
    case .unix(let path): "unix:\(path)"
    case .pseudoTerminal: "pty:"
    case .virtual(let peripheral): "virtual:\(peripheral)"
    case .replay(let source): "replay:\(source)"
    }
  }
}

// MARK: - Replays

/// A log that is replayed instead of a controller, with options: `packets.btsnoop`,
/// `packets.btsnoop,speed=10x,link=2`, `air.pcap,ltk=4C68384139F574D836BCF34E9DFB01BF`.
public struct ReplaySource: Hashable, Sendable {
  public var path: String
  public var speed: ReplaySpeed
  /// Number of the link, from 1, whose ATT channel is replayed. If `nil`, the whole log is replayed if our
  /// own host recorded it, otherwise the log's first link.
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

  /// Parses `1x`, `10x` or `max`.
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
