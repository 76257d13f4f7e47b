import BLEHost
import BLEStack
import SensorSessions

/// A session with a ring's raw stream.
final class RingProfile: SessionProfile {
  /// How long the ring may take to obey a stop.
  private static let stopPatience = Duration.seconds(2)

  private let sink: RingSink
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
    let ring = try await RingLink(connection, isForStream: true)
    try await prepare(connection)
    try await ring.startRaw { [sink] in sink.take($0, at: $1) }
    return ring
  }

  func complete(_ ring: RingLink) async {
    // What ends the link ends the session's wait for it too; a refusal changes nothing.
    try? await ring.listenFurther(isSilent: times.first == nil) { [sink] in sink.take($0, at: $1) }
  }

  func stop(_ ring: RingLink) async { await ring.stopRaw(within: Self.stopPatience) }
}
