import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// An adapter that reports each connection that is made with it, and the connection's end.
actor SimulatedAdapter: Adapter {
  typealias Observer = @Sendable (Connection, SimulatedLink) -> Void

  private let base: HostAdapter
  private let connected: Observer

  nonisolated var name: String { base.name }
  nonisolated var mode: String { base.mode }
  nonisolated var loop: EventLoop { base.loop }
  nonisolated var unownedExecutor: UnownedSerialExecutor { base.loop.executor }

  /// - Parameter connected: called on the loop's thread.
  init(_ base: HostAdapter, connected: @escaping Observer) {
    self.base = base
    self.connected = connected
  }

  var malformed: Int { get async { await base.malformed } }
  var faults: Int { get async { await base.faults } }
  var unfinishedReports: Int { get async { await base.unfinishedReports } }

  func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    try await base.startScan(kind, timing: timing, duplicates: duplicates, sink)
  }

  func stopScan() async throws(HostError) { try await base.stopScan() }

  func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let connection = try await base.connect(to: peer, asking: request, timeout: timeout, tap: tap)
    let link = SimulatedLink(connection.handle)
    let loop = base.loop
    Task(executorPreference: loop) {
      _ = await connection.ended()
      link.endedAt = loop.clock.monotonic()
    }
    connected(connection, link)
    return connection
  }

  func change(_ connection: Connection, to request: LinkRequest) async {
    await base.change(connection, to: request)
  }

  func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    try await base.facts(of: connection)
  }

  func onLost(_ body: @escaping @Sendable () -> Void) async { await base.onLost(body) }

  func close() async { await base.close() }
}
