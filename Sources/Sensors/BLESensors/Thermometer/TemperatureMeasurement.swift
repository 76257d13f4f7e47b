public import BLEWire

/// One temperature. A thermometer indicates the final value and may notify intermediate values.
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

  /// Flags as sent, including reserved bits.
  public let flags: Flags
  /// Temperature in `unit`. NaN if the sensor has no value, such as off the body.
  public let temperature: IEEE11073Float
  /// Time by the sensor's own clock.
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

  /// The temperature in degrees Celsius, whatever the sensor's unit; `nil` if it is not a number.
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
