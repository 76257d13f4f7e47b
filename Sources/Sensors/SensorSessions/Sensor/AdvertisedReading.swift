import BLESensors
package import BLEWire

/// Value that a sensor broadcasts in its advertisements, without a connection.
package enum AdvertisedReading: Sendable {
  case heartRate(HeartRateSample)
  case temperature(TemperatureSample)

  /// Calls `body` with each reading in an advertisement, in order.
  ///
  /// Supports the heart rate of Polar sensors and of Xiaomi and Amazfit bands, and the temperature of CORE
  /// sensors. Also supports service data with the UUID of a characteristic: Heart Rate Measurement,
  /// Temperature Measurement, Temperature (GATT Specification Supplement). Reference `sensor-services.md`, 2,
  /// 4 and 5.
  ///
  /// - Throws: `WireError` if the format of the AD structures is invalid. `body` may have been called before.
  package static func forEach(
    in report: borrowing AdvertisingReport, at time: ReceiveTime,
    _ body: (_ reading: AdvertisedReading, _ octets: Span<UInt8>) -> Void
  ) throws(WireError) {
    let address = report.address
    try AdvertisingData(report.data).forEach { type, value in
      let reading =
        switch type {
        case .manufacturerSpecificData: reading(of: value, from: address, time)
        case .serviceData16 where value.count > 2:
          reading(of: BluetoothUUID(value.u16(at: 0)), value.extracting(2...), time)
        default: nil as AdvertisedReading?
        }
      if let reading { body(reading, value) }
    }
  }

  private static func reading(
    of value: Span<UInt8>, from address: DeviceAddress, _ time: ReceiveTime
  ) -> AdvertisedReading? {
    if let polar = try? PolarAdvertisement(decoding: value) {
      let measurement = HeartRateMeasurement(
        beatsPerMinute: UInt16(polar.fastAverage), contact: polar.isContactBitSet ? .detected : .notDetected)
      return .heartRate(HeartRateSample(measurement, at: time))
    }
    if let core = try? CoreAdvertisement(decoding: value) {
      // State 4 means that the sensor is measuring.
      let number =
        core.status & 0x0F == 4 && core.coreThousandths > 0
        ? IEEE11073Float(mantissa: Int32(core.coreThousandths), exponent: -3)
        : IEEE11073Float(.notAtThisResolution)
      return .temperature(TemperatureSample(.result(TemperatureMeasurement(number)), at: time))
    }
    if let band = try? BandAdvertisement(decoding: value, from: address), let rate = band.beatsPerMinute {
      return .heartRate(HeartRateSample(HeartRateMeasurement(beatsPerMinute: UInt16(rate)), at: time))
    }
    return nil
  }

  private static func reading(
    of type: BluetoothUUID, _ value: Span<UInt8>, _ time: ReceiveTime
  ) -> AdvertisedReading? {
    switch type {
    case .heartRateMeasurement: (try? HeartRateSample(decoding: value, at: time)).map { .heartRate($0) }
    case .temperatureMeasurement: (try? TemperatureSample(decoding: value, at: time)).map { .temperature($0) }
    case .temperature where value.count == 2: .temperature(TemperatureSample(hundredths: value, at: time))
    default: nil
    }
  }
}

extension TemperatureSample {
  /// Decodes hundredths of a degree Celsius, signed, little-endian; 0x8000 means unknown.
  fileprivate init(hundredths value: Span<UInt8>, at time: ReceiveTime) {
    let bits = value.u16(at: 0)
    let number =
      bits == 0x8000
      ? IEEE11073Float(.notAtThisResolution)
      : IEEE11073Float(mantissa: Int32(Int16(bitPattern: bits)), exponent: -2)
    self.init(.result(TemperatureMeasurement(number)), at: time)
  }
}
