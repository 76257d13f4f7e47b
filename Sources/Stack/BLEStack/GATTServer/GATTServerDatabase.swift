public import BLEWire

/// The attributes of a server with their values, in handle order.
///
/// All links of a device share the database. The state of one client (CCCDs, MTU) is in `ATTServer`.
public struct GATTServerDatabase: Sendable {
  /// Kind of an attribute, which determines the rules for access.
  public enum Role: Hashable, Sendable {
    /// A service, include or characteristic declaration: always readable, never writable.
    case declaration
    case value
    case descriptor
    /// A CCCD: its value is stored per client, in `slot` of the bearer's table.
    case configuration(slot: Int, allowed: UInt8)
  }

  public struct Attribute: Sendable {
    public let handle: AttributeHandle
    public let type: BluetoothUUID
    public let role: Role
    /// Last handle of the group if this declares a service, otherwise its own handle.
    public let groupEnd: AttributeHandle
    /// Slot of the CCCD that controls this value.
    let configurationSlot: Int?
    public let maximumByteCount: Int
    public let readAccess: ATTAccess
    public let writeAccess: ATTAccess
    public let signedWriteAccess: ATTAccess
    public fileprivate(set) var value: [UInt8]
  }

  /// Attributes in ascending handle order; handles may have gaps.
  public private(set) var attributes: [Attribute]
  /// Number of CCCDs, and therefore of slots per bearer.
  public let configurationCount: Int

  /// Creates a database, and assigns the handles.
  ///
  /// The value of a Database Hash characteristic, if present, is computed; the value in its description is
  /// ignored.
  /// - Precondition: The given handles increase, there are enough handles, and includes refer to services in
  ///   the list.
  public init(_ services: [GATTServiceDescription]) {
    var builder = Builder()
    builder.place(services)
    attributes = builder.attributes
    configurationCount = builder.configurationCount
    if let hash = attributes.firstIndex(where: { $0.type == .databaseHash && $0.role == .value }) {
      attributes[hash].value = databaseHash
    }
  }

  /// Returns the index of the attribute with this handle in `attributes`.
  public func index(of handle: AttributeHandle) -> Int? {
    let index = firstIndex(from: handle)
    return index < attributes.count && attributes[index].handle == handle ? index : nil
  }

  /// Returns the index of the first attribute at or after `handle`, or `attributes.count` if all handles are
  /// lower.
  func firstIndex(from handle: AttributeHandle) -> Int {
    var low = 0
    var high = attributes.count
    while low < high {
      let middle = (low + high) / 2
      if attributes[middle].handle < handle { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Returns the value handle of the first characteristic of this type.
  public func valueHandle(of uuid: BluetoothUUID) -> AttributeHandle? {
    attributes.first { $0.type == uuid && $0.role == .value }?.handle
  }

  /// Returns the stored value, or `nil` for an unknown handle. The value of a CCCD is empty, because CCCD
  /// values are stored per client.
  public func value(of handle: AttributeHandle) -> [UInt8]? {
    index(of: handle).map { attributes[$0].value }
  }

  /// Replaces a value on behalf of the device itself, without a permission check.
  ///
  /// - Precondition: the handle exists and the value fits.
  public mutating func setValue(_ value: Span<UInt8>, of handle: AttributeHandle) {
    guard let index = index(of: handle) else { preconditionFailure("no attribute \(handle)") }
    store(value, at: index)
  }

  mutating func store(_ value: Span<UInt8>, at index: Int) {
    precondition(value.count <= attributes[index].maximumByteCount)
    attributes[index].value.removeAll(keepingCapacity: true)
    attributes[index].value.append(addingCapacity: value.count) { $0.append(value) }
  }
}

extension GATTServerDatabase {
  private struct Builder {
    var attributes: [Attribute] = []
    var configurationCount = 0
    private static let unsigned = ATTAccess.refused(.writeNotPermitted)
    /// The next free handle; `nil` after 0xFFFF.
    private var nextHandle: AttributeHandle? = .first

    private mutating func take(_ wanted: AttributeHandle?) -> AttributeHandle {
      guard let free = nextHandle else { preconditionFailure("the database is full") }
      let handle = wanted ?? free
      precondition(handle >= free, "handles must rise")
      nextHandle = handle.next
      return handle
    }

    mutating func place(_ services: [GATTServiceDescription]) {
      let ranges = Self.ranges(of: services)
      for (service, range) in zip(services, ranges) {
        add(
          take(service.handle), service.kind == .primary ? .primaryService : .secondaryService,
          [UInt8](encoding: 16) { $0.append(service.uuid) }, groupEnd: range.end)
        for include in service.includes {
          let (uuid, included) = (services[include].uuid, ranges[include])
          add(
            take(nil), .include,
            [UInt8](encoding: 6) {
              $0.append(included.start)
              $0.append(included.end)
              if let short = uuid.short { $0.append(u16: short) }
            })
        }
        for characteristic in service.characteristics { place(characteristic) }
        nextHandle = range.end.next
      }
    }

    private mutating func place(_ characteristic: GATTCharacteristicDescription) {
      let declaration = take(characteristic.handle)
      let valueHandle = take(nil)
      let isPushed = !characteristic.properties.isDisjoint(with: [.notify, .indicate])
      add(
        declaration, .characteristic,
        [UInt8](encoding: 19) {
          CharacteristicDeclaration(
            properties: characteristic.properties, valueHandle: valueHandle, uuid: characteristic.uuid
          ).encode(into: &$0)
        })
      attributes.append(
        Attribute(
          handle: valueHandle, type: characteristic.uuid, role: .value, groupEnd: valueHandle,
          configurationSlot: isPushed ? configurationCount : nil,
          maximumByteCount: characteristic.maximumByteCount, readAccess: characteristic.readAccess,
          writeAccess: characteristic.writeAccess, signedWriteAccess: characteristic.signedWriteAccess,
          value: characteristic.value))
      if isPushed {
        let handle = take(nil)
        // A value that is readable only on a secure link is also notified only on a secure link.
        var configurationAccess = characteristic.configurationAccess
        if configurationAccess == .allowed, case .needs = characteristic.readAccess {
          configurationAccess = characteristic.readAccess
        }
        // Bit 0 notifies, bit 1 indicates. Core 5.4, Vol 3, Part G, 3.3.3.3.
        let allowed = characteristic.properties.rawValue >> 4 & 0x03
        attributes.append(
          Attribute(
            handle: handle, type: .clientCharacteristicConfiguration,
            role: .configuration(slot: configurationCount, allowed: allowed), groupEnd: handle,
            configurationSlot: nil, maximumByteCount: 2, readAccess: .allowed,
            writeAccess: configurationAccess, signedWriteAccess: Self.unsigned, value: []))
        configurationCount += 1
      }
      for descriptor in characteristic.descriptors {
        let handle = take(descriptor.handle)
        attributes.append(
          Attribute(
            handle: handle, type: descriptor.uuid, role: .descriptor, groupEnd: handle,
            configurationSlot: nil, maximumByteCount: ATT.maximumValueByteCount,
            readAccess: descriptor.readAccess, writeAccess: descriptor.writeAccess,
            signedWriteAccess: Self.unsigned, value: descriptor.value))
      }
    }

    private mutating func add(
      _ handle: AttributeHandle, _ type: BluetoothUUID, _ value: [UInt8],
      groupEnd: AttributeHandle? = nil
    ) {
      attributes.append(
        Attribute(
          handle: handle, type: type, role: .declaration, groupEnd: groupEnd ?? handle,
          configurationSlot: nil, maximumByteCount: ATT.maximumValueByteCount, readAccess: .allowed,
          writeAccess: .refused(.writeNotPermitted), signedWriteAccess: Self.unsigned, value: value))
    }

    /// Returns the first and last handle of each service. Computed first because an include may refer to a
    /// later service.
    private static func ranges(of services: [GATTServiceDescription]) -> [HandleRange] {
      var next = 1
      func handle(_ wanted: AttributeHandle?) -> Int { wanted.map { Int($0.rawValue) } ?? next }
      return services.map { service in
        let start = handle(service.handle)
        next = start + 1 + service.includes.count
        for characteristic in service.characteristics {
          let isPushed = !characteristic.properties.isDisjoint(with: [.notify, .indicate])
          next = handle(characteristic.handle) + 2 + (isPushed ? 1 : 0)
          for descriptor in characteristic.descriptors { next = handle(descriptor.handle) + 1 }
        }
        if let end = service.endHandle {
          precondition(Int(end.rawValue) >= next - 1, "the group ends before its last attribute")
          next = Int(end.rawValue) + 1
        }
        return HandleRange(
          start: AttributeHandle(UInt16(start)), end: AttributeHandle(UInt16(next - 1)))
      }
    }
  }
}

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
  /// Handle of the declaration; `nil` for the next free handle.
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
  /// Write access to the Client Characteristic Configuration descriptor, if present.
  public var configurationAccess = ATTAccess.allowed
  public var descriptors: [GATTDescriptorDescription]
  /// Handle of the declaration; `nil` for the next free handle.
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
  /// Replaces each unrestricted access with `access`. For signed writes, a valid signature counts only as
  /// encryption, because it does not show how its key was exchanged. Core 5.4, Vol 3, Part C, 10.2.2.
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
  /// Handle of the descriptor; `nil` for the next free handle.
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
  /// Returns the two services that every GATT peer expects, without Service Changed: the database is fixed.
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
