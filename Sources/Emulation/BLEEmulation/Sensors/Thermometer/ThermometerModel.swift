public import BLESensors
public import BLEStack
public import BLEWire

/// An ear thermometer. Each tick sends an intermediate reading. The last reading of each measurement interval
/// is indicated as the result.
///
/// Health Thermometer Service 1.0. Off the body the temperature is NaN. The interval is 4 ticks, which take 4
/// s at the usual rate. A central may write another interval, which applies until its link ends.
public struct ThermometerModel: SensorModel {
  /// Number of readings in a measurement, including the result. A central may write another number.
  public static let readingsPerMeasurement = 4
  public static let intervalRange = MeasurementIntervalRange(lowerSeconds: 1, upperSeconds: 3600)

  public var name = "ringtap thermometer"
  public var address = DeviceAddress(bits: 0x70CB_0D00_1809, type: .public)
  public var type = TemperatureType.ear
  public var unit = TemperatureMeasurement.Unit.celsius
  public var batteryPercent: UInt8 = 71
  /// Measurements to send in a cycle instead of the simulated wearer's measurements.
  public var measurements: [TemperatureMeasurement] = []

  private var interval = readingsPerMeasurement
  /// Number of readings since the last result.
  private var readings = 0

  public init() {}

  public mutating func connected() { (interval, readings) = (Self.readingsPerMeasurement, 0) }

  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] {
    if characteristic == .measurementInterval, let written = try? MeasurementInterval(decoding: value.span) {
      (interval, readings) = (Int(written.seconds), 0)
    }
    return []
  }

  public var services: [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    return .genericServices(name: name, appearance: 0x0301) + [
      GATTServiceDescription(
        .healthThermometer,
        characteristics: [
          Characteristic(.temperatureMeasurement, .indicate),
          Characteristic(.temperatureType, .read, value: [type.rawValue]),
          Characteristic(.intermediateTemperature, .notify),
          Characteristic(
            .measurementInterval, [.read, .write],
            value: MeasurementInterval(seconds: UInt16(Self.readingsPerMeasurement)).octets,
            maximumByteCount: 2,
            descriptors: [GATTDescriptorDescription(.validRange, value: Self.intervalRange.octets)]),
        ])
    ] + .sensorServices(model: "thermometer", batteryPercent: batteryPercent)
  }

  public var advertisingData: [UInt8] { advertisement(of: [0x1809]) }

  public func check(write value: Span<UInt8>, to characteristic: BluetoothUUID) -> ATTErrorCode? {
    guard characteristic == .measurementInterval else { return nil }
    guard value.count == 2, let interval = try? MeasurementInterval(decoding: value) else {
      return .invalidAttributeValueLength
    }
    let range = Self.intervalRange
    return range.lowerSeconds...range.upperSeconds ~= interval.seconds
      ? nil : ATTErrorCode(rawValue: MeasurementInterval.outOfRange)
  }

  public mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    let value = measurement(tick).octets
    readings += 1
    guard readings >= interval else { return [SensorValue(.intermediateTemperature, value)] }
    readings = 0
    return [SensorValue(.temperatureMeasurement, .indication, value)]
  }

  private func measurement(_ tick: SensorTick) -> TemperatureMeasurement {
    if !measurements.isEmpty { return measurements[tick.number % measurements.count] }
    guard !tick.isOffBody else { return TemperatureMeasurement(.nan, unit: unit) }
    let celsius = BodySignal.celsius(at: tick.seconds)
    let degrees = unit == .celsius ? celsius : celsius * 1.8 + 32
    return TemperatureMeasurement(
      IEEE11073Float(mantissa: Int32((degrees * 100).rounded()), exponent: -2), unit: unit, type: type)
  }
}

/// Temperature of a simulated wearer. Rises from 36.5 to 37.3 °C and falls back, every two minutes.
enum BodySignal {
  static func celsius(at seconds: Double) -> Double { triangle(36.5...37.3, period: 120, at: seconds) }
  static func skinCelsius(at seconds: Double) -> Double { triangle(33.0...34.2, period: 120, at: seconds) }
}
