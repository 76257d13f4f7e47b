import BLECore
import BLESystem

/// A link of our own host under a connection.
final class HostCarrier: BearerCarrier {
  private let adapter: HostAdapter
  private let handle: ConnectionHandle

  init(_ adapter: HostAdapter, _ handle: ConnectionHandle) {
    self.adapter = adapter
    self.handle = handle
  }

  func send(_ pdu: Span<UInt8>) throws(SystemError) {
    switch adapter.assumeIsolated({ $0.send(pdu, on: handle) }) {
    case .sent: return
    case .full: throw SystemError(call: "send", number: SystemError.full)
    case .gone: throw SystemError(call: "send", number: SystemError.gone)
    }
  }

  func close() { adapter.assumeIsolated { $0.disconnect(handle) } }

  /// The controller's flow control leaves nothing to drop between it and us but the transport's own queue.
  var kernelQueueDrops: Int { adapter.assumeIsolated { $0.transportDrops } }
  var receiveBufferByteCount: Int { 0 }
}
