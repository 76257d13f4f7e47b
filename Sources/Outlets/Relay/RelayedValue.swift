package import BLESensors
import BLEStack
package import BLEWire

/// A value of a standard service that a relay sends to its centrals.
package struct RelayedValue: Hashable, Sendable {
  package enum Measurement: Hashable, Sendable {
    case heartRate(HeartRateMeasurement)
    /// A final result. It is sent as an indication.
    case temperature(TemperatureMeasurement)
    case intermediate(TemperatureMeasurement)
    case cycling(CyclingSpeed)
    case battery(BatteryLevel)
  }

  package var measurement: Measurement
  /// Kernel timestamp of the newest sample on which the value is based.
  package var measuredAt: ReceiveTime
  /// Kernel timestamp of the sample at which the value was computed. It is later than `measuredAt` by the
  /// estimator's delay.
  package var knownAt: ReceiveTime
  /// Probability that the rate is correct within 5 beats per minute; only for a pulse computed from light.
  package var quality: Double?

  /// Creates a value that the sensor itself sent.
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
