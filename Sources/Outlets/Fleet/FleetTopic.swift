/// Names of publishers, sessions and tables. A name becomes the name of a folder or file on the collector, so
/// it consists of letters, digits, `.`, `_` and `-`, does not begin with a dot, and has a maximum length.
public enum FleetName {
  static let byteCountLimit = 64

  public static func isValid(_ text: some StringProtocol) -> Bool {
    !text.isEmpty && text.utf8.count <= byteCountLimit && text.utf8.first != UInt8(ascii: ".")
      && text.utf8.allSatisfy(isAllowed)
  }

  /// Returns the nearest valid name. Replaces other characters with `-`.
  public static func made(of text: String) -> String {
    var octets = text.utf8.prefix(byteCountLimit).map { isAllowed($0) ? $0 : UInt8(ascii: "-") }
    if octets.first.map({ $0 == UInt8(ascii: ".") }) ?? true { octets.insert(UInt8(ascii: "-"), at: 0) }
    return String(decoding: octets.prefix(byteCountLimit), as: UTF8.self)
  }

  private static func isAllowed(_ octet: UInt8) -> Bool {
    switch octet {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
}

/// The topics below a common prefix.
///
/// | topic | sender | payload |
/// |---|---|---|
/// | `PREFIX/PUBLISHER/SESSION/TABLE` | publisher | `Batch` |
/// | `PREFIX/PUBLISHER/SESSION/end` | publisher | `SessionEnd` |
/// | `PREFIX/PUBLISHER/status` | publisher, retained; also its last will | `PublisherStatus` |
/// | `PREFIX/PUBLISHER/receipt` | collector | `Receipt` |
enum FleetTopic: Hashable, Sendable {
  case table(publisher: String, session: String, table: String)
  case end(publisher: String, session: String)
  case status(publisher: String)
  case receipt(publisher: String)

  private static let endName = "end"

  /// Parses a topic.
  ///
  /// - Returns: `nil` if the topic is not in the table, or contains an invalid name.
  init?(_ topic: String, below prefix: String) {
    guard topic.hasPrefix(prefix + "/") else { return nil }
    let levels = topic.dropFirst(prefix.count + 1).split(separator: "/", omittingEmptySubsequences: false)
      .map(String.init)
    guard (2...3).contains(levels.count), levels.allSatisfy({ FleetName.isValid($0) }) else { return nil }
    if levels.count == 3 {
      self =
        levels[2] == Self.endName
        ? .end(publisher: levels[0], session: levels[1])
        : .table(publisher: levels[0], session: levels[1], table: levels[2])
    } else if levels[1] == "status" {
      self = .status(publisher: levels[0])
    } else if levels[1] == "receipt" {
      self = .receipt(publisher: levels[0])
    } else {
      return nil
    }
  }

  var publisher: String {
    switch self {
    case .table(let publisher, _, _), .end(let publisher, _), .status(let publisher), .receipt(let publisher):
      publisher
    }
  }

  func text(below prefix: String) -> String {
    switch self {
    case .table(let publisher, let session, let table): "\(prefix)/\(publisher)/\(session)/\(table)"
    case .end(let publisher, let session): "\(prefix)/\(publisher)/\(session)/\(Self.endName)"
    case .status(let publisher): "\(prefix)/\(publisher)/status"
    case .receipt(let publisher): "\(prefix)/\(publisher)/receipt"
    }
  }

  /// Returns topic filters for a collector: all topics except receipts.
  static func collected(below prefix: String) -> [String] { ["\(prefix)/+/status", "\(prefix)/+/+/+"] }

  /// Returns whether a file with this name can be published as a table.
  static func isTable(_ name: String) -> Bool {
    FleetName.isValid(name) && name != endName && name != "session"
  }
}
