package import BLELinux
import Synchronization

/// The other end of a bearer: answers each PDU according to a script, on a separate thread, and stores the
/// received PDUs.
package final class Peer: Sendable {
  /// Returns the PDUs to send in response to a PDU.
  package typealias Answer = @Sendable (_ pdu: [UInt8]) -> [[UInt8]]

  private struct State: Sendable {
    var received: [[UInt8]] = []
    var isAtEnd = false
    var waiters: [Waiter] = []
  }

  private struct Waiter: Sendable {
    let count: Int
    let continuation: CheckedContinuation<Void, Never>
  }

  package let descriptor: FileDescriptor
  private let state = Mutex(State())

  package init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }

  /// Starts a peer that reads until the other side closes.
  package static func start(
    _ descriptor: consuming FileDescriptor, _ answer: @escaping Answer = { _ in [] }
  ) throws(SystemError) -> Peer {
    let peer = Peer(descriptor)
    try peer.read(answer)
    return peer
  }

  /// Starts reading.
  package func read(_ answer: @escaping Answer = { _ in [] }) throws(SystemError) {
    try SystemThread.start(named: "peer") { [self] in
      var buffer = [UInt8](repeating: 0, count: 2048)
      while let count = try? descriptor.read(into: &buffer), count > 0 {
        let pdu = Array(buffer[..<count])
        // Stored first, so that a test that sees a response finds the request.
        notify { $0.received.append(pdu) }
        for reply in answer(pdu) { send(reply) }
      }
      notify { $0.isAtEnd = true }
    }
  }

  package func send(_ pdu: [UInt8]) { _ = try? descriptor.send(pdu.span) }

  /// Ends the link by closing both directions.
  package func hangUp() { descriptor.shutDown() }

  package var received: [[UInt8]] { state.withLock(\.received) }

  /// Waits for this number of PDUs, or the end.
  package func received(atLeast count: Int) async -> [[UInt8]] {
    await wait {
      $0.received.count >= count || $0.isAtEnd
    } count: {
      count
    }
    return received
  }

  /// Waits until the other side has closed.
  package func ended() async {
    await wait {
      $0.isAtEnd
    } count: {
      .max
    }
  }

  private func wait(_ isDone: (borrowing State) -> Bool, count: () -> Int) async {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        if isDone(state) { return true }
        state.waiters.append(Waiter(count: count(), continuation: continuation))
        return false
      }
      if isReady { continuation.resume() }
    }
  }

  private func notify(_ change: (inout sending State) -> Void) {
    let ready = state.withLock { state in
      change(&state)
      let ready = state.waiters.filter { $0.count <= state.received.count || state.isAtEnd }
      state.waiters.removeAll { $0.count <= state.received.count || state.isAtEnd }
      return ready
    }
    for waiter in ready { waiter.continuation.resume() }
  }
}
