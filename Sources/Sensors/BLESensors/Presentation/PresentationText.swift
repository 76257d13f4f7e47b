public import BLEWire

/// Formats a value as text, according to its Characteristic Presentation Format: `-0.04059 °F`.
///
/// Core 5.4, Vol 3, Part G, 3.3.3.5; formats in Bluetooth Assigned Numbers, 2.4.1.
extension CharacteristicPresentationFormat {
  /// Number of bytes in a value; `nil` if the value has no fixed length or the format is unknown.
  public var valueByteCount: Int? {
    switch format {
    case 0x01...0x04, 0x0C: 1
    case 0x05, 0x06, 0x0D, 0x0E, 0x16: 2
    case 0x07, 0x0F: 3
    case 0x08, 0x10, 0x14, 0x17, 0x18: 4
    case 0x09, 0x11: 6
    case 0x0A, 0x12, 0x15: 8
    case 0x0B, 0x13: 16
    default: nil
    }
  }

  /// Returns the number and its unit. Other values are returned as hexadecimal digits.
  ///
  /// - Throws: `lengthMismatch` for a value of another length.
  public func text(of value: Span<UInt8>) throws(WireError) -> String {
    if let valueByteCount, valueByteCount != value.count {
      throw WireError(
        .att, offset: 0, .lengthMismatch(claimed: valueByteCount, available: value.count))
    }
    let number = number(of: value)
    let symbol = MeasurementUnit(rawValue: unit).symbol
    return symbol.isEmpty ? number : "\(number) \(symbol)"
  }

  private func number(of value: Span<UInt8>) -> String {
    switch format {
    case 0x01: return value[0] & 1 == 0 ? "false" : "true"
    case 0x02: return scaled(UInt64(value[0] & 0x03), isNegative: false)
    case 0x03: return scaled(UInt64(value[0] & 0x0F), isNegative: false)
    case 0x05: return scaled(UInt64(value.u16(at: 0) & 0x0FFF), isNegative: false)
    case 0x04, 0x06...0x0A: return scaled(Self.unsigned(value), isNegative: false)
    case 0x0C...0x12: return signed(value, bitCount: format == 0x0D ? 12 : value.count * 8)
    case 0x14: return "\(Float(bitPattern: value.u32(at: 0)))"
    case 0x15: return "\(Double(bitPattern: value.u64(at: 0)))"
    case 0x16:
      let float = IEEE11073ShortFloat(bitPattern: value.u16(at: 0))
      return float.special.map(Self.word) ?? Self.decimal(Int64(float.mantissa), Int(float.exponent))
    case 0x17:
      let float = IEEE11073Float(bitPattern: value.u32(at: 0))
      return float.special.map(Self.word) ?? Self.decimal(Int64(float.mantissa), Int(float.exponent))
    case 0x19: return String(decoding: value.indices.map { value[$0] }, as: UTF8.self)
    case 0x1A:
      let words = stride(from: 0, to: value.count - value.count % 2, by: 2).map { value.u16(at: $0) }
      return String(decoding: words, as: UTF16.self)
    default: return value.indices.map { hexadecimal(value[$0]) }.joined()
    }
  }

  private static func unsigned(_ value: Span<UInt8>) -> UInt64 {
    var number: UInt64 = 0
    for index in value.indices.reversed() { number = number << 8 | UInt64(value[index]) }
    return number
  }

  private func signed(_ value: Span<UInt8>, bitCount: Int) -> String {
    let number = Int64(bitPattern: Self.unsigned(value) << UInt64(64 - bitCount)) >> Int64(64 - bitCount)
    return scaled(number.magnitude, isNegative: number < 0)
  }

  private func scaled(_ magnitude: UInt64, isNegative: Bool) -> String {
    (isNegative ? "-" : "") + Self.digits(magnitude, Int(exponent))
  }

  static func decimal(_ mantissa: Int64, _ exponent: Int) -> String {
    (mantissa < 0 ? "-" : "") + digits(mantissa.magnitude, exponent)
  }

  /// Formats the exact product of the number and a power of ten, with as many decimals as the exponent
  /// requires.
  private static func digits(_ magnitude: UInt64, _ exponent: Int) -> String {
    let digits = String(magnitude)
    // Use an exponent if the number has too many digits.
    guard exponent.magnitude <= 18 else { return "\(digits)e\(exponent)" }
    guard exponent < 0 else {
      return magnitude == 0 ? digits : digits + String(repeating: "0", count: exponent)
    }
    let padded = String(repeating: "0", count: max(0, 1 - exponent - digits.utf8.count)) + digits
    return "\(padded.dropLast(-exponent)).\(padded.suffix(-exponent))"
  }

  private static func word(_ special: IEEE11073Special) -> String {
    switch special {
    case .nan: "no value"
    case .notAtThisResolution: "not at this resolution"
    case .positiveInfinity: "infinity"
    case .negativeInfinity: "-infinity"
    case .reserved: "reserved"
    }
  }
}

extension [CharacteristicPresentationFormat] {
  /// Splits an aggregate value and returns its parts in order. Core 5.4, Vol 3, Part G, 3.3.3.6. Remaining
  /// bytes are returned as hexadecimal digits.
  ///
  /// - Throws: `truncated` if a part has too few bytes.
  public func texts(of value: Span<UInt8>) throws(WireError) -> [String] {
    var texts: [String] = []
    var offset = 0
    for format in self {
      let byteCount = format.valueByteCount ?? value.count - offset
      guard value.count - offset >= byteCount else {
        throw WireError(
          .att, offset: offset, .truncated(needed: byteCount, available: value.count - offset))
      }
      texts.append(try format.text(of: value.extracting(offset..<offset + byteCount)))
      offset += byteCount
    }
    let rest = value.extracting(offset...)
    if rest.count > 0 { texts.append(rest.indices.map { hexadecimal(rest[$0]) }.joined()) }
    return texts
  }
}
