import BLELinux
import BLEWire
import Synchronization

/// A listening port that serves the lines of a stream as a WebSocket, and a page that plots the samples.
///
/// Each connection has a thread that reads from it. A client that has not completed its request is
/// disconnected after 5 s, or earlier if there are too many such clients. RFC 6455 and RFC 9112.
final class WebPort: Sendable {
  /// Adds a reader.
  ///
  /// - Returns: a closure to call after the reader has disconnected; `nil` if there are too many readers.
  typealias Join = @Sendable (WebClient) -> (@Sendable () -> Void)?

  /// Time limit for a request, and for a response that does not open a WebSocket.
  static let requestTime = Duration.seconds(5)
  private static let requestLimit = Limit(
    16, "clients of a WebSocket's port that have sent no request", by: .program,
    whenFull: "the one that has waited longest is disconnected", counted: "nowhere")

  private let place: WebPlace
  private let port: ReaderPort
  private let requestTime: Duration
  /// Clients that have not opened a WebSocket, oldest first.
  private let waiting = Mutex<[WebClient]>([])

  /// Opens the port.
  ///
  /// - Throws: EADDRINUSE if the port is in use.
  init(_ place: WebPlace, requestTime: Duration = WebPort.requestTime) throws(SystemError) {
    (self.place, self.requestTime) = (place, requestTime)
    port = try ReaderPort(.tcp(host: place.host, port: place.port))
  }

  /// Stops accepting clients. May be called repeatedly.
  func close() { port.close() }

  /// Serves clients, and blocks until `close` is called.
  func serve(_ join: @escaping Join) {
    while let descriptor = port.next() {
      guard let client = try? WebClient(descriptor) else { continue }
      let givenUp = waiting.withLock { waiting in
        waiting.append(client)
        return waiting.count > Self.requestLimit.count ? waiting.removeFirst() : nil
      }
      givenUp?.close()
      do throws(SystemError) {
        try SystemThread.start(named: "ringtap-web", as: .patient) { [self] in
          serve(client, join)
          forget(client)
          client.close()
        }
      } catch {
        forget(client)
        client.close()
      }
    }
  }

  private func forget(_ client: WebClient) { waiting.withLock { $0.removeAll { $0 === client } } }

  private func serve(_ client: WebClient, _ join: Join) {
    let deadline = SystemClock.monotonic().advanced(by: requestTime)
    do throws(WebRefusal) {
      guard let (request, rest) = try Self.request(of: client, before: deadline) else { return }
      switch try place.answer(to: request, on: ProcessFacts.hostName) {
      case .page(let authority, let isComplete):
        respond(client, LivePage.response(authority, isComplete: isComplete), before: deadline)
      case .webSocket(let accept):
        client.setResponse(Self.switching(accept))
        guard let leave = join(client) else {
          client.setResponse(nil)
          throw .full
        }
        forget(client)
        client.sendPending()
        Self.read(client, after: rest)
        leave()
      }
    } catch { respond(client, error.response, before: deadline) }
  }

  // MARK: HTTP

  /// Reads a request.
  ///
  /// - Returns: the request and the bytes after it; `nil` if the client has disconnected or sent nothing.
  private static func request(
    of client: WebClient, before deadline: MonotonicTime
  ) throws(WebRefusal) -> (WebRequest, [UInt8])? {
    var (head, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: 4096))
    while true {
      guard let count = client.read(into: &buffer, before: deadline) else {
        if head.isEmpty { return nil }
        throw .late
      }
      guard count > 0 else { return nil }
      for place in 0..<count {
        head.append(buffer[place])
        if head.last == UInt8(ascii: "\n"), head.suffix(4).elementsEqual("\r\n\r\n".utf8) {
          return (try WebRequest(head: head), Array(buffer[(place + 1)..<count]))
        }
        guard head.count < WebRequest.headLimit.count else { throw .tooLarge }
      }
    }
  }

  private static func switching(_ accept: String) -> [UInt8] {
    Array(
      ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Accept: \(accept)\r\n\r\n").utf8)
  }

  private func respond(_ client: WebClient, _ octets: [UInt8], before deadline: MonotonicTime) {
    guard (try? client.send(octets.span, before: deadline)) != nil else { return }
    client.descriptor.shutDownWriting()
    Self.discard(client)
  }

  /// Discards input until the client closes its side. Closing a socket with unread input would reset the
  /// connection and lose the response.
  private static func discard(_ client: WebClient) {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let deadline = SystemClock.monotonic().advanced(by: .milliseconds(WebClient.closingMilliseconds))
    while let count = client.read(into: &buffer, before: deadline), count > 0 {}
  }

  // MARK: WebSocket

  /// Reads frames until the connection ends.
  ///
  /// - Parameter first: bytes that were received together with the request.
  private static func read(_ client: WebClient, after first: [UInt8]) {
    defer { client.noteOver() }
    var (reader, buffer) = (WebSocketReader(), [UInt8](repeating: 0, count: 4096))
    var events = reader.take(first.span)
    while true {
      for event in events {
        switch event {
        case .ping(let payload): client.pong(payload)
        case .pong: break
        case .close(let code):
          client.confirm(code)
          client.noteOver()
          return discard(client)
        case .violation(let code, let reason):
          client.disconnect(code, reason)
          return discard(client)
        }
      }
      guard let count = client.read(into: &buffer), count > 0 else { return }
      events = reader.take(buffer.span.extracting(..<count))
    }
  }
}

extension WebRefusal {
  fileprivate var response: [UInt8] {
    let body = text + "\n"
    return Array(
      ("HTTP/1.1 \(status) \(phrase)\r\nContent-Type: text/plain; charset=utf-8\r\n"
        + "Content-Length: \(body.utf8.count)\r\nX-Content-Type-Options: nosniff\r\n\(fields)"
        + "Connection: close\r\n\r\n\(body)").utf8)
  }
}
