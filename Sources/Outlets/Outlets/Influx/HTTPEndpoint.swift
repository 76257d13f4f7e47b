package import BLELinux
import BLEWire
internal import CCurl

/// The reason why the writer cannot start.
package enum NoInfluxWriter: Error, Hashable, CustomStringConvertible {
  /// libcurl is unavailable. The text is the dynamic linker's message.
  case noCurl(String)
  case system(SystemError)

  package var description: String {
    switch self {
    case .noCurl(let reason):
      "writing to a database needs libcurl (\(reason)); install Debian's libcurl4: sudo apt install libcurl4"
    case .system(let error): "\(error)"
    }
  }
}

/// A URL to which data is posted over HTTP/1.1 with libcurl. The library is loaded at first use. Only one
/// thread may post.
///
/// Certificates are verified and redirects are not followed, so data is sent only to the given URL.
@safe final class HTTPEndpoint: @unchecked Sendable {  // `cancel` sets an atomic.
  /// Result of a post.
  enum Answer: Hashable, Sendable {
    /// The server responded with this status, start of the body, and Retry-After in seconds.
    case came(status: Int, text: String, retrySeconds: Int)
    /// There was no response, for the given reason.
    case missing(String)
  }

  static let answerByteCount = Limit(
    64 << 10, "bytes of the head, and of the body, of a database's response", by: .broker,
    whenFull: "the connection is closed, and only the status is used",
    counted: "nowhere: only 512 bytes of it are used")

  private static let connectMilliseconds: CInt = 5_000
  /// Timeout of a post in milliseconds. A server that does not respond delays a batch by this time.
  private static let milliseconds: CInt = 10_000

  private let http: OpaquePointer

  init(_ plan: InfluxPlan) throws(NoInfluxWriter) {
    // SAFETY: the text is constant.
    if let problem = unsafe ringtap_http_load() { throw .noCurl(unsafe String(cString: problem)) }
    let http = unsafe Self.withText(plan.token.map { "Token " + $0 }) { authorization in
      unsafe Self.withText(plan.certificates) { file in
        // SAFETY: the call copies the texts.
        unsafe plan.url.withCString { url in
          unsafe "ringtap/\(plan.version)".withCString { agent in
            var options = unsafe ringtap_http_options(
              url: url, authorization: authorization, ca_file: file, agent: agent,
              connect_timeout_milliseconds: Self.connectMilliseconds, timeout_milliseconds: Self.milliseconds,
              answer_byte_count: Self.answerByteCount.count)
            return unsafe ringtap_http_new(&options)
          }
        }
      }
    }
    guard let http = unsafe http else { throw .noCurl("it lacks options") }
    unsafe self.http = http
  }

  deinit {
    // SAFETY: no other reference to the endpoint exists.
    unsafe ringtap_http_free(http)
  }

  /// Posts the bytes, and waits up to the timeout for the response.
  func post(_ octets: [UInt8]) -> Answer {
    // SAFETY: the bytes are used during the call; the texts remain valid until the next call, and end with a
    // zero.
    let status = unsafe octets.withUnsafeBufferPointer {
      unsafe ringtap_http_post(http, $0.baseAddress, $0.count)
    }
    guard status > 0 else { return .missing(unsafe String(cString: ringtap_http_problem(http))) }
    return .came(
      status: Int(status), text: unsafe String(cString: ringtap_http_text(http)),
      retrySeconds: Int(clamping: unsafe ringtap_http_retry_seconds(http)))
  }

  /// Cancels the post in progress at once.
  func cancel() {
    // SAFETY: the endpoint exists until this object is deinitialized.
    unsafe ringtap_http_cancel(http)
  }

  private static func withText<Value>(
    _ text: String?, _ body: (UnsafePointer<CChar>?) -> Value
  ) -> Value {
    // SAFETY: the pointer is used within `body`.
    guard let text else { return body(nil) }
    return unsafe text.withCString { unsafe body($0) }
  }
}
