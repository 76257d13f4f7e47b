import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// Reports each connection that is made with an adapter, and the connection's end.
struct LinkObserver: AdapterHook {
  /// Called on the loop's thread.
  let connected: @Sendable (Connection, SimulatedLink) -> Void

  func connect(
    to peer: DeviceAddress, asking request: LinkRequest, on loop: EventLoop,
    _ link: (LinkRequest) async throws(HostError) -> Connection
  ) async throws(HostError) -> Connection {
    let connection = try await link(request)
    let link = SimulatedLink(connection.handle)
    Task(executorPreference: loop) {
      _ = await connection.ended()
      link.endedAt = loop.clock.monotonic()
    }
    connected(connection, link)
    return connection
  }
}
