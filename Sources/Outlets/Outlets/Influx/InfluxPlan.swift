import JSONText

/// Destination for lines: InfluxDB, VictoriaMetrics, Telegraf, or any server that accepts the line protocol
/// over HTTP.
package struct InfluxPlan: Hashable, Sendable {
  /// Error in the URL or the token.
  package struct ParseError: Error, Hashable, CustomStringConvertible {
    package let description: String
  }

  /// The URL, including the precision of the timestamps.
  let url: String
  /// The URL without its query, for messages.
  let place: String
  /// Token that authorizes the writes.
  package let token: String?
  /// PEM file of CA certificates; `nil` for the system's certificates.
  package let certificates: String?
  /// Version of ringtap.
  let version: String

  /// Creates a plan.
  ///
  /// - Parameters:
  ///   - url: the URL with path and query, which select the database, or the organisation and bucket.
  ///   - token: the token for the header `Authorization: Token`.
  package init(
    _ url: String, token: String?, certificates: String?, version: String
  ) throws(ParseError) {
    let parts = url.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let place = String(parts.first ?? "")
    try Self.check(place, url)
    let items = parts.count > 1 ? parts[1].split(separator: "&") : []
    for item in items {
      let name = item.prefix { $0 != "=" }
      if name == "p" { throw Self.secret }
      guard name == "precision" else { continue }
      guard ["ns", "n", "nanosecond"].contains(item.dropFirst(10)) else {
        throw ParseError(description: "times are nanoseconds: remove '\(item)' from the URL")
      }
    }
    let hasPrecision = items.contains { $0.hasPrefix("precision=") }
    self.url = hasPrecision ? url : url + (parts.count > 1 ? "&" : "?") + "precision=ns"
    if let token, token.isEmpty || !token.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) {
      throw ParseError(
        description: "the token, the file's first line, is empty or has characters other than printable ASCII"
      )
    }
    (self.place, self.token, self.certificates, self.version) = (place, token, certificates, version)
  }

  /// Checks the scheme, host and path.
  private static func check(_ place: String, _ url: String) throws(ParseError) {
    guard url.utf8.allSatisfy({ (0x21..<0x7F).contains($0) && $0 != UInt8(ascii: "#") }) else {
      throw ParseError(
        description:
          "'\(place.printable)…' has a space, a '#' or a letter not allowed in URLs; encode it, such as %20"
      )
    }
    guard let scheme = ["http://", "https://"].first(where: { place.hasPrefix($0) }) else {
      throw ParseError(
        description:
          "'\(place)' does not begin with http:// or https://; it looks like http://localhost:8428/write")
    }
    let rest = place.dropFirst(scheme.count)
    let host = rest.prefix { $0 != "/" }
    // The message must not contain the host, because the text may include a password.
    if host.contains("@") { throw secret }
    guard !host.isEmpty, rest.count > host.count + 1 else {
      throw ParseError(
        description:
          "'\(place)' has no host, or no path: VictoriaMetrics has /write, InfluxDB /write?db=NAME or "
          + "/api/v2/write?org=NAME&bucket=NAME"
      )
    }
  }

  private static let secret = ParseError(
    description:
      "other users of the machine can see a password in the URL (ps); put the token, or user:password, into "
      + "a file: token-file=FILE in the URL"
  )
}
