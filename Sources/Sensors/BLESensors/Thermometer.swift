public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Temperature measurement. A thermometer indicates the final value, and may notify intermediate values.
///
/// Health Thermometer Service 1.0, 3.1 and 3.3; Temperature Measurement (0x2A1C) and Intermediate Temperature
/// (0x2A1E), which have the same layout.
public struct TemperatureMeasurement: CharacteristicValue, BitwiseCopyable {
  public struct Flags: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let isFahrenheit = Flags(rawValue: 1 << 0)
    public static let hasTimestamp = Flags(rawValue: 1 << 1)
    public static let hasType = Flags(rawValue: 1 << 2)
  }

  public enum Unit: Hashable, Sendable, BitwiseCopyable {
    case celsius
    case fahrenheit
  }

  /// Received flags, including reserved bits.
  public let flags: Flags
  /// Temperature in `unit`; NaN if the sensor has no value, for example because it is not worn.
  public let temperature: IEEE11073Float
  /// Time on the sensor's own clock.
  public let timestamp: DateTime?
  public let type: TemperatureType?
  public let trailingByteCount: Int

  public init(
    _ temperature: IEEE11073Float, unit: Unit = .celsius, timestamp: DateTime? = nil,
    type: TemperatureType? = nil
  ) {
    var flags: Flags = unit == .celsius ? [] : .isFahrenheit
    if timestamp != nil { flags.insert(.hasTimestamp) }
    if type != nil { flags.insert(.hasType) }
    self.flags = flags
    self.temperature = temperature
    self.timestamp = timestamp
    self.type = type
    trailingByteCount = 0
  }

  /// Decodes a measurement.
  ///
  /// - Throws: `truncated` if a field whose flag is set does not fit.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .thermometer)
    flags = Flags(rawValue: try reader.u8())
    temperature = try reader.float()
    timestamp = flags.contains(.hasTimestamp) ? try reader.dateTime() : nil
    type = flags.contains(.hasType) ? TemperatureType(rawValue: try reader.u8()) : nil
    trailingByteCount = reader.left
  }

  public var unit: Unit { flags.contains(.isFahrenheit) ? .fahrenheit : .celsius }

  /// Temperature in degrees Celsius, whatever the sensor's unit; `nil` if it is not a number.
  public var celsius: Double? {
    switch unit {
    case .celsius: temperature.value
    case .fahrenheit: temperature.value.map { ($0 - 32) / 1.8 }
    }
  }

  public var encodedByteCount: Int { 5 + (timestamp == nil ? 0 : DateTime.byteCount) + (type == nil ? 0 : 1) }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags.rawValue)
    output.append(u32: temperature.bitPattern)
    timestamp?.encode(into: &output)
    type?.encode(into: &output)
  }
}

/// Location on the body where a temperature is measured.
///
/// Health Thermometer Service 1.0, 3.2; Temperature Type (0x2A1D). Other codes are reserved and not errors.
public struct TemperatureType: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let armpit = TemperatureType(rawValue: 1)
  /// The body, without a specific location.
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
  /// Application error code for a value outside `MeasurementIntervalRange`.
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
  /// Lower limit of the interval in seconds, inclusive.
  public let lowerSeconds: UInt16
  /// Upper limit of the interval in seconds, inclusive.
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

#if !hasFeature(Embedded)
  extension TemperatureMeasurement.Unit {
    var jsonName: String { self == .celsius ? "celsius" : "fahrenheit" }
    /// Suffix of keys for temperatures in this unit.
    var keySuffix: String { self == .celsius ? "Celsius" : "Fahrenheit" }
  }

  extension TemperatureMeasurement: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      if let value = temperature.value { fields.member("temperature\(unit.keySuffix)", value, words: words) }
      if let special = temperature.special {
        fields.member("temperatureSpecial", special.jsonName, .words("temperature"), words: "none")
      }
      fields.member("unit", unit.jsonName, .hidden)
      if let timestamp { fields.member("timestamp", timestamp) } else { fields.nullMember("timestamp") }
      fields.member("temperatureTypeCode", type?.rawValue, .hidden)
      if let type { fields.member("temperatureType", type.jsonName) }
      fields.members(trailing: trailingByteCount)
    }

    /// The temperature with all digits, because they indicate its precision.
    private var words: String {
      let unit = unit == .celsius ? "°C" : "°F"
      let (mantissa, exponent) = (temperature.mantissa, temperature.exponent)
      guard (-6...0).contains(exponent) else { return "\(mantissa)e\(exponent) \(unit)" }
      return "\(CharacteristicPresentationFormat.decimal(Int64(mantissa), Int(exponent))) \(unit)"
    }
  }

  extension TemperatureType: SensorValueFields {
    private static let names = [
      "reserved", "armpit", "body", "ear", "finger", "gastroIntestinalTract", "mouth", "rectum", "toe",
      "tympanum",
    ]

    var jsonName: String { name(rawValue, in: Self.names) }

    package func describe(into fields: inout FieldList) {
      fields.member("temperatureTypeCode", rawValue, .hidden)
      fields.member("temperatureType", jsonName)
    }
  }

  extension MeasurementInterval: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("measurementIntervalSeconds", seconds)
    }
  }

  extension MeasurementIntervalRange: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("lowerInclusiveSeconds", lowerSeconds)
      fields.member("upperInclusiveSeconds", upperSeconds)
    }
  }
#endif
