import Outlets

/// A request to a WebSocket's port, and the frames after it. Whatever is accepted has a key and no foreign
/// origin, and no cut between the bytes changes the frames.
func fuzzWebSocket(_ input: Span<UInt8>) {
  let octets = input.indices.map { input[$0] }
  fuzzRequest(octets)
  fuzzFrames(octets)
}

private func fuzzRequest(_ octets: [UInt8]) {
  guard case .web(let place)? = try? StreamTarget("ws://:8080") else { preconditionFailure("a valid place") }
  let request: WebRequest
  do throws(WebRefusal) { request = try WebRequest(head: octets) } catch {
    return precondition([400, 431, 505].contains(error.status))
  }
  do throws(WebRefusal) {
    switch try place.answer(to: request, on: "machine") {
    case .page(let authority, _):
      // Part of a header field of the response.
      let letters = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]".utf8
      precondition(!authority.isEmpty && authority.utf8.allSatisfy(letters.contains))
    case .webSocket(let accept):
      precondition(accept.utf8.count == 28 && accept.hasSuffix("="))
      precondition(request["sec-websocket-key"]?.utf8.count == 24)
      if let origin = request["origin"], let host = request["host"] {
        precondition(origin.lowercased() == "http://" + host.lowercased())
      }
    }
  } catch { precondition((400...431).contains(error.status)) }
}

private func fuzzFrames(_ octets: [UInt8]) {
  var (whole, single) = (WebSocketReader(), WebSocketReader())
  let events = whole.take(octets.span)
  precondition(octets.flatMap { single.take([$0].span) } == events)
  for (place, event) in events.enumerated() {
    switch event {
    case .ping(let payload): precondition(payload.count <= 125)
    case .pong: break
    case .close(let code):
      precondition(place == events.count - 1)
      if let code { precondition((1000...4999).contains(code)) }
    case .violation(_, let reason):
      precondition(place == events.count - 1 && reason.utf8.count <= 123)
    }
  }
}
