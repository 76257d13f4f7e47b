public import BLECore
public import BLEHost
import BLEStack
import BLEWire
public import ColmiRing
import Synchronization

/// A raw sample of a ring with its kernel stamp, decoded on the receive thread.
public struct RingRawReading: NotificationSample, BitwiseCopyable {
  public let time: ReceiveTime
  public let sample: RingRawSample

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    sample = try RingRawSample(decoding: value)
    self.time = time
  }

  package init(time: ReceiveTime, sample: RingRawSample) {
    self.time = time
    self.sample = sample
  }
}

extension RingRawReading: CustomStringConvertible {
  /// The sensor's counts, without the time: `ppg 10625`, `spo2 8123`, `accelerometer 12 -7 511`.
  public var description: String {
    switch sample {
    case .accelerometer(let sample): "accelerometer \(sample.x) \(sample.y) \(sample.z)"
    case .ppg(let sample): "ppg \(sample.value)"
    case .spO2(let sample): "spo2 \(sample.value)"
    case .unknown(let subtype): "unknown subtype \(subtype)"
    }
  }
}

/// A connected ring whose raw stream runs, for whoever wants the samples as they come; `RingCapture` records them.
public struct RingSession: SensorSession {
  /// How long the ring may take to obey a stop.
  private static let stopPatience = Duration.seconds(2)

  /// Nothing: `ringtap ring info` asks for it.
  public let facts = SensorFacts()
  private let ring: RingLink
  private let times: SampleTimes
  private let take: @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void

  /// Discovers, subscribes and starts the stream.
  ///
  /// - Throws: `unsuitable` where the device has no ring service.
  public static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<RingRawReading>
  ) async throws(HostError) -> RingSession {
    let ring = try await RingLink(connection, isForStream: true)
    let source = RawSource()
    let session = RingSession(ring: ring, times: sink.times) { notification, time in
      let value = notification.value
      // Answers to commands come the same way.
      guard value.count != RingFrame.byteCount || value[0] == RingCommand.rawStreamOpcode,
        source.isFirst(notification.handle)
      else { return }
      sink.take(value, at: time)
    }
    try await ring.startRaw(session.take)
    return session
  }

  public func complete() async { try? await ring.listenFurther(isSilent: times.first == nil, take) }

  public func stop() async { await ring.stopRaw(within: Self.stopPatience) }
}

/// The attribute that brought the first raw frame of a link: some rings repeat the stream on a second one.
package final class RawSource: Sendable {
  private let known = Atomic<UInt16>(0)

  package init() {}

  /// Receive thread only.
  package func isFirst(_ handle: AttributeHandle) -> Bool {
    let source = known.load(ordering: .relaxed)
    if source == 0 { known.store(handle.rawValue, ordering: .relaxed) }
    return source == 0 || source == handle.rawValue
  }

  /// Another link has come up: the stream may come by another attribute. Nothing comes over the one before.
  package func forget() { known.store(0, ordering: .relaxed) }
}
