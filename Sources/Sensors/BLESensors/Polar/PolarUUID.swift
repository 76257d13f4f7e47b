public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Polar's service for raw sensor data, with vendor-specific UUIDs.
///
/// Order of use: raise the MTU, enable the control point's indications and the data notifications, read the
/// features, get the settings, start.
public enum PolarUUID {
  public static let service = BluetoothUUID(high: 0xFB00_5C80_02E7_F387, low: 0x1CAD_8ACD_2D8D_F0C8)
  /// Characteristic of control point values; read, write, indicate.
  public static let controlPoint = BluetoothUUID(high: 0xFB00_5C81_02E7_F387, low: 0x1CAD_8ACD_2D8D_F0C8)
  /// Characteristic of `PolarFrame` values; notify.
  public static let data = BluetoothUUID(high: 0xFB00_5C82_02E7_F387, low: 0x1CAD_8ACD_2D8D_F0C8)
}

/// Measurement or mode of a Polar sensor.
///
/// Online Measurement (2024) and the manufacturer's SDK. Codes without a name here are kept.
public struct PolarMeasurementType: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  /// 0 … 63.
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue & 0x3F }

  public static let ecg = PolarMeasurementType(rawValue: 0)
  public static let ppg = PolarMeasurementType(rawValue: 1)
  public static let accelerometer = PolarMeasurementType(rawValue: 2)
  /// Intervals between pulse waves.
  public static let ppi = PolarMeasurementType(rawValue: 3)
  public static let gyroscope = PolarMeasurementType(rawValue: 5)
  public static let magnetometer = PolarMeasurementType(rawValue: 6)
  public static let skinTemperature = PolarMeasurementType(rawValue: 7)
  /// SDK mode. It is not a measurement: it offers more settings, but no heart rate or intervals.
  public static let sdkMode = PolarMeasurementType(rawValue: 9)
  public static let location = PolarMeasurementType(rawValue: 10)
  public static let pressure = PolarMeasurementType(rawValue: 11)
  public static let temperature = PolarMeasurementType(rawValue: 12)
  public static let offlineRecording = PolarMeasurementType(rawValue: 13)
  public static let offlineHeartRate = PolarMeasurementType(rawValue: 14)
}

/// Heart rate in a Polar sensor's advertisement, after the company identifier.
///
/// Blocks of other data may precede the heart rate, as in advertisements of an OH1. Each block consists of
/// flags with bit 6 set, a byte count, and that number of bytes. Source: the manufacturer's SDK
/// (`BlePolarHrAdvertisement`, `BleAdvertisementContent`).
public struct PolarAdvertisement: CharacteristicValue, BitwiseCopyable {
  /// Company identifier of Polar Electro Oy.
  public static let company: UInt16 = 0x006B

  /// Bit 0: battery status; bit 1: skin contact; bits 2 to 4: frame counter; bit 5: broadcast; bit 7: status.
  public let flags: UInt8
  public let transmitterCode: UInt8
  /// Heart rate in beats per minute, averaged over a short time.
  public let fastAverage: UInt8
  /// Heart rate in beats per minute, averaged over a long time; `nil` unless it is the last byte.
  public let slowAverage: UInt8?
  public let trailingByteCount: Int

  public init(flags: UInt8, transmitterCode: UInt8, fastAverage: UInt8, slowAverage: UInt8? = nil) {
    self.flags = flags
    self.transmitterCode = transmitterCode
    self.fastAverage = fastAverage
    self.slowAverage = slowAverage
    trailingByteCount = 0
  }

  /// Decodes an advertisement.
  ///
  /// - Parameter value: manufacturer-specific data, including the company identifier.
  /// - Throws: `invalidValue` for another company's data; `truncated` if a block or the heart rate is
  ///   incomplete, or if there is no heart rate.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .polarMeasurement)
    let company = try reader.u16()
    guard company == Self.company else {
      throw WireError(.polarMeasurement, offset: 0, .invalidValue(UInt32(company)))
    }
    var first = try reader.u8()
    while first & 0x40 != 0 {
      for _ in 0..<(try reader.u8()) { _ = try reader.u8() }
      first = try reader.u8()
    }
    flags = first
    transmitterCode = try reader.u8()
    fastAverage = try reader.u8()
    slowAverage = reader.left == 1 ? try reader.u8() : nil
    trailingByteCount = reader.left
  }

  public var isBatteryBitSet: Bool { flags & 1 != 0 }
  public var isContactBitSet: Bool { flags & 2 != 0 }
  public var frameCounter: UInt8 { flags >> 2 & 7 }
  public var isBroadcastBitSet: Bool { flags & 0x20 != 0 }

  public var encodedByteCount: Int { slowAverage == nil ? 5 : 6 }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: Self.company)
    output.append(flags)
    output.append(transmitterCode)
    output.append(fastAverage)
    if let slowAverage { output.append(slowAverage) }
  }
}

#if !hasFeature(Embedded)
  extension PolarAdvertisement: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("companyId", Self.company)
      fields.member("batteryStatusBit", isBatteryBitSet ? 1 : 0)
      fields.member("sensorContactBit", isContactBitSet ? 1 : 0)
      fields.member("frameCounter", frameCounter)
      fields.member("broadcastBit", isBroadcastBitSet ? 1 : 0)
      fields.member("fastAverageHeartRateBpm", fastAverage)
      if let slowAverage { fields.member("slowAverageHeartRateBpm", slowAverage) }
      fields.members(trailing: trailingByteCount)
    }
  }
#endif
