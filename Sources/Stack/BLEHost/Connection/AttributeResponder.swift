/// Answers what the peer of a connection asks of our attributes, in the place of the two services that each host has.
package final class AttributeResponder: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// Takes a request, command or confirmation and the MTU in force; gives the answer, empty where none is due.
  package typealias Answer = (Span<UInt8>, _ mtu: Int) -> [UInt8]

  let answer: Answer
  package init(_ answer: @escaping Answer) { self.answer = answer }
}
