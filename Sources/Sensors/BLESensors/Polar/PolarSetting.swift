import BLEWire

/// One setting of a measurement: the values that a sensor supports, or the value to use.
///
/// Online Measurement (2024), 3.4: kind, number of values, values.
public struct PolarSetting: Hashable, Sendable {
  public enum Kind: UInt8, Hashable, Sendable, BitwiseCopyable {
    /// In hertz.
    case sampleRate = 0
    /// In bits.
    case resolution = 1
    /// Positive and negative limit in g, degrees per second or gauss.
    case range = 2
    /// Positive and negative limit in thousandths of these units.
    case rangeMilliUnits = 3
    case channels = 4
    /// The bit pattern of a 32-bit binary floating-point number; only in responses to a start.
    case conversionFactor = 5
    /// 16 bytes each: the encryption of an offline recording, then the key.
    case security = 6

    /// Bytes per value.
    public var byteCount: Int {
      switch self {
      case .sampleRate, .resolution, .range: 2
      case .rangeMilliUnits, .conversionFactor: 4
      case .channels: 1
      case .security: 16
      }
    }
  }

  public let kind: Kind
  /// The values as sent.
  let octets: [UInt8]

  /// - Parameters:
  ///   - kind: kind of the setting.
  ///   - values: truncated to the byte count of the kind.
  public init(_ kind: Kind, _ values: [UInt32]) {
    self.kind = kind
    octets = values.flatMap { value in
      (0..<kind.byteCount).map { $0 < 4 ? UInt8(truncatingIfNeeded: value >> UInt32(8 * $0)) : 0 }
    }
  }

  init(_ kind: Kind, octets: [UInt8]) {
    self.kind = kind
    self.octets = octets
  }

  public static func conversionFactor(_ factor: Float) -> PolarSetting {
    PolarSetting(.conversionFactor, [factor.bitPattern])
  }

  public var count: Int { octets.count / kind.byteCount }

  /// The values as numbers; for `security`, only the first four bytes of each.
  public var values: [UInt32] {
    stride(from: 0, to: octets.count, by: kind.byteCount).map { start in
      var value: UInt32 = 0
      for place in 0..<min(4, kind.byteCount) { value |= UInt32(octets[start + place]) << UInt32(8 * place) }
      return value
    }
  }

  /// The first value, if this is a conversion factor.
  public var factor: Float? {
    guard kind == .conversionFactor, let first = values.first else { return nil }
    return Float(bitPattern: first)
  }

  public var encodedByteCount: Int { 2 + octets.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(kind.rawValue)
    output.append(UInt8(count))
    output.append(octets.span)
  }
}

extension FieldReader {
  /// - Throws: `truncated`; `invalidValue` for an unknown kind, whose size is unknown too.
  mutating func setting() throws(WireError) -> PolarSetting {
    let code = try u8()
    guard let kind = PolarSetting.Kind(rawValue: code) else {
      throw WireError(layer, offset: offset - 1, .invalidValue(UInt32(code)))
    }
    let byteCount = Int(try u8()) * kind.byteCount
    let start = try take(byteCount)
    return PolarSetting(kind, octets: (start..<start + byteCount).map { bytes[$0] })
  }
}
