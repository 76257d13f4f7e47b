public import BLEHost
public import BLESensors
import BLEStack
public import BLEWire

/// Measurement of a cycling sensor, with its receive time.
public struct CyclingSample: NotificationSample {
  public let time: ReceiveTime
  public let measurement: CyclingSpeed

  package init(_ measurement: CyclingSpeed, at time: ReceiveTime) {
    (self.measurement, self.time) = (measurement, time)
  }

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    measurement = try CyclingSpeed(decoding: value)
    self.time = time
  }
}

/// Connected cycling sensor for wheel, crank or both, and its stream of measurements.
///
/// Cycling Speed and Cadence Service 1.0.
public struct CyclingSession: SensorSession {
  private let link: SensorLink

  /// Discovers the measurement characteristic and subscribes to it.
  ///
  /// - Throws: `unsuitable` if the device does not have the service.
  public static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<CyclingSample>
  ) async throws(HostError) -> CyclingSession {
    let link = try await SensorLink(connection, SensorNeed([.cscMeasurement], of: .cyclingSpeedAndCadence))
    return try await CyclingSession(link, sink)
  }

  private init(_ link: SensorLink, _ sink: SampleSink<CyclingSample>) async throws(HostError) {
    guard link.characteristic(.cscMeasurement, in: .cyclingSpeedAndCadence) != nil else {
      throw link.lacks("cycling speed and cadence service (1816)")
    }
    self.link = link
    try await link.listen(to: .cscMeasurement, in: .cyclingSpeedAndCadence) { sink.take($0.value, at: $1) }
  }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  /// Unsubscribes from the measurements.
  public func stop() async { await link.stopListening() }
}
