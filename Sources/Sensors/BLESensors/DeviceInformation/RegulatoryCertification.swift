public import BLEWire

/// Certifications of a medical device.
///
/// Device Information Service 1.1, 3.8; IEEE 11073-20601 Regulatory Certification Data List (0x2A2A). Numbers
/// are big-endian, as throughout that standard.
public struct RegulatoryCertification: CharacteristicValue {
  public struct Entry: Hashable, Sendable {
    /// 2: Continua Health Alliance; 254: a national regulatory body; 255: defined by the maker.
    public var authority: UInt8
    /// The layout of `data`, numbered by the authority.
    public var structureType: UInt8
    public var data: [UInt8]

    public init(authority: UInt8, structureType: UInt8, data: [UInt8]) {
      self.authority = authority
      self.structureType = structureType
      self.data = data
    }
  }

  public var entries: [Entry]

  public init(_ entries: [Entry]) { self.entries = entries }

  /// - Throws: `truncated`; `lengthMismatch` if the list's length field does not match the data.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .deviceInformation)
    let count = Int((try reader.u16()).byteSwapped)
    let byteCount = Int((try reader.u16()).byteSwapped)
    guard byteCount == reader.left else {
      throw WireError(
        .deviceInformation, offset: 2, .lengthMismatch(claimed: byteCount, available: reader.left))
    }
    entries = []
    for _ in 0..<count {
      let (authority, structureType) = (try reader.u8(), try reader.u8())
      let dataByteCount = Int((try reader.u16()).byteSwapped)
      let start = try reader.take(dataByteCount)
      let data = (start..<start + dataByteCount).map { value[$0] }
      entries.append(Entry(authority: authority, structureType: structureType, data: data))
    }
    guard reader.left == 0 else {
      throw WireError(
        .deviceInformation, offset: reader.offset, .lengthMismatch(claimed: 0, available: reader.left))
    }
  }

  public var encodedByteCount: Int { entries.reduce(4) { $0 + 4 + $1.data.count } }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16BE: UInt16(entries.count))
    output.append(u16BE: UInt16(encodedByteCount - 4))
    for entry in entries {
      output.append(entry.authority)
      output.append(entry.structureType)
      output.append(u16BE: UInt16(entry.data.count))
      output.append(entry.data.span)
    }
  }
}
