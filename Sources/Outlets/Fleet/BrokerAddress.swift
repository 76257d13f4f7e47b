/// Address of a broker, and the prefix of all topics: `mqtt://[user[:password]@]host[:port][/prefix]`.
///
/// `mqtts://` means TLS. Reserved characters in user and password are percent-encoded, such as `%2F`. Schemes
/// and ports: https://www.iana.org/assignments/service-names-port-numbers (mqtt, secure-mqtt).
public struct BrokerAddress: Hashable, Sendable, CustomStringConvertible {
  /// An error that names the invalid part of the text, with a valid example.
  public struct ParseError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
  }

  public static let defaultPrefix = "ringtap"
  /// Maximum number of levels in a prefix.
  static let prefixLevelLimit = 8

  public var host: String
  public var port: Int
  public var isEncrypted: Bool
  public var user: String?
  public var password: String?
  /// One or more topic levels, without a slash at either end.
  public var prefix: String

  /// Parses an address.
  ///
  /// - Parameter standard: the prefix for a text without a prefix.
  public init(_ text: String, prefix standard: String = defaultPrefix) throws(ParseError) {
    prefix = standard
    var rest: Substring
    if text.hasPrefix("mqtt://") {
      (isEncrypted, rest) = (false, text.dropFirst(7))
    } else if text.hasPrefix("mqtts://") {
      (isEncrypted, rest) = (true, text.dropFirst(8))
    } else {
      throw ParseError(
        description:
          "'\(text)' does not begin with mqtt:// or mqtts://; it looks like mqtt://broker.local/ringtap")
    }
    // The path is found first, because error messages must not contain the password.
    let path = rest.firstIndex(of: "/")
    let authority = rest[..<(path ?? rest.endIndex)]
    if let path { prefix = try Self.prefix(rest[rest.index(after: path)...]) ?? standard }
    rest = authority
    if let at = authority.lastIndex(of: "@") {
      (user, password) = try Self.credentials(authority[..<at])
      rest = authority[authority.index(after: at)...]
    }
    (host, port) = try Self.hostAndPort(rest, isEncrypted ? 8883 : 1883)
  }

  /// The address without user and password.
  public var description: String {
    let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    return "\(isEncrypted ? "mqtts" : "mqtt")://\(name):\(port)/\(prefix)"
  }

  private static func hostAndPort(_ text: Substring, _ standard: Int) throws(ParseError) -> (String, Int) {
    var (name, rest) = (text, Substring())
    if text.hasPrefix("[") {
      guard let end = text.firstIndex(of: "]") else {
        throw ParseError(description: "the host '\(text)' has no ']'; an IPv6 address looks like [::1]")
      }
      (name, rest) = (text[text.index(after: text.startIndex)..<end], text[text.index(after: end)...])
      guard rest.isEmpty || rest.hasPrefix(":") else {
        throw ParseError(description: "'\(rest)' follows the host; a port looks like :1883")
      }
    } else if let colon = text.firstIndex(of: ":") {
      (name, rest) = (text[..<colon], text[colon...])
    }
    let isHost = name.utf8.allSatisfy {
      $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
    }
    guard !name.isEmpty, name.utf8.count <= 253, isHost else {
      throw ParseError(description: "'\(name)' is not a host; it looks like broker.local or 192.0.2.1")
    }
    guard !rest.isEmpty else { return (String(name), standard) }
    guard let port = UInt16(rest.dropFirst()), port > 0 else {
      throw ParseError(
        description: "'\(rest.dropFirst())' is not a port; it is a number, 1 … 65535, such as \(standard)")
    }
    return (String(name), Int(port))
  }

  private static func credentials(_ text: Substring) throws(ParseError) -> (String, String?) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard let user = decoded(parts[0]), !user.isEmpty else {
      throw ParseError(
        description: "the user before '@' is empty or has a '%' without two hexadecimal digits")
    }
    guard parts.count == 2 else { return (user, nil) }
    guard let password = decoded(parts[1]) else {
      throw ParseError(
        description: "the password has a '%' without two hexadecimal digits; '%' itself is %25")
    }
    return (user, password)
  }

  /// Parses the prefix.
  ///
  /// - Returns: `nil` if the text is empty.
  private static func prefix(_ text: Substring) throws(ParseError) -> String? {
    guard !text.isEmpty else { return nil }
    let levels = text.split(separator: "/", omittingEmptySubsequences: false)
    guard levels.count <= prefixLevelLimit, levels.allSatisfy({ FleetName.isValid($0) }) else {
      throw ParseError(
        description:
          "the prefix '\(text)' is not allowed; its levels are letters, digits, '.', '_' and '-', "
          + "such as /clinic/ward-3")
    }
    return String(text)
  }

  /// Decodes percent-encoding: replaces `%` and two hexadecimal digits by the encoded byte. RFC 3986, 2.1.
  ///
  /// - Returns: `nil` for a `%` without digits, and for an encoded zero byte.
  package static func decoded(_ text: Substring) -> String? {
    var octets: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let octet = rest.popFirst() {
      guard octet == UInt8(ascii: "%") else {
        octets.append(octet)
        continue
      }
      guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16),
        value > 0
      else { return nil }
      octets.append(value)
      rest = rest.dropFirst(2)
    }
    return String(decoding: octets, as: UTF8.self)
  }
}
