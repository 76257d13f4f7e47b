public import BLEHost
import BLEStack
public import BLEWire
public import ColmiRing
import Synchronization

/// Raw sample of a ring with its kernel timestamp, decoded on the receive thread.
public struct RingRawReading: NotificationSample, BitwiseCopyable {
  public let time: ReceiveTime
  public let sample: RingRawSample
  /// Number of the link that delivered the sample. Later links have higher numbers.
  package let link: Int

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    sample = try RingRawSample(decoding: value)
    self.time = time
    link = 0
  }

  package init(time: ReceiveTime, sample: RingRawSample, link: Int = 0) {
    self.time = time
    self.sample = sample
    self.link = link
  }
}

extension RingRawReading: CustomStringConvertible {
  /// Counts of the sensor without the time: `ppg 10625`, `spo2 8123`, `accelerometer 12 -7 511`.
  public var description: String {
    switch sample {
    case .accelerometer(let sample): "accelerometer \(sample.x) \(sample.y) \(sample.z)"
    case .ppg(let sample): "ppg \(sample.value)"
    case .spO2(let sample): "spo2 \(sample.value)"
    case .unknown(let subtype): "unknown subtype \(subtype)"
    }
  }
}

/// Connected ring and its raw stream, for readers of live samples.
public struct RingSession: SensorSession {
  /// Timeout for stopping the ring.
  private static let stopPatience = Duration.seconds(2)

  /// Capacity of the sample queue, about 8 s of the fastest stream (2,083 samples per second).
  public static let queueCapacity = 1 << 14
  private let ring: RingLink
  private let times: SampleTimes
  private let take: @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void

  /// Finds the stream's characteristics, subscribes, and starts the stream.
  ///
  /// - Throws: `unsuitable` if the device has no ring service.
  public static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<RingRawReading>
  ) async throws(HostError) -> RingSession {
    let ring = try await RingLink(toStream: connection)
    let source = RawSource()
    let number = sink.nextLink()
    let session = RingSession(ring: ring, times: sink.times) {
      sink.take($0, of: source, at: $1, link: number)
    }
    try await ring.startRaw(session.take)
    return session
  }

  /// Subscribes to the second channel.
  ///
  /// - Returns: empty facts. `ringtap ring info` reads the identity.
  public func complete() async throws(HostError) -> SensorFacts? {
    do throws(GATTError) {
      try await ring.listenFurther(isSilent: times.first == nil, take)
    } catch { throw .gatt(error) }
    return SensorFacts()
  }

  /// A ring with standard firmware sends one sample of each kind per second.
  public var silenceRule: SilenceRule? { SilenceRule(floor: SilenceRule.shortestFloor, beginsAtOnce: true) }

  public func stop() async { await ring.stopRaw(within: Self.stopPatience) }
}

extension SampleSink<RingRawReading> {
  /// Checks, decodes and queues one notification of a ring. Call on the receive thread only.
  package func take(
    _ notification: borrowing HandleValueNotification, of source: RawSource, at time: ReceiveTime,
    link: Int = 0
  ) {
    let (value, handle) = (notification.value, notification.handle)
    take(at: time) { () throws(WireError) in
      let frame = try RingFrame(validating: value)
      guard let sample = RingRawSample(raw: frame) else { return .other }
      return source.isFirst(handle)
        ? .sample(RingRawReading(time: time, sample: sample, link: link)) : .repeated
    }
  }
}

/// Attribute that delivered the first value on a link. Some rings repeat the stream on a second attribute,
/// and some sensors have two characteristics of one type.
package final class RawSource: Sendable {
  private let known = Atomic<UInt16>(0)

  package init() {}

  /// Handle of the attribute; `nil` before the first value.
  package var first: AttributeHandle? {
    let source = known.load(ordering: .relaxed)
    return source == 0 ? nil : AttributeHandle(source)
  }

  /// Returns whether the attribute delivered the link's first value. Call on the receive thread only.
  package func isFirst(_ handle: AttributeHandle) -> Bool {
    let source = known.load(ordering: .relaxed)
    if source == 0 { known.store(handle.rawValue, ordering: .relaxed) }
    return source == 0 || source == handle.rawValue
  }
}
