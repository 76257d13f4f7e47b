public import BLEWire

/// Location on the body where a temperature is measured.
///
/// Health Thermometer Service 1.0, 3.2; Temperature Type (0x2A1D). Other codes are reserved and not errors.
public struct TemperatureType: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let armpit = TemperatureType(rawValue: 1)
  /// The body in general.
  public static let body = TemperatureType(rawValue: 2)
  public static let ear = TemperatureType(rawValue: 3)
  public static let finger = TemperatureType(rawValue: 4)
  public static let gastrointestinalTract = TemperatureType(rawValue: 5)
  public static let mouth = TemperatureType(rawValue: 6)
  public static let rectum = TemperatureType(rawValue: 7)
  public static let toe = TemperatureType(rawValue: 8)
  public static let tympanum = TemperatureType(rawValue: 9)

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .thermometer)
    rawValue = try reader.u8()
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}

/// Interval at which the thermometer measures by itself.
///
/// Health Thermometer Service 1.0, 3.4; Measurement Interval (0x2A21).
public struct MeasurementInterval: CharacteristicValue, BitwiseCopyable {
  /// The application error code for a value outside `MeasurementIntervalRange`.
  public static let outOfRange: UInt8 = 0x80

  /// Interval in seconds; 0 means no periodic measurement.
  public let seconds: UInt16

  public init(seconds: UInt16) { self.seconds = seconds }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .thermometer)
    seconds = try reader.u16()
  }

  public var encodedByteCount: Int { 2 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(u16: seconds) }
}

/// Permitted values of the measurement interval: its Valid Range descriptor (0x2906).
///
/// Health Thermometer Service 1.0, 3.4.2.
public struct MeasurementIntervalRange: CharacteristicValue, BitwiseCopyable {
  /// Inclusive.
  public let lowerSeconds: UInt16
  /// Inclusive.
  public let upperSeconds: UInt16

  public init(lowerSeconds: UInt16, upperSeconds: UInt16) {
    self.lowerSeconds = lowerSeconds
    self.upperSeconds = upperSeconds
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .thermometer)
    lowerSeconds = try reader.u16()
    upperSeconds = try reader.u16()
  }

  public func contains(_ interval: MeasurementInterval) -> Bool {
    lowerSeconds <= interval.seconds && interval.seconds <= upperSeconds
  }

  public var encodedByteCount: Int { 4 }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: lowerSeconds)
    output.append(u16: upperSeconds)
  }
}
