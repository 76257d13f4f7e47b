package import BLECore
package import BLEHost
import BLELinux
package import SensorSessions

/// What a capture does with each link to a ring, without its files: for whoever takes the place of its recorder.
package final class RingReception: Sendable {
  package struct Counts: Hashable, Sendable {
    package var samples = 0
    package var malformed = 0
    package var other = 0
    package var repeated = 0
    /// Samples that found no room in the queue.
    package var dropped = 0

    package init() {}
  }

  private let sink = RingSink(limit: nil, tap: nil)

  package init() {}

  package func run(_ session: DeviceSession) async throws(HostError) {
    try await session.run(RingProfile(sink))
  }

  package var counts: Counts {
    var counts = Counts()
    counts.samples = sink.sampleCount
    counts.malformed = sink.malformed
    counts.other = sink.other
    counts.repeated = sink.repeated
    counts.dropped = sink.samples.dropped
    return counts
  }

  /// Raw samples that came, whether they found room in the queue or not.
  package var sampleCount: Int { sink.sampleCount }

  /// Takes what waits in the queue.
  package func drain(_ body: (ReceiveTime) -> Void) {
    while let sample = sink.samples.pop() { body(sample.time) }
  }
}
