import CaptureTools

/// Address of a WebSocket, and the rules for access to its samples.
///
/// Programs of this machine may always connect. A browser may connect if the page is from this server or has
/// the given origin. Otherwise any page that the user opens could read the samples. The request must name the
/// server by an IP address, `localhost`, or its own name, so that a page cannot reach it under a name that
/// resolves to this machine only later (DNS rebinding).
package struct WebPlace: Hashable, Sendable {
  /// The default host, to which only programs of this machine can connect.
  static let defaultHost = "127.0.0.1"

  let host: String
  let port: UInt16
  /// The additional origin whose pages may read.
  package private(set) var origin: String?

  init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }

  /// Lets the pages of another origin read.
  ///
  /// - Parameter text: an origin, such as `https://example.org` or `http://localhost:3000`.
  /// - Returns: `nil` if the text is not an origin.
  package func allowing(origin text: String) -> WebPlace? {
    let parts = text.lowercased().split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0] == "http:" || parts[0] == "https:", parts[1].isEmpty,
      HostField(String(parts[2])) != nil
    else { return nil }
    var place = self
    place.origin = text.lowercased()
    return place
  }

  /// The URL of the page for a browser.
  package var url: String { "http://\(authority)/" }

  /// Whether only programs of this machine can connect.
  package var isLoopback: Bool {
    host == "::1" || host == "localhost" || host.hasPrefix("127.") && HostField(host)?.isAddress == true
  }

  var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }

  // MARK: Requests

  /// The answer to a request.
  package enum Answer: Hashable, Sendable {
    /// The page.
    ///
    /// - Parameters:
    ///   - authority: host and port with which the browser reaches this server.
    ///   - isComplete: whether the body is sent, too.
    case page(authority: String, isComplete: Bool)
    /// The WebSocket, with the value of `Sec-WebSocket-Accept`.
    case webSocket(accept: String)
  }

  /// Returns the answer to a request.
  ///
  /// - Parameter machine: the name of this machine.
  package func answer(to request: WebRequest, on machine: String) throws(WebRefusal) -> Answer {
    guard let text = request["host"] else { throw .malformed }
    guard let field = HostField(text.lowercased()), isOwn(field, machine) else { throw .noHost }
    guard request.method == "GET" || request.method == "HEAD" else { throw .noMethod }
    guard request.target == "/" else { throw .noPage }
    guard request.has("upgrade") else {
      return .page(authority: field.text, isComplete: request.method == "GET")
    }
    guard request.method == "GET", request.lists("websocket", in: "upgrade"),
      request.lists("upgrade", in: "connection"), let key = request["sec-websocket-key"], Self.isKey(key)
    else { throw .malformed }
    guard request["sec-websocket-version"] == "13" else { throw .webSocketVersion }
    if request.has("origin") {
      let origin = request["origin"]?.lowercased()
      guard origin == "http://" + field.text || origin != nil && origin == self.origin else {
        throw .noOrigin
      }
    }
    return .webSocket(accept: Self.accept(key))
  }

  /// Returns whether a request may use this host for the server.
  private func isOwn(_ field: HostField, _ machine: String) -> Bool {
    if field.isAddress || field.host == "localhost" || field.host == host.lowercased() { return true }
    let machine = machine.lowercased()
    return !isLoopback && (field.host == machine || field.host == machine + ".local")
  }

  /// Returns whether a key is 16 bytes in base64. RFC 6455, 4.1.
  private static func isKey(_ key: String) -> Bool {
    let digits = key.utf8
    return digits.count == 24 && digits.suffix(2).elementsEqual("==".utf8)
      && digits.dropLast(2).allSatisfy { digit in
        switch digit {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"):
          true
        default: false
        }
      }
  }

  /// Returns the value of `Sec-WebSocket-Accept` for a key. RFC 6455, 4.2.2.
  static func accept(_ key: String) -> String {
    var text: [UInt8] = []
    text.append(base64: SHA1.digest(of: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    return String(decoding: text, as: UTF8.self)
  }
}

extension WebPlace: CustomStringConvertible {
  package var description: String { "ws://\(authority)" }
}

/// The value of a `Host` field: a host and optionally a port. RFC 9110, 7.2.
private struct HostField {
  let text: String
  /// The host without brackets.
  let host: String
  /// Whether the host is an IPv4 or IPv6 address.
  let isAddress: Bool

  /// Parses the value of a field.
  ///
  /// - Parameter text: the value in lower case.
  /// - Returns: `nil` if the text contains anything but letters, digits, `.`, `-`, brackets and colons.
  init?(_ text: String) {
    let isBracketed = text.hasPrefix("[")
    let end: String.Index
    if isBracketed {
      guard let bracket = text.firstIndex(of: "]") else { return nil }
      end = text.index(after: bracket)
    } else {
      end = text.firstIndex(of: ":") ?? text.endIndex
    }
    let port = text[end...]
    guard port.isEmpty || port.hasPrefix(":") && port.count > 1 && UInt16(port.dropFirst()) != nil,
      port.dropFirst().utf8.allSatisfy(Self.isDigit)
    else { return nil }
    let host = isBracketed ? text[..<end].dropFirst().dropLast() : text[..<end]
    guard !host.isEmpty else { return nil }
    if isBracketed {
      guard host.contains(":"),
        host.utf8.allSatisfy({ Self.isHex($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") })
      else { return nil }
      isAddress = true
    } else {
      guard
        host.utf8.allSatisfy({
          (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || Self.isDigit($0) || $0 == UInt8(ascii: ".")
            || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
        })
      else { return nil }
      let parts = host.split(separator: ".", omittingEmptySubsequences: false)
      isAddress =
        parts.count == 4 && parts.allSatisfy { UInt8($0) != nil && $0.utf8.allSatisfy(Self.isDigit) }
    }
    (self.text, self.host) = (text, String(host))
  }

  private static func isDigit(_ octet: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet)
  }

  private static func isHex(_ octet: UInt8) -> Bool {
    isDigit(octet) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(octet)
  }
}
