public import BLEHost
public import BLESensors
import BLEStack
public import BLEWire

/// A measurement of a heart-rate sensor and when it came.
public struct HeartRateSample: NotificationSample {
  public let time: ReceiveTime
  public let measurement: HeartRateMeasurement

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    self.init(try HeartRateMeasurement(decoding: value), at: time)
  }

  public init(_ measurement: HeartRateMeasurement, at time: ReceiveTime) {
    (self.measurement, self.time) = (measurement, time)
  }

  /// Without contact there is nothing to measure.
  public var isValue: Bool { measurement.contact != .notDetected }

  /// Many straps without contact detection send a rate of 0 before they stop.
  public var mayBeLast: Bool { !isValue || measurement.beatsPerMinute == 0 }

  /// Beats a minute; 0 where the strap has found none yet.
  public var beatsPerMinute: Int { Int(measurement.beatsPerMinute) }

  /// The times between successive beats that have ended since the measurement before, oldest first; exact multiples of
  /// 1/1024 s. Empty where the strap does not send them, or none has ended.
  public var rrIntervals: [Duration] {
    // 10¹⁸ / 1024.
    measurement.rrIntervals.indices.map {
      Duration(secondsComponent: 0, attosecondsComponent: 976_562_500_000_000)
        * Int(measurement.rrIntervals[$0])
    }
  }
}

/// A connected heart-rate sensor and its stream.
///
/// Heart Rate Service 1.0.
public struct HeartRateSession: SensorSession {
  private let link: SensorLink

  /// Finds the measurement and subscribes.
  ///
  /// - Parameters:
  ///   - settings: what is done before the first measurement comes.
  ///   - connection: a link to the strap.
  ///   - sink: takes each measurement.
  /// - Throws: `unsuitable` where the device has no heart-rate service, or no control point though the energy shall be reset.
  public static func start(
    _ settings: Preparation, on connection: Connection, into sink: SampleSink<HeartRateSample>
  ) async throws(HostError) -> HeartRateSession {
    let need = SensorNeed(
      [.heartRateMeasurement], with: settings == .resetEnergy ? [.heartRateControlPoint] : [], of: .heartRate)
    return try await HeartRateSession(SensorLink(connection, need), settings, sink)
  }

  /// A reset is for the first link: the energy of a session is one sum.
  public static func again(_ settings: Preparation) -> Preparation { .none }

  public enum Preparation: Hashable, Sendable {
    case none
    /// Sets the energy expended to 0.
    case resetEnergy
  }

  private init(
    _ link: SensorLink, _ preparation: Preparation, _ sink: SampleSink<HeartRateSample>
  ) async throws(HostError) {
    guard link.characteristic(.heartRateMeasurement, in: .heartRate) != nil else {
      throw link.lacks("heart-rate service (180d)")
    }
    self.link = link
    if preparation == .resetEnergy { try await Self.resetEnergy(link) }
    try await link.listen(to: .heartRateMeasurement, in: .heartRate) { sink.take($0.value, at: $1) }
  }

  /// Heart Rate Service 1.0, 3.3.
  private static func resetEnergy(_ link: SensorLink) async throws(HostError) {
    guard let point = link.characteristic(.heartRateControlPoint, in: .heartRate) else {
      throw link.lacks("heart-rate control point (2a39): it does not count energy, or cannot be reset")
    }
    do throws(GATTError) {
      try await link.client.write(HeartRateCommand.resetEnergyExpended.octets, to: point.valueHandle)
    } catch { throw .gatt(error) }
  }

  /// A measurement a second is usual. A strap that is not worn may say nothing at first, and later.
  public var silenceRule: SilenceRule? { SilenceRule(floor: .seconds(20), beginsAtOnce: false) }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  /// Tells the sensor to send no more.
  public func stop() async { await link.stopListening() }
}
