public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Extended unique identifier of a device: the upper 24 bits are assigned by the IEEE, the lower 40 bits by
/// the manufacturer.
///
/// Device Information Service 1.1, 3.1; System ID (0x2A23).
public struct SystemID: CharacteristicValue, BitwiseCopyable {
  public static let byteCount = 8

  /// 40 bits.
  public let manufacturerIdentifier: UInt64
  /// 24 bits.
  public let organizationallyUniqueIdentifier: UInt32

  public init(manufacturerIdentifier: UInt64, organizationallyUniqueIdentifier: UInt32) {
    self.manufacturerIdentifier = manufacturerIdentifier & 0xFF_FFFF_FFFF
    self.organizationallyUniqueIdentifier = organizationallyUniqueIdentifier & 0xFF_FFFF
  }

  /// Creates the EUI-64 of a public device address, with FF FE in the middle.
  public init(_ address: DeviceAddress) {
    self.init(
      manufacturerIdentifier: 0xFF_FE00_0000 | address.bits & 0xFF_FFFF,
      organizationallyUniqueIdentifier: UInt32(truncatingIfNeeded: address.bits >> 24))
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .deviceInformation)
    let number = try reader.u64()
    self.init(
      manufacturerIdentifier: number,
      organizationallyUniqueIdentifier: UInt32(truncatingIfNeeded: number >> 40))
  }

  /// Device address from which the identifier was derived; `nil` if the identifier was not derived from an
  /// address.
  public var address: DeviceAddress? {
    guard manufacturerIdentifier >> 24 == 0xFFFE else { return nil }
    let upper = UInt64(organizationallyUniqueIdentifier) << 24
    return DeviceAddress(bits: upper | manufacturerIdentifier & 0xFF_FFFF, type: .public)
  }

  public var encodedByteCount: Int { Self.byteCount }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u64: manufacturerIdentifier | UInt64(organizationallyUniqueIdentifier) << 40)
  }
}

/// Vendor, product and version of a device.
///
/// Device Information Service 1.1, 3.9; PnP ID (0x2A50).
public struct PnPID: CharacteristicValue, BitwiseCopyable {
  public static let byteCount = 7

  /// Source of `vendor`. 1: Bluetooth company identifier; 2: identifier assigned by the USB Implementers
  /// Forum.
  public let vendorSource: UInt8
  public let vendor: UInt16
  public let product: UInt16
  /// Version, by convention 0xJJMN for JJ.M.N.
  public let version: UInt16

  public init(vendorSource: UInt8, vendor: UInt16, product: UInt16, version: UInt16) {
    self.vendorSource = vendorSource
    self.vendor = vendor
    self.product = product
    self.version = version
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .deviceInformation)
    vendorSource = try reader.u8()
    vendor = try reader.u16()
    product = try reader.u16()
    version = try reader.u16()
  }

  public var encodedByteCount: Int { Self.byteCount }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(vendorSource)
    output.append(u16: vendor)
    output.append(u16: product)
    output.append(u16: version)
  }
}

/// Name or number of the device in UTF-8.
///
/// Device Information Service 1.1, 3.2 to 3.7: model (0x2A24), serial number (0x2A25), firmware (0x2A26),
/// hardware (0x2A27), software (0x2A28), manufacturer (0x2A29). Trailing NUL bytes and spaces, which some
/// firmware adds, are removed. Invalid UTF-8 becomes U+FFFD.
public struct DeviceInformationText: CharacteristicValue {
  public let text: String

  public init(_ text: String) { self.text = text }

  public init(decoding value: Span<UInt8>) {
    var end = value.count
    while end > 0, value[end - 1] == 0 || value[end - 1] == UInt8(ascii: " ") { end -= 1 }
    var copy: [UInt8] = []
    copy.reserveCapacity(end)
    for index in 0..<end { copy.append(value[index]) }
    text = String(decoding: copy, as: UTF8.self)
  }

  public var encodedByteCount: Int { text.utf8.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    for octet in text.utf8 { output.append(octet) }
  }
}

/// Certifications of a medical device.
///
/// Device Information Service 1.1, 3.8; IEEE 11073-20601 Regulatory Certification Data List (0x2A2A). Numbers
/// are big-endian, as throughout that standard.
public struct RegulatoryCertification: CharacteristicValue {
  public struct Entry: Hashable, Sendable {
    /// Authority that issued the certification. 2: Continua Health Alliance; 254: national regulatory body;
    /// 255: defined by the manufacturer.
    public var authority: UInt8
    /// Layout of `data`, numbered by the authority.
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

  /// Decodes a list of certifications.
  ///
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

#if !hasFeature(Embedded)
  extension SystemID: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member(
        "organizationallyUniqueIdentifier", digits(UInt64(organizationallyUniqueIdentifier), byteCount: 3))
      fields.member("manufacturerIdentifier", digits(manufacturerIdentifier, byteCount: 5))
      if let address { fields.member("bluetoothAddress", address.description) }
    }

    private func digits(_ number: UInt64, byteCount: Int) -> String {
      (0..<byteCount).reversed().map { hexadecimal(UInt8(truncatingIfNeeded: number >> UInt64(8 * $0))) }
        .joined()
        .uppercased()
    }
  }

  extension PnPID: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      func digits(_ number: UInt16) -> String {
        "0x" + hexadecimal(UInt8(number >> 8)) + hexadecimal(UInt8(number & 0xFF))
      }
      fields.member("vendorIdSource", vendorSource, .hidden)
      fields.member(
        "vendorId", vendor, .none,
        words: "Vendor \(digits(vendor)) product \(digits(product)) version \(digits(version))")
      fields.member("productId", product, .hidden)
      fields.member("productVersion", version, .hidden)
    }
  }

  extension DeviceInformationText: SensorValueFields {
    package func describe(into fields: inout FieldList) { fields.member("text", text) }
  }

  extension RegulatoryCertification: SensorValueFields {
    package func describe(into fields: inout FieldList) {
      fields.member("certifications") { fields in
        for entry in entries {
          fields.object { fields in
            fields.member("authority", entry.authority)
            fields.member("structureType", entry.structureType)
            fields.member("data", hex: entry.data.span)
          }
        }
      }
    }
  }
#endif
