package import BLELinux

/// Destination of a stream of samples: `-`, `unix:PATH`, `tcp:HOST:PORT` or `ws://HOST:PORT`.
package enum StreamTarget: Hashable, Sendable {
  case standardOutput
  /// A port to which any program can connect.
  case port(ReaderPort.Place)
  /// A WebSocket.
  case web(WebPlace)

  /// An error in the text of a target.
  package struct ParseError: Error, Hashable, CustomStringConvertible {
    package let description: String
  }

  /// Parses a target.
  ///
  /// - Parameter text: the target. `tcp:` and `ws://` accept a host name, an IPv4 address, or an IPv6 address
  ///   in brackets, and a port from 1. `ws://` without a host accepts only programs of this machine.
  package init(_ text: String) throws(ParseError) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    switch (parts.first, parts.count) {
    case ("-", 1): self = .standardOutput
    case ("unix", 2):
      guard !parts[1].isEmpty else { throw ParseError(description: "'unix:' has no path: unix:/run/samples") }
      self = .port(.unix(path: String(parts[1])))
    case ("tcp", 2):
      guard let (host, port) = Self.address(parts[1]) else {
        throw ParseError(
          description: "'\(text)' is not an address to listen at; give one such as tcp:127.0.0.1:7007")
      }
      self = .port(.tcp(host: host, port: port))
    case ("ws", 2):
      guard parts[1].hasPrefix("//"), let place = Self.web(parts[1].dropFirst(2)) else {
        throw ParseError(description: "'\(text)' is not a WebSocket to offer; give one such as ws://:8080")
      }
      self = .web(place)
    default:
      throw ParseError(
        description: "'\(text)' is not a stream target; give -, unix:PATH, tcp:HOST:PORT or ws://:PORT")
    }
  }

  private static func web(_ text: Substring) -> WebPlace? {
    let text = text.hasSuffix("/") ? text.dropLast() : text
    let place = text.hasPrefix(":") ? WebPlace.defaultHost + text : String(text)
    return address(place[...]).flatMap { host, port in
      host.contains("/") ? nil : WebPlace(host: host, port: port)
    }
  }

  /// Parses host and port.
  private static func address(_ place: Substring) -> (host: String, port: UInt16)? {
    guard let colon = place.lastIndex(of: ":"), let port = UInt16(place[place.index(after: colon)...]),
      port > 0
    else { return nil }
    var host = place[..<colon]
    if host.first == "[", host.last == "]" {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    return host.isEmpty ? nil : (String(host), port)
  }
}

extension StreamTarget: CustomStringConvertible {
  package var description: String {
    switch self {
    case .standardOutput: "-"
    case .web(let place): "\(place)"
    case .port(.unix(let path)): "unix:\(path)"
    case .port(.tcp(let host, let port)):
      host.utf8.contains(UInt8(ascii: ":")) ? "tcp:[\(host)]:\(port)" : "tcp:\(host):\(port)"
    }
  }
}
