public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Oxygen saturation in percent and pulse rate in beats per minute; NaN if there is no value.
public struct OximeterReading: Hashable, Sendable, BitwiseCopyable {
  public let spO2: IEEE11073ShortFloat
  public let pulseRate: IEEE11073ShortFloat

  public init(spO2: IEEE11073ShortFloat, pulseRate: IEEE11073ShortFloat) {
    self.spO2 = spO2
    self.pulseRate = pulseRate
  }

  func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: spO2.bitPattern)
    output.append(u16: pulseRate.bitPattern)
  }
}

extension FieldReader {
  fileprivate mutating func reading() throws(WireError) -> OximeterReading {
    OximeterReading(spO2: try shortFloat(), pulseRate: try shortFloat())
  }
}

/// Completed measurement of a pulse oximeter.
///
/// Pulse Oximeter Service 1.0.1, 3.1; PLX Spot-Check Measurement (0x2A5E).
public struct OximeterSpotCheck: CharacteristicValue, BitwiseCopyable {
  /// Received flags. Bit 0: timestamp; bit 1: measurement status; bit 2: device and sensor status; bit 3:
  /// pulse amplitude index; bit 4: the device's clock is not set.
  public let flags: UInt8
  public let reading: OximeterReading
  public let timestamp: DateTime?
  public let measurementStatus: UInt16?
  /// Device and sensor status: 24 bits.
  public let deviceStatus: UInt32?
  /// Pulse amplitude index in percent.
  public let pulseAmplitudeIndex: IEEE11073ShortFloat?
  public let trailingByteCount: Int

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .pulseOximeter)
    flags = try reader.u8()
    reading = try reader.reading()
    timestamp = flags & 1 != 0 ? try reader.dateTime() : nil
    measurementStatus = flags & 2 != 0 ? try reader.u16() : nil
    deviceStatus = flags & 4 != 0 ? try reader.u24() : nil
    pulseAmplitudeIndex = flags & 8 != 0 ? try reader.shortFloat() : nil
    trailingByteCount = reader.left
  }

  public var isClockNotSet: Bool { flags & 16 != 0 }

  public var encodedByteCount: Int {
    5 + (timestamp == nil ? 0 : DateTime.byteCount) + (measurementStatus == nil ? 0 : 2)
      + (deviceStatus == nil ? 0 : 3) + (pulseAmplitudeIndex == nil ? 0 : 2)
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags)
    reading.encode(into: &output)
    timestamp?.encode(into: &output)
    if let measurementStatus { output.append(u16: measurementStatus) }
    if let deviceStatus { output.append(u24: deviceStatus) }
    if let pulseAmplitudeIndex { output.append(u16: pulseAmplitudeIndex.bitPattern) }
  }
}

/// Measurement of a pulse oximeter that measures continuously.
///
/// Pulse Oximeter Service 1.0.1, 3.2; PLX Continuous Measurement (0x2A5F).
public struct OximeterContinuous: CharacteristicValue, BitwiseCopyable {
  /// Received flags. Bit 0: fast; bit 1: slow; bit 2: measurement status; bit 3: device and sensor status;
  /// bit 4: pulse amplitude index.
  public let flags: UInt8
  public let normal: OximeterReading
  public let fast: OximeterReading?
  public let slow: OximeterReading?
  public let measurementStatus: UInt16?
  /// Device and sensor status: 24 bits.
  public let deviceStatus: UInt32?
  /// Pulse amplitude index in percent.
  public let pulseAmplitudeIndex: IEEE11073ShortFloat?
  public let trailingByteCount: Int

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .pulseOximeter)
    flags = try reader.u8()
    normal = try reader.reading()
    fast = flags & 1 != 0 ? try reader.reading() : nil
    slow = flags & 2 != 0 ? try reader.reading() : nil
    measurementStatus = flags & 4 != 0 ? try reader.u16() : nil
    deviceStatus = flags & 8 != 0 ? try reader.u24() : nil
    pulseAmplitudeIndex = flags & 16 != 0 ? try reader.shortFloat() : nil
    trailingByteCount = reader.left
  }

  public var encodedByteCount: Int {
    5 + (fast == nil ? 0 : 4) + (slow == nil ? 0 : 4) + (measurementStatus == nil ? 0 : 2)
      + (deviceStatus == nil ? 0 : 3) + (pulseAmplitudeIndex == nil ? 0 : 2)
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags)
    normal.encode(into: &output)
    fast?.encode(into: &output)
    slow?.encode(into: &output)
    if let measurementStatus { output.append(u16: measurementStatus) }
    if let deviceStatus { output.append(u24: deviceStatus) }
    if let pulseAmplitudeIndex { output.append(u16: pulseAmplitudeIndex.bitPattern) }
  }
}

/// Features of a pulse oximeter.
///
/// Pulse Oximeter Service 1.0.1, 3.3; PLX Features (0x2A60).
public struct OximeterFeatures: CharacteristicValue, BitwiseCopyable {
  /// Bit 0: measurement status; bit 1: device status; bit 2: storage; bit 3: timestamp; bit 4: fast; bit 5:
  /// slow; bit 6: pulse amplitude index; bit 7: several bonds.
  public let supported: UInt16
  /// Bits of the measurement status that the device uses.
  public let measurementStatus: UInt16?
  public let deviceStatus: UInt32?
  public let trailingByteCount: Int

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .pulseOximeter)
    supported = try reader.u16()
    measurementStatus = supported & 1 != 0 ? try reader.u16() : nil
    deviceStatus = supported & 2 != 0 ? try reader.u24() : nil
    trailingByteCount = reader.left
  }

  public var encodedByteCount: Int { 2 + (measurementStatus == nil ? 0 : 2) + (deviceStatus == nil ? 0 : 3) }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: supported)
    if let measurementStatus { output.append(u16: measurementStatus) }
    if let deviceStatus { output.append(u24: deviceStatus) }
  }
}

#if !hasFeature(Embedded)
  extension OximeterReading {
    /// Adds the fields of a measurement.
    ///
    /// - Parameter prefix: `fast`, `slow`, or an empty string.
    fileprivate func describe(_ prefix: String, into fields: inout FieldList) {
      fields.member(prefix.isEmpty ? "spo2Percent" : prefix + "Spo2Percent", spO2)
      fields.member(prefix.isEmpty ? "pulseRateBpm" : prefix + "PulseRateBpm", pulseRate)
    }
  }

  extension OximeterSpotCheck: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      reading.describe("", into: &fields)
      if let timestamp { fields.member("timestamp", timestamp) }
      if let measurementStatus { fields.member("measurementStatus", measurementStatus) }
      if let deviceStatus { fields.member("deviceAndSensorStatus", deviceStatus) }
      if let pulseAmplitudeIndex { fields.member("pulseAmplitudeIndexPercent", pulseAmplitudeIndex) }
      if isClockNotSet { fields.member("deviceClockNotSet", true) }
      fields.members(trailing: trailingByteCount)
    }
  }

  extension OximeterContinuous: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      normal.describe("", into: &fields)
      fast?.describe("fast", into: &fields)
      slow?.describe("slow", into: &fields)
      if let measurementStatus { fields.member("measurementStatus", measurementStatus) }
      if let deviceStatus { fields.member("deviceAndSensorStatus", deviceStatus) }
      if let pulseAmplitudeIndex { fields.member("pulseAmplitudeIndexPercent", pulseAmplitudeIndex) }
      fields.members(trailing: trailingByteCount)
    }
  }

  extension OximeterFeatures: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("supportedFeatures", supported)
      if let measurementStatus { fields.member("measurementStatusSupport", measurementStatus) }
      if let deviceStatus { fields.member("deviceAndSensorStatusSupport", deviceStatus) }
      fields.members(trailing: trailingByteCount)
    }
  }

  extension FieldList {
    /// Adds the number, or the name of a special value.
    fileprivate mutating func member(_ name: String, _ number: IEEE11073ShortFloat) {
      if let number = number.value {
        member(name, number)
      } else {
        member(name, number.special?.jsonName ?? "nan")
      }
    }
  }
#endif
