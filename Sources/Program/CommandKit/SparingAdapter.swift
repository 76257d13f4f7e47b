package import BLEHost
package import BLELinux
package import BLEStack
package import BLEWire

/// A kernel adapter that drops this process's capabilities after its last new link or scan.
///
/// The kernel requires CAP_NET_ADMIN to open a management socket and to enlarge a link's receive queue. It
/// requires CAP_NET_RAW for each command on the raw channel: a scan in raw mode, or a change of link
/// parameters.
package actor SparingAdapter: Adapter {
  private let base: any Adapter
  /// Number of links that are still to be connected; 0 for a scan.
  private var linksToCome: Int
  /// Number of links that still use fast-start parameters.
  private var unsettled = 0
  /// Capabilities that are still needed after all links are connected and have left fast start.
  private var kept: Set<ProcessFacts.Capability> = []

  package nonisolated var name: String { base.name }
  package nonisolated var mode: String { base.mode }
  package nonisolated var loop: EventLoop { base.loop }
  package nonisolated var securing: (any SecuringAdapter)? { base.securing }
  package nonisolated var exclusive: HostAdapter? { base.exclusive }
  package nonisolated var innermost: any Adapter { base.innermost }
  package nonisolated var unownedExecutor: UnownedSerialExecutor { base.loop.executor }

  package init(_ base: any Adapter, links: Int) {
    (self.base, linksToCome) = (base, links)
  }

  package var malformed: Int { get async { await base.malformed } }
  package var faults: Int { get async { await base.faults } }
  package var unfinishedReports: Int { get async { await base.unfinishedReports } }
  package var addressResolver: AddressResolver? { get async { await base.addressResolver } }

  package func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) {
    try await base.startScan(kind, timing: timing, duplicates: duplicates, sink)
    if linksToCome == 0 { ProcessRights.keep(mode == "raw" ? [.netRaw] : []) }
  }

  package func stopScan() async throws(HostError) {
    defer { if linksToCome == 0 { ProcessRights.keep([]) } }
    try await base.stopScan()
  }

  package func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let connection = try await base.connect(to: peer, asking: request, timeout: timeout, tap: tap)
    guard linksToCome > 0 else { return connection }
    linksToCome -= 1
    unsettled += 1
    // After a reconnection, the same request is sent for the new link.
    if !request.isEmpty { kept = [.netRaw] }
    if linksToCome == 0 { ProcessRights.keep([.netRaw]) }
    loop.task {
      await connection.fastStartEnded()
      await self.settled()
    }
    return connection
  }

  private func settled() {
    unsettled -= 1
    if linksToCome == 0, unsettled == 0 { ProcessRights.keep(kept) }
  }

  package func change(_ connection: Connection, to request: LinkRequest) async {
    await base.change(connection, to: request)
  }

  package func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    try await base.facts(of: connection)
  }

  package func onLost(_ body: @escaping @Sendable () -> Void) async { await base.onLost(body) }

  package func hold(while body: @escaping @Sendable () -> Bool) async { await base.hold(while: body) }

  package func close() async { await base.close() }
}
