/// Permitted operations on a characteristic's value. Core 5.4, Vol 3, Part G, 3.3.1.1.
public struct CharacteristicProperties: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let broadcast = CharacteristicProperties(rawValue: 0x01)
  public static let read = CharacteristicProperties(rawValue: 0x02)
  public static let writeWithoutResponse = CharacteristicProperties(rawValue: 0x04)
  public static let write = CharacteristicProperties(rawValue: 0x08)
  public static let notify = CharacteristicProperties(rawValue: 0x10)
  public static let indicate = CharacteristicProperties(rawValue: 0x20)
  public static let authenticatedSignedWrites = CharacteristicProperties(rawValue: 0x40)
  public static let extendedProperties = CharacteristicProperties(rawValue: 0x80)
}

// Set literals create an array, which a build without allocations does not allow.
#if !NO_ALLOCATIONS
  extension CharacteristicProperties: OptionSet {}
  extension ClientCharacteristicConfiguration: OptionSet {}

  extension CharacteristicProperties {
    /// Names of the properties in the set, in bit order: `read`, `notify`, … as used by the command line and
    /// in JSON.
    public var names: [String] {
      let words = [
        "broadcast", "read", "writeWithoutResponse", "write", "notify", "indicate",
        "authenticatedSignedWrites", "extendedProperties",
      ]
      return words.indices.filter { rawValue & 1 << UInt8($0) != 0 }.map { words[$0] }
    }
  }
#endif

/// The value of a characteristic declaration attribute (0x2803). Core 5.4, Vol 3, Part G, 3.3.1.
@frozen public struct CharacteristicDeclaration: Hashable, Sendable, BitwiseCopyable {
  public let properties: CharacteristicProperties
  public let valueHandle: AttributeHandle
  public let uuid: BluetoothUUID

  @inlinable public init(
    properties: CharacteristicProperties, valueHandle: AttributeHandle, uuid: BluetoothUUID
  ) {
    self.properties = properties
    self.valueHandle = valueHandle
    self.uuid = uuid
  }

  /// Decodes the value of a characteristic declaration.
  ///
  /// - Throws: `lengthMismatch` unless the value has 5 or 19 bytes.
  @inlinable public init(validating value: Span<UInt8>) throws(WireError) {
    guard value.count == 5 || value.count == 19,
      let uuid = value.uuid(at: 3, byteCount: value.count - 3)
    else { throw WireError(.att, offset: 0, .lengthMismatch(claimed: 5, available: value.count)) }
    properties = CharacteristicProperties(rawValue: value[0])
    valueHandle = value.handle(at: 1)
    self.uuid = uuid
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(properties.rawValue)
    output.append(valueHandle)
    output.append(uuid)
  }
}

/// The value of a Client Characteristic Configuration descriptor (0x2902): whether the client subscribes to
/// notifications or indications. Core 5.4, Vol 3, Part G, 3.3.3.3.
@frozen public struct ClientCharacteristicConfiguration: RawRepresentable, Hashable, Sendable, BitwiseCopyable
{
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let notification = ClientCharacteristicConfiguration(rawValue: 0x0001)
  public static let indication = ClientCharacteristicConfiguration(rawValue: 0x0002)
}
