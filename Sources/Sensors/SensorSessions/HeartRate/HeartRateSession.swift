public import BLEHost
public import BLESensors
import BLEStack
public import BLEWire

/// Measurement of a heart-rate sensor, with its receive time.
public struct HeartRateSample: NotificationSample {
  public let time: ReceiveTime
  public let measurement: HeartRateMeasurement

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    self.init(try HeartRateMeasurement(decoding: value), at: time)
  }

  public init(_ measurement: HeartRateMeasurement, at time: ReceiveTime) {
    (self.measurement, self.time) = (measurement, time)
  }

  /// Whether the measurement has a value; `false` without skin contact.
  public var isValue: Bool { measurement.contact != .notDetected }

  /// Whether this may be the strap's last measurement for a while. Many straps that cannot detect contact
  /// send a rate of 0 before they stop.
  public var mayBeLast: Bool { !isValue || measurement.beatsPerMinute == 0 }

  /// Beats per minute; 0 if the strap has not found a rate yet.
  public var beatsPerMinute: Int { Int(measurement.beatsPerMinute) }

  /// Intervals between beats since the previous measurement, oldest first; exact multiples of 1/1024 s. Empty
  /// if the strap does not send intervals, or if no interval has ended.
  public var rrIntervals: [Duration] {
    // One tick is 10¹⁸ / 1024 attoseconds.
    measurement.rrIntervals.indices.map {
      Duration(secondsComponent: 0, attosecondsComponent: 976_562_500_000_000)
        * Int(measurement.rrIntervals[$0])
    }
  }
}

/// Connected heart-rate sensor and its stream.
///
/// Heart Rate Service 1.0.
public struct HeartRateSession: SensorSession {
  private let link: SensorLink

  /// Discovers the measurement characteristic and subscribes to it.
  ///
  /// - Parameters:
  ///   - settings: action before the first measurement.
  ///   - connection: connection to the strap.
  ///   - sink: receives each measurement.
  /// - Throws: `unsuitable` if the device has no heart-rate service, or if the energy must be reset and
  ///   there is no control point.
  public static func start(
    _ settings: Preparation, on connection: Connection, into sink: SampleSink<HeartRateSample>
  ) async throws(HostError) -> HeartRateSession {
    let need = SensorNeed(
      [.heartRateMeasurement], with: settings == .resetEnergy ? [.heartRateControlPoint] : [], of: .heartRate)
    return try await HeartRateSession(SensorLink(connection, need), settings, sink)
  }

  /// Returns settings without an action. Only the first link resets the energy, so that a session has one
  /// total.
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

  /// Resets the energy expended. Heart Rate Service 1.0, 3.3.
  private static func resetEnergy(_ link: SensorLink) async throws(HostError) {
    guard let point = link.characteristic(.heartRateControlPoint, in: .heartRate) else {
      throw link.lacks("heart-rate control point (2a39): it does not count energy, or cannot be reset")
    }
    do throws(GATTError) {
      try await link.connection.write(HeartRateCommand.resetEnergyExpended.octets, to: point.valueHandle)
    } catch { throw .gatt(error) }
  }

  /// Most sensors measure once a second. A strap that is not worn may send nothing, at first or later.
  public var silenceRule: SilenceRule? { SilenceRule(floor: .seconds(20), beginsAtOnce: false) }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  /// Unsubscribes from the measurements.
  public func stop() async { await link.stopListening() }
}
