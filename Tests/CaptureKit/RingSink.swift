import BLEHost
package import BLELinux
package import BLEWire
import ColmiRing
package import Recording
package import SensorSessions

/// Passes notifications to the sink of a ring's recording.
package final class RingSink: Sendable {
  private let sink: SampleSink<RingRawReading>
  private let source = RawSource()

  package init(limit: Int? = nil, ended: @escaping @Sendable (SampleEnd) -> Void = { _ in }) {
    sink = SampleSink(
      SampleChannel(capacity: RingSession.queueCapacity), for: .recorder, limit: limit, ended: ended)
  }

  package var samples: SampleQueue<RingRawReading> { sink.samples.ring }
  package var counts: SampleCounts { sink.counts }
  package var lastMalformed: WireError? { sink.lastMalformed }

  /// Passes a notification as the receive thread does.
  package func take(_ value: [UInt8], on handle: UInt16 = 5, at nanoseconds: Int64 = 1) {
    sink.take(
      HandleValueNotification(handle: AttributeHandle(handle), value: value.span), of: source,
      at: ReceiveTime(nanoseconds: nanoseconds))
  }
}

extension Recorder {
  /// Starts a recording of a ring.
  package static func start(
    in directory: String, _ sink: RingSink, as format: TableFormat = .csv, packets: PacketQueue?
  ) async throws(SystemError) -> Recorder {
    try await start(in: directory, sink.samples, RingTables(), as: format, packets: packets)
  }
}
