/// Answers the requests of a connection's peer, instead of the built-in server with its two services.
package final class AttributeResponder: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// Takes a request, command or confirmation and the current MTU; returns the response, empty if none is
  /// due.
  package typealias Answer = (Span<UInt8>, _ mtu: Int) -> [UInt8]

  let answer: Answer
  package init(_ answer: @escaping Answer) { self.answer = answer }
}
