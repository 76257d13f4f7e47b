/// Answers the requests of a connection's peer instead of the built-in server, which has only two services.
package final class AttributeResponder: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// Processes a request, command or confirmation with the current MTU. Returns the response; empty if none
  /// is due.
  package typealias Answer = (Span<UInt8>, _ mtu: Int) -> [UInt8]

  let answer: Answer
  package init(_ answer: @escaping Answer) { self.answer = answer }
}
