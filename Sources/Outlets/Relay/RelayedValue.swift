package import BLESensors
import BLEStack
package import BLEWire

/// A value of a standard service on its way from a sensor to the centrals of a relay.
package struct RelayedValue: Hashable, Sendable {
  package enum Measurement: Hashable, Sendable {
    case heartRate(HeartRateMeasurement)
    /// A result, which is indicated.
    case temperature(TemperatureMeasurement)
    case intermediate(TemperatureMeasurement)
    case cycling(CyclingSpeed)
    case battery(BatteryLevel)
  }

  package var measurement: Measurement
  /// The kernel's stamp of the newest sample that it is made of.
  package var measuredAt: ReceiveTime
  /// The kernel's stamp of the sample with which it was known: later by what an estimator waits for.
  package var knownAt: ReceiveTime
  /// Of a pulse in light: how likely it is within 5 a minute.
  package var quality: Double?

  /// What a sensor has sent as it is.
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
