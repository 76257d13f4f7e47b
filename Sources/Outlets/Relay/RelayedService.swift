package import BLEPeripheral
package import BLESensors
package import BLEStack
package import BLEWire
package import SensorSessions

/// The standard service that a relay offers. If the sensor has Device Information and Battery, the relay
/// offers them too.
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
        // The first measurement sets the features, because it shows what the sensor measures.
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

/// A value of a standard service that a relay sends to its centrals.
package struct RelayedValue: Hashable, Sendable {
  package enum Measurement: Hashable, Sendable {
    case heartRate(HeartRateMeasurement)
    /// A final result, which is sent as an indication.
    case temperature(TemperatureMeasurement)
    case intermediate(TemperatureMeasurement)
    case cycling(CyclingSpeed)
    case battery(BatteryLevel)
  }

  package var measurement: Measurement
  /// Kernel timestamp of the newest sample on which the value is based.
  package var measuredAt: ReceiveTime
  /// Kernel timestamp of the sample at which the value was computed. The difference from `measuredAt` is the
  /// estimator's delay.
  package var knownAt: ReceiveTime
  /// Probability that the rate is correct within 5 beats per minute; only for a pulse computed from light.
  package var quality: Double?

  /// Creates a value that the sensor has sent.
  package init(_ measurement: Measurement, at time: ReceiveTime) {
    self.init(measurement, measuredAt: time, knownAt: time)
  }

  package init(
    _ measurement: Measurement, measuredAt: ReceiveTime, knownAt: ReceiveTime, quality: Double? = nil
  ) {
    (self.measurement, self.measuredAt, self.knownAt) = (measurement, measuredAt, knownAt)
    self.quality = quality
  }
}

extension RelayedValue.Measurement {
  var characteristic: BluetoothUUID {
    switch self {
    case .heartRate: .heartRateMeasurement
    case .temperature: .temperatureMeasurement
    case .intermediate: .intermediateTemperature
    case .cycling: .cscMeasurement
    case .battery: .batteryLevel
    }
  }

  var push: ServerPush {
    if case .temperature = self { .indication } else { .notification }
  }

  package var octets: [UInt8] {
    switch self {
    case .heartRate(let value): value.octets
    case .temperature(let value), .intermediate(let value): value.octets
    case .cycling(let value): value.octets
    case .battery(let value): value.octets
    }
  }
}
