public import BLEWire

/// One service of a server, before handles are assigned.
///
/// A database is built from a list of services. Handles increase in the order of the lists. Set `handle` only
/// to copy the layout of a real device.
public struct GATTServiceDescription: Sendable {
  /// Type of a service. Core 5.4, Vol 3, Part G, 3.1.
  public enum Kind: Hashable, Sendable { case primary, secondary }

  public var kind: Kind
  public var uuid: BluetoothUUID
  /// Indices of other services in the same list, for `include` declarations (Part G, 3.2).
  public var includes: [Int]
  public var characteristics: [GATTCharacteristicDescription]
  /// Handle of the declaration; `nil` for the next free one.
  public var handle: AttributeHandle?
  /// Last handle of the group if the service reserves handles after its last attribute, otherwise `nil`.
  public var endHandle: AttributeHandle?

  public init(
    _ uuid: BluetoothUUID, kind: Kind = .primary, handle: AttributeHandle? = nil,
    endHandle: AttributeHandle? = nil, includes: [Int] = [],
    characteristics: [GATTCharacteristicDescription] = []
  ) {
    self.kind = kind
    self.uuid = uuid
    self.handle = handle
    self.endHandle = endHandle
    self.includes = includes
    self.characteristics = characteristics
  }
}

/// One characteristic: declaration, value, descriptors.
///
/// If the properties contain `notify` or `indicate`, a Client Characteristic Configuration descriptor is
/// added after the value.
public struct GATTCharacteristicDescription: Sendable {
  public var uuid: BluetoothUUID
  public var properties: CharacteristicProperties
  public var value: [UInt8]
  /// Maximum size of the value. Longer writes are refused with Invalid Attribute Value Length.
  public var maximumByteCount: Int
  /// `readAccess` and `writeAccess` are derived from the properties by default.
  public var readAccess: ATTAccess
  public var writeAccess: ATTAccess
  /// Access for signed writes without response, whether or not the link is encrypted.
  public var signedWriteAccess: ATTAccess
  /// Write access to the Client Characteristic Configuration descriptor, if there is one.
  public var configurationAccess = ATTAccess.allowed
  public var descriptors: [GATTDescriptorDescription]
  /// Handle of the declaration; `nil` for the next free one.
  public var handle: AttributeHandle?

  public init(
    _ uuid: BluetoothUUID, _ properties: CharacteristicProperties, value: [UInt8] = [],
    maximumByteCount: Int = ATT.maximumValueByteCount, handle: AttributeHandle? = nil,
    descriptors: [GATTDescriptorDescription] = []
  ) {
    precondition(value.count <= maximumByteCount && maximumByteCount <= ATT.maximumValueByteCount)
    self.uuid = uuid
    self.properties = properties
    self.value = value
    self.maximumByteCount = maximumByteCount
    self.handle = handle
    self.descriptors = descriptors
    readAccess = properties.contains(.read) ? .allowed : .refused(.readNotPermitted)
    writeAccess =
      properties.isDisjoint(with: [.write, .writeWithoutResponse])
      ? .refused(.writeNotPermitted) : .allowed
    signedWriteAccess =
      properties.contains(.authenticatedSignedWrites) ? .allowed : .refused(.writeNotPermitted)
  }
}

extension GATTCharacteristicDescription {
  /// Applies `access` wherever access is unrestricted. A valid signature counts only as encryption, because
  /// it does not show how its key was exchanged. Core 5.4, Vol 3, Part C, 10.2.2.
  public mutating func demand(_ access: ATTAccess) {
    if case .needs(let level, let keyByteCount) = access, level > .encrypted || keyByteCount > 7,
      signedWriteAccess == .allowed
    {
      signedWriteAccess = access
    }
    if readAccess == .allowed { readAccess = access }
    if writeAccess == .allowed { writeAccess = access }
    if configurationAccess == .allowed { configurationAccess = access }
  }
}

/// A descriptor; readable and not writable by default.
public struct GATTDescriptorDescription: Sendable {
  public var uuid: BluetoothUUID
  public var value: [UInt8]
  public var readAccess: ATTAccess
  public var writeAccess: ATTAccess
  /// Handle of the descriptor; `nil` for the next free one.
  public var handle: AttributeHandle?

  public init(
    _ uuid: BluetoothUUID, value: [UInt8], handle: AttributeHandle? = nil,
    readAccess: ATTAccess = .allowed, writeAccess: ATTAccess = .refused(.writeNotPermitted)
  ) {
    self.uuid = uuid
    self.value = value
    self.readAccess = readAccess
    self.handle = handle
    self.writeAccess = writeAccess
  }
}

extension [GATTServiceDescription] {
  /// The two services that every GATT peer expects, without Service Changed: the database is fixed.
  ///
  /// Core 5.4, Vol 3, Part C, 12 and Part G, 7.
  /// - Parameter appearance: a value of Bluetooth Assigned Numbers, 2.6; 0 is "unknown".
  public static func genericServices(name: String, appearance: UInt16 = 0) -> [GATTServiceDescription] {
    [
      GATTServiceDescription(
        .genericAccess,
        characteristics: [
          GATTCharacteristicDescription(.deviceName, .read, value: [UInt8](name.utf8)),
          GATTCharacteristicDescription(
            .appearance, .read,
            value: [UInt8(truncatingIfNeeded: appearance), UInt8(truncatingIfNeeded: appearance >> 8)]),
        ]),
      GATTServiceDescription(.genericAttribute),
    ]
  }
}
