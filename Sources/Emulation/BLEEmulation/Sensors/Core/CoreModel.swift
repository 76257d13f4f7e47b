public import BLESensors
public import BLEStack
public import BLEWire

/// A CORE sensor by greenTEG. Sends a value of its own service in each tick, and a value of the Health
/// Thermometer service in every tenth tick.
///
/// CoreTemp BLE Service Specification 2.2; CORE Connectivity Implementation Notes 3.1. Off the body, the
/// sensor's own service has no reading and the Health Thermometer has NaN. The control point reports that no
/// heart-rate monitors are paired, and refuses other requests.
public struct CoreModel: SensorModel {
  /// Number of notifications per indication. With 10, an indication is sent about every ten seconds.
  public static let thermometerEvery = 10

  public var name = "CORE A1:B2"
  public var address = DeviceAddress(bits: 0x70CB_0D00_2100, type: .public)
  public var unit = TemperatureMeasurement.Unit.celsius
  public var batteryPercent: UInt8 = 93

  public init() {}

  public var services: [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    return .genericServices(name: name, appearance: 0x0300) + [
      GATTServiceDescription(
        .healthThermometer,
        characteristics: [
          Characteristic(.temperatureMeasurement, .indicate),
          Characteristic(.temperatureType, .read, value: [TemperatureType.body.rawValue]),
        ]),
      GATTServiceDescription(
        CoreUUID.service,
        characteristics: [
          Characteristic(
            CoreUUID.bodyTemperature, [.read, .notify],
            value: CoreBodyTemperature(core: .none, quality: .init(rawValue: 0)).octets),
          Characteristic(CoreUUID.controlPoint, [.write, .indicate]),
        ]),
    ] + .sensorServices(model: "CORE", batteryPercent: batteryPercent)
  }

  public var advertisingData: [UInt8] {
    let data = CoreAdvertisement(status: 4, coreThousandths: 36_500).octets
    return advertisement(of: [0x1809]) + [UInt8(data.count + 1), 0xFF] + data
  }

  /// The scan response: the 16-bit services, then the sensor's own 128-bit service.
  public var scanResponse: [UInt8] {
    let service = (0..<16).map { CoreUUID.service.octet($0) }
    return [5, 0x03, 0x0A, 0x18, 0x0F, 0x18, UInt8(service.count + 1), 0x07] + service
  }

  public mutating func written(_ value: [UInt8], to characteristic: BluetoothUUID) -> [SensorValue] {
    guard characteristic == CoreUUID.controlPoint, let opcode = value.first else { return [] }
    let (success, notSupported): (UInt8, UInt8) = (1, 2)
    let answer: [UInt8] =
      switch try? CoreRequest(decoding: value.span) {
      case .countMonitors, .countANTMonitors: [CoreResponse.opcode, opcode, success, 0]
      default: [CoreResponse.opcode, opcode, notSupported]
      }
    return [SensorValue(characteristic, .indication, answer)]
  }

  public mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    var values = [SensorValue(CoreUUID.bodyTemperature, reading(tick).octets)]
    if (tick.number + 1).isMultiple(of: Self.thermometerEvery) {
      values.append(SensorValue(.temperatureMeasurement, .indication, thermometer(tick).octets))
    }
    return values
  }

  private func degrees(_ celsius: Double) -> Double { unit == .celsius ? celsius : celsius * 1.8 + 32 }

  private func hundredths(_ celsius: Double) -> Int16 { Int16((degrees(celsius) * 100).rounded()) }

  private func reading(_ tick: SensorTick) -> CoreBodyTemperature {
    // The heart-rate link is supported, but no monitor is received.
    let (good, invalid): (UInt8, UInt8) = (0x13, 0x10)
    guard !tick.isOffBody else {
      return CoreBodyTemperature(core: .none, unit: unit, quality: .init(rawValue: invalid), heartRate: 0)
    }
    return CoreBodyTemperature(
      core: .temperature(hundredths: hundredths(BodySignal.celsius(at: tick.seconds))), unit: unit,
      skinHundredths: hundredths(BodySignal.skinCelsius(at: tick.seconds)), quality: .init(rawValue: good),
      heartRate: 0, heatStrainIndexTenths: 12)
  }

  private func thermometer(_ tick: SensorTick) -> TemperatureMeasurement {
    guard !tick.isOffBody else { return TemperatureMeasurement(.nan, unit: unit, type: .body) }
    let mantissa = Int32(hundredths(BodySignal.celsius(at: tick.seconds)))
    return TemperatureMeasurement(IEEE11073Float(mantissa: mantissa, exponent: -2), unit: unit, type: .body)
  }
}
