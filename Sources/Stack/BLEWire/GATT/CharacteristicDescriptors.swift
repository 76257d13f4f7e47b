/// The value of a Characteristic Extended Properties descriptor (0x2900). Core 5.4, Vol 3, Part G, 3.3.3.1.
@frozen public struct CharacteristicExtendedProperties: RawRepresentable, Hashable, Sendable, BitwiseCopyable
{
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let reliableWrite = CharacteristicExtendedProperties(rawValue: 0x0001)
  /// The user description may be written.
  public static let writableAuxiliaries = CharacteristicExtendedProperties(rawValue: 0x0002)

  /// - Throws: `lengthMismatch` unless the value has 2 octets.
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

/// The value of a Characteristic Presentation Format descriptor (0x2904): how to read the characteristic's value.
///
/// Core 5.4, Vol 3, Part G, 3.3.3.5. `BLESensors` renders values by it.
@frozen public struct CharacteristicPresentationFormat: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 7

  /// Bluetooth Assigned Numbers, 2.4.1.
  public let format: UInt8
  /// The power of ten that an integer is multiplied by.
  public let exponent: Int8
  /// A 16-bit UUID of Bluetooth Assigned Numbers, 3.5.
  public let unit: UInt16
  /// 1 is the SIG's: then `description` is one of Bluetooth Assigned Numbers, 2.4.2.
  public let nameSpace: UInt8
  /// Which of several like it: first, left, inside, …
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

  /// - Throws: `lengthMismatch` unless the value has 7 octets.
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

/// The value of a Characteristic Aggregate Format descriptor (0x2905): the presentation formats of a value's parts.
///
/// Core 5.4, Vol 3, Part G, 3.3.3.6.
@frozen public struct CharacteristicAggregateFormat: ~Escapable {
  @usableFromInline let handles: Span<UInt8>

  /// - Throws: `lengthMismatch` for an empty list or half a handle.
  @_lifetime(copy value)
  @inlinable public init(validating value: Span<UInt8>) throws(WireError) {
    guard value.count > 0, value.count % 2 == 0 else {
      throw WireError(.att, offset: 0, .lengthMismatch(claimed: 2, available: value.count))
    }
    handles = value
  }

  @inlinable public var count: Int { handles.count / 2 }

  /// Where one of the presentation formats is.
  @inlinable public subscript(index: Int) -> AttributeHandle { handles.handle(at: index * 2) }
}
