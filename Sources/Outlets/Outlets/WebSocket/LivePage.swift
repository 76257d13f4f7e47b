import CaptureTools

/// Web page that plots a stream's samples as they arrive. Styles and scripts are inline. The content security
/// policy lets the page connect only to its own server.
enum LivePage {
  private static let page: [UInt8] = {
    var page: [UInt8] = []
    page += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n".utf8
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n".utf8
    page += "<link rel=\"icon\" href=\"data:,\">\n<title>ringtap</title>\n".utf8
    page.append("style", [.style, .liveStyle])
    page += "</head>\n<body>\n<main id=\"page\"><p>This page shows its plots by JavaScript.</p></main>\n".utf8
    page.append("script", [.liveScript])
    page += "</body>\n</html>\n".utf8
    return page
  }()

  /// Returns the response to a request for the page.
  ///
  /// - Parameters:
  ///   - authority: host and port with which the browser reaches this server.
  ///   - isComplete: whether to include the body.
  static func response(_ authority: String, isComplete: Bool) -> [UInt8] {
    let head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: \(page.count)\r\n"
      + "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
      + "img-src data:; connect-src ws://\(authority); base-uri 'none'; form-action 'none'; "
      + "frame-ancestors 'none'\r\n"
      + "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
      + "Connection: close\r\n\r\n"
    return Array(head.utf8) + (isComplete ? page : [])
  }
}
