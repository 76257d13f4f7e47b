public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Vendor-specific UUIDs of greenTEG's CORE sensor.
///
/// The sensor lists its service, Device Information and Battery only in the scan response. The advertisement
/// lists Health Thermometer. CORE Connectivity Implementation Notes 3.1, 2.1.
public enum CoreUUID {
  public static let service = BluetoothUUID(high: 0x0000_2100_5B1E_4347, low: 0xB07C_97B5_14DA_E121)
  /// Read and notify, once a second.
  public static let bodyTemperature = BluetoothUUID(high: 0x0000_2101_5B1E_4347, low: 0xB07C_97B5_14DA_E121)
  /// Write and indicate.
  public static let controlPoint = BluetoothUUID(high: 0x0000_2102_5B1E_4347, low: 0xB07C_97B5_14DA_E121)
  /// Service advertised by old firmware instead of `service`.
  public static let legacyService = BluetoothUUID(high: 0x0000_4200_F366_40B2, low: 0xAC37_70CC_E0AA_83B1)
}

/// Notification of a CORE sensor: core and skin temperature, quality, heart rate and heat strain.
///
/// CoreTemp BLE Service Specification 2.2, 3.1. A field is absent if its flag is clear. Some firmware always
/// sends all ten bytes; each field then has a fixed position, and fields without a flag are ignored.
public struct CoreBodyTemperature: CharacteristicValue, BitwiseCopyable {
  public struct Flags: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let hasSkinTemperature = Flags(rawValue: 1 << 0)
    public static let hasCoreReserved = Flags(rawValue: 1 << 1)
    public static let hasQuality = Flags(rawValue: 1 << 2)
    public static let isFahrenheit = Flags(rawValue: 1 << 3)
    public static let hasHeartRate = Flags(rawValue: 1 << 4)
    public static let hasHeatStrainIndex = Flags(rawValue: 1 << 5)
  }

  /// Core temperature, if there is one.
  public enum Reading: Hashable, Sendable, BitwiseCopyable {
    /// Core temperature in hundredths of the unit.
    case temperature(hundredths: Int16)
    /// No temperature: the sensor is not worn or has not settled; see the quality.
    case none
  }

  /// Quality of the reading in bits 0 to 2, state of the heart-rate link in bits 4 and 5.
  public struct Quality: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// 0 invalid, 1 poor, 2 fair, 3 good, 4 excellent, 7 not available; 5 and 6 are not assigned.
    public var level: UInt8 { rawValue & 7 }
    /// 0 not supported, 1 supported but no signal, 2 receiving, 3 not available.
    public var heartRateState: UInt8 { rawValue >> 4 & 3 }
  }

  /// Length of a value with all fields, in bytes.
  public static let fullByteCount = 10
  private static let noReading: Int16 = 0x7FFF

  /// Received flags, including reserved bits.
  public let flags: Flags
  public let core: Reading
  /// Skin temperature in hundredths of the unit.
  public let skinHundredths: Int16?
  /// Undocumented field, which clients call heat flux.
  public let coreReserved: Int16?
  public let quality: Quality?
  /// Heart rate in beats per minute from a paired monitor; 0 if no rate was received.
  public let heartRate: UInt8?
  /// Heat strain index in tenths, 0 … 254.
  public let heatStrainIndexTenths: UInt8?
  public let trailingByteCount: Int

  public init(
    core: Reading, unit: TemperatureMeasurement.Unit = .celsius, skinHundredths: Int16? = nil,
    coreReserved: Int16? = nil, quality: Quality? = nil, heartRate: UInt8? = nil,
    heatStrainIndexTenths: UInt8? = nil
  ) {
    var flags: Flags = unit == .fahrenheit ? .isFahrenheit : []
    if skinHundredths != nil { flags.insert(.hasSkinTemperature) }
    if coreReserved != nil { flags.insert(.hasCoreReserved) }
    if quality != nil { flags.insert(.hasQuality) }
    if heartRate != nil { flags.insert(.hasHeartRate) }
    if heatStrainIndexTenths != nil { flags.insert(.hasHeatStrainIndex) }
    self.flags = flags
    self.core = core
    self.skinHundredths = skinHundredths
    self.coreReserved = coreReserved
    self.quality = quality
    self.heartRate = heartRate
    self.heatStrainIndexTenths = heatStrainIndexTenths
    trailingByteCount = 0
  }

  /// Decodes a value.
  ///
  /// - Throws: `truncated` if a field whose flag is set does not fit.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .coreTemperature)
    let flags = Flags(rawValue: try reader.u8())
    let core = try reader.s16()
    self.flags = flags
    self.core = core == Self.noReading ? .none : .temperature(hundredths: core)
    if value.count == Self.fullByteCount {
      skinHundredths = flags.contains(.hasSkinTemperature) ? Int16(bitPattern: value.u16(at: 3)) : nil
      coreReserved = flags.contains(.hasCoreReserved) ? Int16(bitPattern: value.u16(at: 5)) : nil
      quality = flags.contains(.hasQuality) ? Quality(rawValue: value[7]) : nil
      heartRate = flags.contains(.hasHeartRate) ? value[8] : nil
      heatStrainIndexTenths = flags.contains(.hasHeatStrainIndex) ? value[9] : nil
      trailingByteCount = 0
    } else {
      skinHundredths = flags.contains(.hasSkinTemperature) ? try reader.s16() : nil
      coreReserved = flags.contains(.hasCoreReserved) ? try reader.s16() : nil
      quality = flags.contains(.hasQuality) ? Quality(rawValue: try reader.u8()) : nil
      heartRate = flags.contains(.hasHeartRate) ? try reader.u8() : nil
      heatStrainIndexTenths = flags.contains(.hasHeatStrainIndex) ? try reader.u8() : nil
      trailingByteCount = reader.left
    }
  }

  public var unit: TemperatureMeasurement.Unit { flags.contains(.isFahrenheit) ? .fahrenheit : .celsius }

  /// Core temperature in degrees of `unit`; `nil` if there is no reading.
  public var coreTemperature: Double? {
    switch core {
    case .temperature(let hundredths): Double(hundredths) / 100
    case .none: nil
    }
  }

  /// Skin temperature in degrees of `unit`; `nil` if there is no reading.
  public var skinTemperature: Double? {
    guard let skinHundredths, skinHundredths != Self.noReading else { return nil }
    return Double(skinHundredths) / 100
  }

  public var encodedByteCount: Int {
    3 + (skinHundredths == nil ? 0 : 2) + (coreReserved == nil ? 0 : 2) + (quality == nil ? 0 : 1)
      + (heartRate == nil ? 0 : 1) + (heatStrainIndexTenths == nil ? 0 : 1)
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(flags.rawValue)
    switch core {
    case .temperature(let hundredths): output.append(u16: UInt16(bitPattern: hundredths))
    case .none: output.append(u16: UInt16(bitPattern: Self.noReading))
    }
    if let skinHundredths { output.append(u16: UInt16(bitPattern: skinHundredths)) }
    if let coreReserved { output.append(u16: UInt16(bitPattern: coreReserved)) }
    if let quality { output.append(quality.rawValue) }
    if let heartRate { output.append(heartRate) }
    if let heatStrainIndexTenths { output.append(heatStrainIndexTenths) }
  }
}

/// Content of a CORE sensor's advertisement, after the company identifier.
///
/// CORE Connectivity Implementation Notes 3.1, 2.1. The document prints the bytes of the company identifier
/// in reverse order.
public struct CoreAdvertisement: CharacteristicValue, BitwiseCopyable {
  /// Company identifier of greenTEG AG.
  public static let company: UInt16 = 0x0BF6

  public let version: UInt8
  /// Status; bits 0 to 3 are the state, and state 4 means measuring.
  public let status: UInt8
  /// Core temperature in thousandths of a degree Celsius.
  public let coreThousandths: UInt16

  public init(version: UInt8 = 0, status: UInt8, coreThousandths: UInt16) {
    self.version = version
    self.status = status
    self.coreThousandths = coreThousandths
  }

  /// Decodes an advertisement.
  ///
  /// - Parameter value: manufacturer-specific data, including the company identifier.
  /// - Throws: `truncated`; `invalidValue` for another company's data.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .coreTemperature)
    let company = try reader.u16()
    guard company == Self.company else {
      throw WireError(.coreTemperature, offset: 0, .invalidValue(UInt32(company)))
    }
    version = try reader.u8()
    status = try reader.u8()
    coreThousandths = try reader.u16()
  }

  public var encodedByteCount: Int { 6 }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: Self.company)
    output.append(version)
    output.append(status)
    output.append(u16: coreThousandths)
  }
}

#if !hasFeature(Embedded)
  extension CoreBodyTemperature.Quality {
    /// Names of the assigned levels, from 0. CoreTemp BLE Service Specification 2.2, 3.1.
    package static let levelNames = ["invalid", "poor", "fair", "good", "excellent"]
  }

  extension CoreBodyTemperature: SensorValueFields {
    private static let qualities = Quality.levelNames + ["reserved", "reserved", "notAvailable"]
    private static let heartRateStates = [
      "notSupported", "supportedNotReceiving", "supportedReceiving", "notAvailable",
    ]

    package func describe(into fields: inout FieldList) {
      fields.member("coreTemperature\(unit.keySuffix)", coreTemperature)
      fields.member("skinTemperature\(unit.keySuffix)", skinTemperature)
      fields.member("coreReserved", coreReserved)
      fields.member("quality", quality.map { name($0.level, in: Self.qualities) })
      fields.member("heartRateState", quality.map { name($0.heartRateState, in: Self.heartRateStates) })
      fields.member("heartRateBpm", heartRate)
      fields.member("heatStrainIndex", heatStrainIndexTenths.map { Double($0) / 10 })
      fields.member("unit", unit.jsonName)
      fields.members(trailing: trailingByteCount)
    }
  }

  extension CoreAdvertisement: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("companyId", Self.company)
      fields.member("version", version)
      fields.member("statusCode", status)
      fields.member("coreTemperatureCelsius", Double(coreThousandths) / 1_000)
    }
  }
#endif
