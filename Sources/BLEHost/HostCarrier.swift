import BLECore
import BLESystem
import BLEWire

/// A link of our own host under a connection.
final class HostCarrier: BearerCarrier, @unchecked Sendable {
  // No lock: touched on the event loop's thread only.

  private let adapter: HostAdapter
  private let handle: ConnectionHandle
  private(set) var client: BearerClient?
  var disconnectReason: HCIStatus?

  init(_ adapter: HostAdapter, _ handle: ConnectionHandle) {
    self.adapter = adapter
    self.handle = handle
  }

  func attach(_ client: BearerClient) { self.client = client }

  func send(_ pdu: Span<UInt8>) throws(SystemError) {
    switch adapter.assumeIsolated({ $0.send(pdu, on: handle) }) {
    case .sent: return
    case .full: throw SystemError(call: "send", number: SystemError.full)
    case .gone: throw SystemError(call: "send", number: SystemError.gone)
    }
  }

  func close() {
    guard client != nil else { return }
    client = nil
    adapter.assumeIsolated { $0.disconnect(handle) }
  }

  /// The controller's flow control leaves nothing to drop between it and us but the transport's own queue.
  var kernelQueueDrops: Int { adapter.assumeIsolated { $0.transportDrops } }
  var receiveBufferByteCount: Int { 0 }
}
