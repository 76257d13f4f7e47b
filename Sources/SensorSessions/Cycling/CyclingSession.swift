public import BLECore
public import BLEHost
public import BLESensors
import BLEStack
import BLEWire

/// A measurement of a cyclist's sensor and when it came.
public struct CyclingSample: NotificationSample {
  public let time: ReceiveTime
  public let measurement: CyclingSpeed

  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    measurement = try CyclingSpeed(decoding: value)
    self.time = time
  }
}

/// A connected sensor of a bicycle's wheel, crank, or both, and its stream.
///
/// Cycling Speed and Cadence Service 1.0.
public struct CyclingSession: SensorSession {
  private let link: SensorLink
  private let measurement: GATTDatabase.Characteristic

  /// Finds the measurement and subscribes.
  ///
  /// - Throws: `unsuitable` where the device has no such service.
  public static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<CyclingSample>
  ) async throws(HostError) -> CyclingSession {
    let link = try await SensorLink(connection, ([.cscMeasurement], .cyclingSpeedAndCadence))
    return try await CyclingSession(link, sink)
  }

  private init(_ link: SensorLink, _ sink: SampleSink<CyclingSample>) async throws(HostError) {
    guard let measurement = link.characteristic(.cscMeasurement, in: .cyclingSpeedAndCadence) else {
      throw link.lacks("cycling speed and cadence service (1816)")
    }
    (self.link, self.measurement) = (link, measurement)
    do throws(GATTError) {
      _ = try await link.client.subscribe(measurement) { sink.take($0.value, at: $1) }
    } catch { throw .gatt(error) }
  }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  /// Tells the sensor to send no more.
  public func stop() async { try? await link.client.unsubscribe(all: measurement) }
}

/// Turns a minute from one measurement to the next.
public struct CyclingPace: Sendable {
  private var last: CyclingSample?

  public init() {}

  /// - Returns: of the wheel and of the crank; `nil` where nothing turned since the last one, or that is a minute ago: the
  ///   sensor's clock wraps every 64 s.
  public mutating func take(_ sample: CyclingSample) -> (wheel: Double?, crank: Double?) {
    defer { last = sample }
    guard let last, (sample.time - last.time).seconds < 60 else {
      return (nil, nil)
    }
    let (now, before) = (sample.measurement, last.measurement)
    return (now.wheelChange(since: before)?.perMinute, now.crankChange(since: before)?.perMinute)
  }
}
