import BLEWire

/// The head of an HTTP request: request line and header fields, without a body.
///
/// The parser accepts only requests that RFC 9112 permits: lines end with CR LF, without line folding and
/// without a space before a colon.
package struct WebRequest: Hashable, Sendable {
  static let headLimit = Limit(
    8192, "bytes of the head of a request to a WebSocket's port", by: .program,
    whenFull: "the request is refused with status 431", counted: "nowhere")
  /// Maximum number of header fields. Browsers send about 20.
  private static let fieldCount = 64

  package let method: String
  package let target: String
  /// The header fields, with names in lower case.
  private let fields: [(name: String, value: String)]

  package static func == (one: WebRequest, other: WebRequest) -> Bool {
    one.method == other.method && one.target == other.target
      && one.fields.elementsEqual(other.fields) { $0.name == $1.name && $0.value == $1.value }
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(method)
    hasher.combine(target)
  }

  /// Parses a head.
  ///
  /// - Parameter head: the bytes up to and including the empty line.
  /// - Throws: `WebRefusal`: 400 for a malformed head or a body, 431 for too many fields, 505 for a version
  ///   other than HTTP/1.1.
  package init(head: [UInt8]) throws(WebRefusal) {
    guard head.suffix(4).elementsEqual("\r\n\r\n".utf8) else { throw .malformed }
    var lines: [ArraySlice<UInt8>] = []
    for line in head.dropLast(4).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      lines.append(line)
    }
    for place in lines.indices.dropLast() {
      guard lines[place].last == UInt8(ascii: "\r") else { throw .malformed }
      lines[place].removeLast()
    }
    let words = lines[0].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard words.count == 3, words[0].allSatisfy(Self.isToken), !words[0].isEmpty, !words[1].isEmpty,
      words[1].allSatisfy({ (0x21...0x7E).contains($0) })
    else { throw .malformed }
    guard words[2].elementsEqual("HTTP/1.1".utf8) else {
      throw words[2].starts(with: "HTTP/".utf8) ? .version : .malformed
    }
    method = String(decoding: words[0], as: UTF8.self)
    target = String(decoding: words[1], as: UTF8.self)
    guard lines.count - 1 <= Self.fieldCount else { throw .tooLarge }
    var fields: [(name: String, value: String)] = []
    for line in lines.dropFirst() { fields.append(try Self.field(line)) }
    self.fields = fields
    let hasBody = fields.contains {
      $0.name == "transfer-encoding" || $0.name == "content-length" && $0.value != "0"
    }
    guard !hasBody else { throw .malformed }
  }

  private static func field(_ line: ArraySlice<UInt8>) throws(WebRefusal) -> (name: String, value: String) {
    guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
      line[..<colon].allSatisfy(isToken),
      line[colon...].allSatisfy({ $0 == 0x09 || $0 >= 0x20 && $0 != 0x7F })
    else { throw .malformed }
    func isSpace(_ octet: UInt8) -> Bool { octet == 0x09 || octet == 0x20 }
    let value = line[(colon + 1)...].drop(while: isSpace).reversed().drop(while: isSpace).reversed()
    return (
      String(decoding: line[..<colon], as: UTF8.self).lowercased(), String(decoding: value, as: UTF8.self)
    )
  }

  /// Returns whether a byte may be part of a token. RFC 9110, 5.6.2.
  private static func isToken(_ octet: UInt8) -> Bool {
    switch octet {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "!#$%&'*+-.^_`|~".utf8.contains(octet)
    }
  }

  /// The value of a field that occurs once; `nil` if it is missing or repeated.
  ///
  /// - Parameter name: the name in lower case.
  package subscript(_ name: String) -> String? {
    let values = fields.filter { $0.name == name }
    return values.count == 1 ? values[0].value : nil
  }

  func has(_ name: String) -> Bool { fields.contains { $0.name == name } }

  /// Returns whether a field, which may be repeated, lists a word. The case is ignored.
  func lists(_ word: String, in name: String) -> Bool {
    fields.contains { field in
      field.name == name
        && field.value.split(separator: ",").contains { item in
          String(item.filter { $0 != " " && $0 != "\t" }).lowercased() == word
        }
    }
  }
}

/// A response that refuses a request.
package struct WebRefusal: Error, Hashable, Sendable, CustomStringConvertible {
  package let status: Int
  /// The status text, and a sentence for the user.
  let phrase, text: String
  /// Additional header fields, each with CR LF.
  var fields = ""

  package var description: String { "the request was refused with status \(status): \(phrase)" }

  static let malformed = WebRefusal(status: 400, phrase: "Bad Request", text: "The request is malformed.")
  static let noOrigin = WebRefusal(
    status: 403, phrase: "Forbidden",
    text: "A page of another origin may read this stream only with ?origin=… (ringtap help outputs).")
  static let noPage = WebRefusal(status: 404, phrase: "Not Found", text: "The only page is /.")
  static let noMethod = WebRefusal(
    status: 405, phrase: "Method Not Allowed", text: "Use GET.", fields: "Allow: GET, HEAD\r\n")
  static let late = WebRefusal(status: 408, phrase: "Request Timeout", text: "The request took too long.")
  static let noHost = WebRefusal(
    status: 421, phrase: "Misdirected Request",
    text: "Use the address of this machine, or localhost, instead of a name.")
  static let webSocketVersion = WebRefusal(
    status: 426, phrase: "Upgrade Required", text: "Use version 13 of WebSocket.",
    fields: "Sec-WebSocket-Version: 13\r\n")
  static let tooLarge = WebRefusal(
    status: 431, phrase: "Request Header Fields Too Large", text: "The request is too large.")
  static let full = WebRefusal(
    status: 503, phrase: "Service Unavailable", text: "The limit of readers is reached.")
  static let version = WebRefusal(
    status: 505, phrase: "HTTP Version Not Supported", text: "Use HTTP/1.1.")
}
