package import BLEHost
package import BLELinux
package import BLEWire
import Synchronization

/// Drops this process's capabilities after the last new link or scan of a kernel adapter.
///
/// The kernel requires CAP_NET_ADMIN to open a management socket and to enlarge a link's receive queue. The
/// kernel requires CAP_NET_RAW for each command on the raw channel: a scan in raw mode, or a change of link
/// parameters.
package final class SparedRights: AdapterHook {
  private struct State: Sendable {
    /// Number of links that are still to be connected; 0 for a scan.
    var linksToCome: Int
    /// Number of links that still use fast-start parameters.
    var unsettled = 0
    /// Capabilities that are still needed after all links are connected and have left fast start.
    var kept: Set<ProcessFacts.Capability> = []
  }

  private let state: Mutex<State>
  private let neededToScan: Set<ProcessFacts.Capability>

  /// Creates a hook for an adapter.
  ///
  /// - Parameters:
  ///   - links: number of links that will be connected; 0 for a scan.
  ///   - discovery: the adapter's kind of scan.
  package init(after links: Int, _ discovery: KernelAdapter.Discovery) {
    state = Mutex(State(linksToCome: links))
    neededToScan = discovery == .rawChannel ? [.netRaw] : []
  }

  private var isForScan: Bool { state.withLock { $0.linksToCome == 0 } }

  package func scanStarted() { if isForScan { ProcessRights.keep(neededToScan) } }

  package func scanStopped() { if isForScan { ProcessRights.keep([]) } }

  package func connect(
    to peer: DeviceAddress, asking request: LinkRequest, on loop: EventLoop,
    _ link: (LinkRequest) async throws(HostError) -> Connection
  ) async throws(HostError) -> Connection {
    let connection = try await link(request)
    let linksToCome: Int? = state.withLock { state in
      guard state.linksToCome > 0 else { return nil }
      state.linksToCome -= 1
      state.unsettled += 1
      // After a reconnection, the session sends the same request for the new link.
      if !request.isEmpty { state.kept = [.netRaw] }
      return state.linksToCome
    }
    guard let linksToCome else { return connection }
    if linksToCome == 0 { ProcessRights.keep([.netRaw]) }
    loop.task {
      await connection.fastStartEnded()
      self.settled()
    }
    return connection
  }

  private func settled() {
    let kept: Set<ProcessFacts.Capability>? = state.withLock { state in
      state.unsettled -= 1
      return state.linksToCome == 0 && state.unsettled == 0 ? state.kept : nil
    }
    if let kept { ProcessRights.keep(kept) }
  }
}
