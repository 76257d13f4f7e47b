package import BLEHost
package import BLELinux
package import BLEStack
package import BLEWire

/// Adapter with a connected datagram socket instead of a radio. Each datagram is one ATT PDU.
///
/// It uses the receive path of the `raw` mode without the kernel's Bluetooth stack, so that the cost of the
/// receive path can be measured.
package actor SocketAdapter: Adapter {
  package nonisolated let loop: EventLoop
  package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  package nonisolated let name = "socket"
  package nonisolated let mode = "socket"
  package let malformed = 0
  package var hooks: [any AdapterHook] = []

  private var descriptor: FileDescriptor?

  package init(_ descriptor: consuming FileDescriptor, on loop: EventLoop) {
    self.descriptor = consume descriptor
    self.loop = loop
  }

  package func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) { throw Self.noRadio }

  package func endScan() async throws(HostError) {}

  /// Connects. Works only once. The requested link parameters are ignored.
  package func link(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    guard let descriptor = descriptor.take() else { throw Self.noRadio }
    return try await Connection.adopt(descriptor, peer: peer, on: loop, tap: tap)
  }

  package func change(_ connection: Connection, to request: LinkRequest) async {}

  package func facts(of connection: Connection) async throws(HostError) -> LinkFacts { throw Self.noRadio }

  package func release() async { descriptor = nil }

  private static let noRadio = HostError.unsuitable(
    "not available: a socket is a single link, not a radio")
}
