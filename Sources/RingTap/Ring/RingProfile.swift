import BLEHost
import BLEStack
import Synchronization

/// A session with a ring's raw stream.
///
/// A link after the first uses the handles that were found before: fifteen round trips less. A ring that has changed
/// meanwhile refuses them; then they are looked for again.
final class RingProfile: SessionProfile {
  /// How long the ring may take to obey a stop.
  private static let stopPatience = Duration.seconds(2)

  private let sink: RingSink
  private let known = Mutex<RingLink.Attributes?>(nil)
  private let prepare: @Sendable (Connection) async throws(HostError) -> Void

  /// - Parameter prepare: what is done on each link before the stream starts, where it is known to be a ring's.
  init(
    _ sink: RingSink, prepare: @escaping @Sendable (Connection) async throws(HostError) -> Void = { _ in }
  ) {
    self.sink = sink
    self.prepare = prepare
  }

  var times: SampleTimes { sink.times }

  func start(on connection: Connection) async throws(HostError) -> RingLink {
    sink.beginLink()
    if let attributes = known.withLock({ $0 }) {
      let ring = try await RingLink(connection, known: attributes)
      do throws(HostError) { return try await start(ring) } catch {
        guard case .gatt(.refused) = error else { throw error }
      }
    }
    return try await start(try await RingLink(connection))
  }

  private func start(_ ring: RingLink) async throws(HostError) -> RingLink {
    try await prepare(ring.connection)
    try await ring.startRaw { [sink] in sink.take($0, at: $1) }
    known.withLock { $0 = ring.attributes }
    return ring
  }

  func stop(_ ring: RingLink) async { await ring.stopRaw(within: Self.stopPatience) }
}
