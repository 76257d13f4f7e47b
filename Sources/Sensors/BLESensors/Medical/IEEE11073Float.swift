import BLEWire

/// Meanings of the reserved mantissas in the IEEE 11073-20601 number formats if the exponent is 0.
public enum IEEE11073Special: Hashable, Sendable, BitwiseCopyable {
  /// There is no valid result, for example because the sensor is not worn.
  case nan
  /// The result cannot be expressed with this exponent.
  case notAtThisResolution
  case positiveInfinity
  case negativeInfinity
  /// Reserved for future use.
  case reserved
}

/// 32-bit FLOAT: mantissa × 10^exponent. The upper 8 bits are the signed exponent, the lower 24 bits the
/// signed mantissa.
///
/// Mantissa and exponent are kept: `27.20` and `27.2` are the same number measured with different precision.
/// IEEE 11073-20601, Bluetooth "Personal Health Devices Transcoding" white paper, 2.2.
public struct IEEE11073Float: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 4

  /// −8,388,608 … 8,388,607.
  public let mantissa: Int32
  public let exponent: Int8

  public init(mantissa: Int32, exponent: Int8) {
    precondition(-0x80_0000...0x7F_FFFF ~= mantissa, "a FLOAT has 24 bits of mantissa")
    self.mantissa = mantissa
    self.exponent = exponent
  }

  /// Decodes a number.
  ///
  /// - Parameter bitPattern: the encoded number. It is transmitted with the least significant byte first.
  public init(bitPattern: UInt32) {
    mantissa = Int32(bitPattern: bitPattern << 8) >> 8
    exponent = Int8(bitPattern: UInt8(truncatingIfNeeded: bitPattern >> 24))
  }

  public init(_ special: IEEE11073Special) {
    switch special {
    case .nan: self.init(bitPattern: 0x007F_FFFF)
    case .notAtThisResolution: self.init(bitPattern: 0x0080_0000)
    case .positiveInfinity: self.init(bitPattern: 0x007F_FFFE)
    case .negativeInfinity: self.init(bitPattern: 0x0080_0002)
    case .reserved: self.init(bitPattern: 0x0080_0001)
    }
  }

  public static let nan = IEEE11073Float(.nan)

  public var bitPattern: UInt32 {
    UInt32(UInt8(bitPattern: exponent)) << 24 | UInt32(bitPattern: mantissa) & 0xFF_FFFF
  }

  /// Special meaning; `nil` if the value is a number.
  public var special: IEEE11073Special? {
    switch bitPattern {
    case 0x007F_FFFF: .nan
    case 0x0080_0000: .notAtThisResolution
    case 0x007F_FFFE: .positiveInfinity
    case 0x0080_0002: .negativeInfinity
    case 0x0080_0001: .reserved
    default: nil
    }
  }

  /// Nearest binary floating-point number; `nil` if the value is not a number.
  public var value: Double? {
    special == nil ? decimal(mantissa, exponent) : nil
  }
}

/// 16-bit SFLOAT: mantissa × 10^exponent. The upper 4 bits are the signed exponent, the lower 12 bits the
/// signed mantissa. See `IEEE11073Float`.
public struct IEEE11073ShortFloat: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 2

  /// −2,048 … 2,047.
  public let mantissa: Int16
  /// −8 … 7.
  public let exponent: Int8

  public init(mantissa: Int16, exponent: Int8) {
    precondition(-0x800...0x7FF ~= mantissa, "an SFLOAT has 12 bits of mantissa")
    precondition(-8...7 ~= exponent, "an SFLOAT has 4 bits of exponent")
    self.mantissa = mantissa
    self.exponent = exponent
  }

  /// Decodes a number.
  ///
  /// - Parameter bitPattern: the encoded number. It is transmitted with the least significant byte first.
  public init(bitPattern: UInt16) {
    mantissa = Int16(bitPattern: bitPattern << 4) >> 4
    exponent = Int8(truncatingIfNeeded: Int16(bitPattern: bitPattern) >> 12)
  }

  public init(_ special: IEEE11073Special) {
    switch special {
    case .nan: self.init(bitPattern: 0x07FF)
    case .notAtThisResolution: self.init(bitPattern: 0x0800)
    case .positiveInfinity: self.init(bitPattern: 0x07FE)
    case .negativeInfinity: self.init(bitPattern: 0x0802)
    case .reserved: self.init(bitPattern: 0x0801)
    }
  }

  public static let nan = IEEE11073ShortFloat(.nan)

  public var bitPattern: UInt16 {
    UInt16(truncatingIfNeeded: Int16(exponent)) << 12 | UInt16(bitPattern: mantissa) & 0xFFF
  }

  /// Special meaning; `nil` if the value is a number.
  public var special: IEEE11073Special? {
    switch bitPattern {
    case 0x07FF: .nan
    case 0x0800: .notAtThisResolution
    case 0x07FE: .positiveInfinity
    case 0x0802: .negativeInfinity
    case 0x0801: .reserved
    default: nil
    }
  }

  /// Nearest binary floating-point number; `nil` if the value is not a number.
  public var value: Double? {
    special == nil ? decimal(mantissa, exponent) : nil
  }
}

/// Returns the binary floating-point number nearest to mantissa × 10^exponent.
private func decimal(_ mantissa: some SignedInteger, _ exponent: Int8) -> Double? {
  // 10^22 is the largest power of ten that a Double represents exactly, so the result is rounded only once.
  // Embedded Swift cannot parse a Double, so the last digits may differ there, for values that no sensor
  // sends.
  #if !hasFeature(Embedded)
    guard exponent.magnitude <= 22 else { return Double("\(mantissa)e\(exponent)") }
  #endif
  var power = 1.0
  for _ in 0..<exponent.magnitude { power *= 10 }
  return exponent < 0 ? Double(mantissa) / power : Double(mantissa) * power
}

extension FieldReader {
  mutating func float() throws(WireError) -> IEEE11073Float { IEEE11073Float(bitPattern: try u32()) }
  mutating func shortFloat() throws(WireError) -> IEEE11073ShortFloat {
    IEEE11073ShortFloat(bitPattern: try u16())
  }
}

#if !hasFeature(Embedded)
  extension IEEE11073Special {
    var jsonName: String {
      switch self {
      case .nan: "nan"
      case .notAtThisResolution: "nres"
      case .positiveInfinity: "positiveInfinity"
      case .negativeInfinity: "negativeInfinity"
      case .reserved: "reserved"
      }
    }
  }
#endif
