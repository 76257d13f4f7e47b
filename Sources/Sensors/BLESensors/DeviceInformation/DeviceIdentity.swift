public import BLEWire

/// A device's extended unique identifier: 40 bits from the manufacturer below 24 bits from the IEEE.
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

  /// The EUI-64 of a public device address, with FF FE in the middle.
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

  /// The device address from which the identifier was derived.
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

/// Identifies vendor, product and version.
///
/// Device Information Service 1.1, 3.9; PnP ID (0x2A50).
public struct PnPID: CharacteristicValue, BitwiseCopyable {
  public static let byteCount = 7

  /// 1: `vendor` is a Bluetooth company identifier; 2: it is assigned by the USB Implementers Forum.
  public let vendorSource: UInt8
  public let vendor: UInt16
  public let product: UInt16
  /// 0xJJMN for version JJ.M.N, by convention only.
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
