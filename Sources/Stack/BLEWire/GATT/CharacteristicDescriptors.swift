/// The value of a Characteristic Extended Properties descriptor (0x2900). Core 5.4, Vol 3, Part G, 3.3.3.1.
@frozen public struct CharacteristicExtendedProperties: RawRepresentable, Hashable, Sendable, BitwiseCopyable
{
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let reliableWrite = CharacteristicExtendedProperties(rawValue: 0x0001)
  /// A client may write the Characteristic User Description descriptor.
  public static let writableAuxiliaries = CharacteristicExtendedProperties(rawValue: 0x0002)

  /// Decodes the value of a Characteristic Extended Properties descriptor.
  ///
  /// - Throws: `lengthMismatch` unless the value has 2 bytes.
  @inlinable public init(validating value: Span<UInt8>) throws(WireError) {
    guard value.count == 2 else {
      throw WireError(.att, offset: 0, .lengthMismatch(claimed: 2, available: value.count))
    }
    rawValue = value.u16(at: 0)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) { output.append(u16: rawValue) }
}

#if !NO_ALLOCATIONS
  extension CharacteristicExtendedProperties: OptionSet {}
#endif

/// The value of a Characteristic Presentation Format descriptor (0x2904): the format of the characteristic's
/// value.
///
/// Core 5.4, Vol 3, Part G, 3.3.3.5. `BLESensors` uses it to format values.
@frozen public struct CharacteristicPresentationFormat: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 7

  /// Code of the data type. Bluetooth Assigned Numbers, 2.4.1.
  public let format: UInt8
  /// Decimal exponent: an integer value is multiplied by ten to this power.
  public let exponent: Int8
  /// Unit, a 16-bit UUID. Bluetooth Assigned Numbers, 3.5.
  public let unit: UInt16
  /// Organisation that defines the numbers in `description`. 1 is the SIG (Bluetooth Assigned Numbers,
  /// 2.4.2).
  public let nameSpace: UInt8
  /// Number that distinguishes similar values, such as first, left or inside.
  public let description: UInt16

  @inlinable public init(
    format: UInt8, exponent: Int8, unit: UInt16, nameSpace: UInt8 = 1, description: UInt16 = 0
  ) {
    self.format = format
    self.exponent = exponent
    self.unit = unit
    self.nameSpace = nameSpace
    self.description = description
  }

  /// Decodes the value of a Characteristic Presentation Format descriptor.
  ///
  /// - Throws: `lengthMismatch` unless the value has 7 bytes.
  @inlinable public init(validating value: Span<UInt8>) throws(WireError) {
    guard value.count == Self.byteCount else {
      throw WireError(
        .att, offset: 0, .lengthMismatch(claimed: Self.byteCount, available: value.count))
    }
    format = value[0]
    exponent = Int8(bitPattern: value[1])
    unit = value.u16(at: 2)
    nameSpace = value[4]
    description = value.u16(at: 5)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(format)
    output.append(UInt8(bitPattern: exponent))
    output.append(u16: unit)
    output.append(nameSpace)
    output.append(u16: description)
  }
}

/// The value of a Characteristic Aggregate Format descriptor (0x2905): for each part of the characteristic's
/// value, the handle of its presentation format descriptor.
///
/// Core 5.4, Vol 3, Part G, 3.3.3.6.
@frozen public struct CharacteristicAggregateFormat: ~Escapable {
  @usableFromInline let handles: Span<UInt8>

  /// Decodes the value of a Characteristic Aggregate Format descriptor.
  ///
  /// - Throws: `lengthMismatch` for an empty list or an incomplete handle.
  @_lifetime(copy value)
  @inlinable public init(validating value: Span<UInt8>) throws(WireError) {
    guard value.count > 0, value.count % 2 == 0 else {
      throw WireError(.att, offset: 0, .lengthMismatch(claimed: 2, available: value.count))
    }
    handles = value
  }

  @inlinable public var count: Int { handles.count / 2 }

  /// Handle of a presentation format descriptor.
  @inlinable public subscript(index: Int) -> AttributeHandle { handles.handle(at: index * 2) }
}
