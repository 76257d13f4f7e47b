package import BLEPeripheral
import BLESensors
package import BLEStack
package import BLEWire
package import SensorSessions

/// The service that a relay offers: a standard service, and also Device Information and Battery if the sensor
/// has them.
package enum RelayedService: String, Hashable, Sendable {
  case heartRate, healthThermometer, cyclingSpeedAndCadence

  package var uuid: BluetoothUUID {
    switch self {
    case .heartRate: .heartRate
    case .healthThermometer: .healthThermometer
    case .cyclingSpeedAndCadence: .cyclingSpeedAndCadence
    }
  }

  /// Appearance: Generic Heart Rate Sensor, Generic Thermometer, or Speed and Cadence Sensor. Bluetooth
  /// Assigned Numbers, 2.6.3.
  private var appearance: UInt16 {
    switch self {
    case .heartRate: 0x0340
    case .healthThermometer: 0x0300
    case .cyclingSpeedAndCadence: 0x0485
    }
  }

  package func advertisement(named name: String) -> DeviceAdvertisement {
    DeviceAdvertisement(name: name, services: [uuid], appearance: appearance)
  }

  /// Returns the services to offer.
  ///
  /// - Parameter facts: facts that the sensor reports about itself.
  package func services(_ facts: SensorFacts) -> [GATTServiceDescription] {
    typealias Characteristic = GATTCharacteristicDescription
    var own: [Characteristic]
    switch self {
    case .heartRate:
      own = [Characteristic(.heartRateMeasurement, .notify)]
      if let location = facts.bodyLocation {
        own.append(Characteristic(.bodySensorLocation, .read, value: location.octets))
      }
    case .healthThermometer:
      own = [Characteristic(.temperatureMeasurement, .indicate)]
      if let type = facts.temperatureType {
        own.append(Characteristic(.temperatureType, .read, value: type.octets))
      }
      own.append(Characteristic(.intermediateTemperature, .notify))
    case .cyclingSpeedAndCadence:
      own = [
        Characteristic(.cscMeasurement, .notify),
        // The features are set with the first measurement, which shows what the sensor measures.
        Characteristic(.cscFeature, .read, value: CyclingSpeedFeatures([]).octets),
      ]
      if let mounting = facts.mounting {
        own.append(Characteristic(.sensorLocation, .read, value: mounting.octets))
      }
    }
    var services = [GATTServiceDescription(uuid, characteristics: own)]
    if let battery = facts.battery {
      services.append(
        GATTServiceDescription(
          .battery,
          characteristics: [Characteristic(.batteryLevel, [.read, .notify], value: battery.octets)]))
    }
    let texts = facts.texts.sorted { $0.key.description < $1.key.description }.map { uuid, text in
      Characteristic(uuid, .read, value: Array(text.utf8.prefix(ATT.maximumValueByteCount)))
    }
    if !texts.isEmpty {
      services.append(GATTServiceDescription(.deviceInformation, characteristics: texts))
    }
    return services
  }
}
