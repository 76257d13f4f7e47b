package import BLELinux

/// Destination of a stream of samples: `-`, `unix:PATH` or `tcp:HOST:PORT`.
package enum StreamTarget: Hashable, Sendable {
  case standardOutput
  /// A port to which any program can connect.
  case port(ReaderPort.Place)

  /// Error in the text of a target.
  package struct ParseError: Error, Hashable, CustomStringConvertible {
    package let description: String
  }

  /// Parses a target.
  ///
  /// - Parameter text: the target. `tcp:` accepts a host name, an IPv4 address, or an IPv6 address in
  ///   brackets, and a port from 1.
  package init(_ text: String) throws(ParseError) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    switch (parts.first, parts.count) {
    case ("-", 1): self = .standardOutput
    case ("unix", 2):
      guard !parts[1].isEmpty else { throw ParseError(description: "'unix:' has no path: unix:/run/samples") }
      self = .port(.unix(path: String(parts[1])))
    case ("tcp", 2): self = .port(try Self.tcp(parts[1], text))
    default:
      throw ParseError(
        description: "'\(text)' is not a stream target; give -, unix:PATH or tcp:HOST:PORT")
    }
  }

  private static func tcp(_ place: Substring, _ text: String) throws(ParseError) -> ReaderPort.Place {
    let failure = ParseError(
      description: "'\(text)' is not an address to listen at; give one such as tcp:127.0.0.1:7007")
    guard let colon = place.lastIndex(of: ":"), let port = UInt16(place[place.index(after: colon)...]),
      port > 0
    else { throw failure }
    var host = place[..<colon]
    if host.first == "[", host.last == "]" {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      throw failure
    }
    guard !host.isEmpty else { throw failure }
    return .tcp(host: String(host), port: port)
  }
}

extension StreamTarget: CustomStringConvertible {
  package var description: String {
    switch self {
    case .standardOutput: "-"
    case .port(.unix(let path)): "unix:\(path)"
    case .port(.tcp(let host, let port)):
      host.utf8.contains(UInt8(ascii: ":")) ? "tcp:[\(host)]:\(port)" : "tcp:\(host):\(port)"
    }
  }
}
