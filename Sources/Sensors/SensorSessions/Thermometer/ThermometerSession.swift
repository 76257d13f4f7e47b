public import BLEHost
public import BLESensors
import BLEStack
public import BLEWire

/// Temperature with its receive time.
public struct TemperatureSample: NotificationSample {
  public enum Reading: Hashable, Sendable, BitwiseCopyable {
    /// The final result of a thermometer.
    case result(TemperatureMeasurement)
    /// An intermediate value of a thermometer.
    case intermediate(TemperatureMeasurement)
    case core(CoreBodyTemperature)
  }

  public let time: ReceiveTime
  public let reading: Reading

  /// Decodes a final result. Callers create other readings, because only they know the characteristic.
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

  /// Whether the sensor reports that it is not worn. A thermometer reports this as NaN; a CORE sensor omits
  /// the reading.
  public var isOffBody: Bool {
    switch reading {
    case .result(let measurement), .intermediate(let measurement): measurement.temperature == .nan
    case .core(let temperature): temperature.core == .none
    }
  }

  /// Temperature in degrees of `unit`; `nil` if there is no reading, for example because the sensor is not
  /// worn.
  public var degrees: Double? {
    switch reading {
    case .result(let measurement), .intermediate(let measurement): measurement.temperature.value
    case .core(let temperature): temperature.coreTemperature
    }
  }

  /// Whether the sample has a number. Other samples have only a state.
  public var isValue: Bool { degrees != nil }

  /// Returns the temperature in degrees of a unit; `nil` if there is no reading.
  public func degrees(in unit: TemperatureMeasurement.Unit) -> Double? {
    degrees.map { Self.convert($0, from: self.unit, to: unit) }
  }

  /// Converts degrees from one unit to another.
  public static func convert(
    _ degrees: Double, from unit: TemperatureMeasurement.Unit, to other: TemperatureMeasurement.Unit
  ) -> Double {
    guard unit != other else { return degrees }
    return other == .celsius ? (degrees - 32) / 1.8 : degrees * 1.8 + 32
  }
}

/// Connected thermometer or CORE sensor, and its stream.
///
/// A CORE sensor is read through its own service, which sends once a second. Its Health Thermometer service
/// sends only every 10 s.
public struct ThermometerSession: SensorSession {
  public enum Kind: Hashable, Sendable {
    /// Health Thermometer Service 1.0.
    case healthThermometer
    /// CoreTemp BLE Service Specification 2.2.
    case core
  }

  public let kind: Kind

  private let link: SensorLink

  /// Discovers the measurement characteristics and subscribes to them.
  ///
  /// - Throws: `unsuitable` if the device has neither service.
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
    // Final results, and intermediate values if the thermometer has them.
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
      throw link.lacks("thermometer service (1809) and is not a CORE sensor")
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

  /// A CORE sensor sends once a second, worn or not. A thermometer sends only after measuring.
  public var silenceRule: SilenceRule? {
    kind == .core ? SilenceRule(floor: SilenceRule.shortestFloor, beginsAtOnce: false) : nil
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

  /// Unsubscribes from the measurements.
  public func stop() async { await link.stopListening() }
}
