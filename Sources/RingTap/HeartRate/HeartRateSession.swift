public import BLECore
public import BLEHost
public import BLESensors
import BLEStack

/// A measurement of a heart-rate sensor and when it came.
public struct HeartRateSample: NotificationSample {
  public let time: ReceiveTime
  public let measurement: HeartRateMeasurement

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    measurement = try HeartRateMeasurement(decoding: value)
    self.time = time
  }
}

/// A connected heart-rate sensor: who it is, where it is worn, and its stream.
///
/// Heart Rate Service 1.0.
public struct HeartRateSession: Sendable {
  /// Measurements that may wait for a slow reader.
  static let queueLimit = 1024

  public let facts: SensorFacts
  /// `nil` where the sensor does not tell: it need not.
  public let location: BodySensorLocation?
  /// Values that could not be decoded are counted by it, and skipped.
  public let samples: SampleChannel<HeartRateSample>

  private let link: SensorLink
  private let measurement: GATTDatabase.Characteristic

  /// Discovers, reads, and subscribes.
  ///
  /// - Parameter preparation: what is done before the first measurement comes.
  /// - Throws: `unsuitable` where the device has no heart-rate service, or no control point though the energy shall be reset.
  public static func start(
    on connection: Connection, _ preparation: Preparation = .none
  ) async throws(HostError) -> HeartRateSession {
    try await HeartRateSession(SensorLink(connection), preparation)
  }

  public enum Preparation: Hashable, Sendable {
    case none
    /// Sets the energy expended to 0.
    case resetEnergy
  }

  private init(_ link: SensorLink, _ preparation: Preparation) async throws(HostError) {
    guard let measurement = link.characteristic(.heartRateMeasurement, in: .heartRate) else {
      throw link.lacks("heart-rate service (180d)")
    }
    self.link = link
    self.measurement = measurement
    facts = try await link.facts()
    location = try await link.decoded(BodySensorLocation.self, .bodySensorLocation, in: .heartRate)
    if preparation == .resetEnergy { try await Self.resetEnergy(link) }
    do throws(GATTError) {
      samples = try await link.client.samples(
        measurement, as: HeartRateSample.self, capacity: Self.queueLimit)
    } catch { throw .gatt(error) }
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

  /// Tells the sensor to send no more.
  public func stop() async { try? await link.client.unsubscribe(all: measurement) }
}
