package import BLELinux
import BLEWire
internal import CCurl

/// Nothing can be written.
package enum NoInfluxWriter: Error, Hashable, CustomStringConvertible {
  /// libcurl cannot be used: why, as the dynamic linker says it.
  case noCurl(String)
  case system(SystemError)

  package var description: String {
    switch self {
    case .noCurl(let reason):
      "--influx needs libcurl (\(reason)); install Debian's libcurl4: sudo apt install libcurl4"
    case .system(let error): "\(error)"
    }
  }
}

/// An address that octets are posted to, over HTTP/1.1 by libcurl, which is opened at first use. One thread posts.
///
/// Certificates are checked, and redirections are not followed: what is measured goes where it was said to go.
@safe final class HTTPEndpoint: @unchecked Sendable {  // `cancel` sets an atomic.
  /// What came of a post.
  enum Answer: Hashable, Sendable {
    /// The server's status, the beginning of its own words, and for how many seconds it wants to be left alone.
    case came(status: Int, text: String, retrySeconds: Int)
    /// None came: why.
    case missing(String)
  }

  static let answerByteCount = Limit(
    64 << 10, "bytes of the head, and of the body, of a database's answer", by: .broker,
    whenFull: "the connection is closed, and the status counts alone",
    counted: "nowhere: 512 bytes of it are looked at")

  private static let connectMilliseconds: CInt = 5_000
  /// Of all of a post: whoever stands still keeps a batch for so long.
  private static let milliseconds: CInt = 10_000

  private let http: OpaquePointer

  init(_ plan: InfluxPlan) throws(NoInfluxWriter) {
    // SAFETY: the text is constant.
    if let problem = unsafe ringtap_http_load() { throw .noCurl(unsafe String(cString: problem)) }
    let http = unsafe Self.withText(plan.token.map { "Token " + $0 }) { authorization in
      unsafe Self.withText(plan.certificates) { file in
        // SAFETY: the texts are copied by the call.
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
    // SAFETY: nobody uses it any more.
    unsafe ringtap_http_free(http)
  }

  /// Waits for the answer, some seconds at most.
  func post(_ octets: [UInt8]) -> Answer {
    // SAFETY: the octets are used within the call; the texts stay until the next one, and end with a zero.
    let status = unsafe octets.withUnsafeBufferPointer {
      unsafe ringtap_http_post(http, $0.baseAddress, $0.count)
    }
    guard status > 0 else { return .missing(unsafe String(cString: ringtap_http_problem(http))) }
    return .came(
      status: Int(status), text: unsafe String(cString: ringtap_http_text(http)),
      retrySeconds: Int(clamping: unsafe ringtap_http_retry_seconds(http)))
  }

  /// Ends what is under way, at once.
  func cancel() {
    // SAFETY: the endpoint is there until the end of this object.
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
