public import BLEHost
public import BLESensors
import BLEStack
public import BLEWire

/// A temperature and when it came.
public struct TemperatureSample: NotificationSample {
  public enum Reading: Hashable, Sendable, BitwiseCopyable {
    /// A result of a thermometer's.
    case result(TemperatureMeasurement)
    /// On the way to one.
    case intermediate(TemperatureMeasurement)
    case core(CoreBodyTemperature)
  }

  public let time: ReceiveTime
  public let reading: Reading

  /// Decodes a result; the others are made where their characteristic is known.
  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    self.init(.result(try TemperatureMeasurement(decoding: value)), at: time)
  }

  public init(_ reading: Reading, at time: ReceiveTime) {
    self.time = time
    self.reading = reading
  }

  public var unit: TemperatureMeasurement.Unit {
    switch reading {
    case .result(let measurement), .intermediate(let measurement): measurement.unit
    case .core(let temperature): temperature.unit
    }
  }

  /// Whether it says that it is on no body: a thermometer by NaN, a CORE sensor by having no reading.
  public var isOffBody: Bool {
    switch reading {
    case .result(let measurement), .intermediate(let measurement): measurement.temperature == .nan
    case .core(let temperature): temperature.core == .none
    }
  }

  /// In degrees of `unit`; `nil` where the sensor is not on a body, or has no reading for another reason.
  public var degrees: Double? {
    switch reading {
    case .result(let measurement), .intermediate(let measurement): measurement.temperature.value
    case .core(let temperature): temperature.coreTemperature
    }
  }

  /// Without a reading there is a state and no number.
  public var isValue: Bool { degrees != nil }

  /// In degrees of another unit.
  public func degrees(in unit: TemperatureMeasurement.Unit) -> Double? {
    degrees.map { Self.convert($0, from: self.unit, to: unit) }
  }

  /// Degrees of one unit in those of another.
  public static func convert(
    _ degrees: Double, from unit: TemperatureMeasurement.Unit, to other: TemperatureMeasurement.Unit
  ) -> Double {
    guard unit != other else { return degrees }
    return other == .celsius ? (degrees - 32) / 1.8 : degrees * 1.8 + 32
  }
}

/// A connected thermometer or CORE sensor, and its stream.
///
/// Of a CORE sensor its own service is taken, once a second, instead of the Health Thermometer beside it, once in ten.
public struct ThermometerSession: SensorSession {
  public enum Kind: Hashable, Sendable {
    /// Health Thermometer Service 1.0.
    case healthThermometer
    /// CoreTemp BLE Service Specification 2.2.
    case core
  }

  public let kind: Kind

  private let link: SensorLink

  /// Finds the measurement and subscribes.
  ///
  /// - Throws: `unsuitable` where the device has neither service.
  public static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<TemperatureSample>
  ) async throws(HostError) -> ThermometerSession {
    let link = try await SensorLink(
      connection, SensorNeed([CoreUUID.bodyTemperature], of: CoreUUID.service),
      SensorNeed([.temperatureMeasurement, .intermediateTemperature], of: .healthThermometer))
    return try await ThermometerSession(link, sink)
  }

  private init(_ link: SensorLink, _ sink: SampleSink<TemperatureSample>) async throws(HostError) {
    self.link = link
    let service: BluetoothUUID
    // Results, and what a thermometer has on its way to them, where it tells.
    let wanted: [BluetoothUUID]
    if link.characteristic(CoreUUID.bodyTemperature, in: CoreUUID.service) != nil {
      (kind, service, wanted) = (.core, CoreUUID.service, [CoreUUID.bodyTemperature])
    } else {
      (kind, service) = (.healthThermometer, .healthThermometer)
      wanted = [.temperatureMeasurement, .intermediateTemperature].filter {
        link.characteristic($0, in: .healthThermometer) != nil
      }
    }
    guard !wanted.isEmpty else {
      throw link.lacks("thermometer service (1809) and is no CORE sensor")
    }
    for uuid in wanted {
      try await link.listen(to: uuid, in: service) { notification, time in
        let value = notification.value
        sink.take(at: time) { () throws(WireError) in
          .sample(TemperatureSample(try Self.reading(value, of: uuid), at: time))
        }
      }
    }
  }

  /// A CORE sensor sends once a second, on a body or not; a thermometer when it has measured.
  public var silenceRule: SilenceRule? {
    kind == .core ? SilenceRule(floor: .seconds(10), beginsAtOnce: false) : nil
  }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  private static func reading(
    _ value: Span<UInt8>, of characteristic: BluetoothUUID
  ) throws(WireError) -> TemperatureSample.Reading {
    switch characteristic {
    case CoreUUID.bodyTemperature: .core(try CoreBodyTemperature(decoding: value))
    case .intermediateTemperature: .intermediate(try TemperatureMeasurement(decoding: value))
    default: .result(try TemperatureMeasurement(decoding: value))
    }
  }

  /// Tells the sensor to send no more.
  public func stop() async { await link.stopListening() }
}
