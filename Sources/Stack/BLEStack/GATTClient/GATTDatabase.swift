public import BLEWire

/// The discovered attributes of a server, in handle order.
public struct GATTDatabase: Hashable, Sendable {
  public enum ServiceKind: Hashable, Sendable {
    case primary, secondary
  }

  public struct Service: Hashable, Sendable {
    public var kind: ServiceKind
    public var range: HandleRange
    public var uuid: BluetoothUUID
    public var includes: [Include] = []
    public var characteristics: [Characteristic] = []

    /// Returns whether the service has a characteristic with this UUID that can notify or indicate.
    public func canPush(_ uuid: BluetoothUUID?) -> Bool {
      characteristics.contains { $0.uuid == uuid && $0.canPush }
    }

    public init(kind: ServiceKind, range: HandleRange, uuid: BluetoothUUID) {
      self.kind = kind
      self.range = range
      self.uuid = uuid
    }
  }

  public struct Include: Hashable, Sendable {
    /// Handle of the include declaration.
    public var handle: AttributeHandle
    /// Handle range of the included service.
    public var range: HandleRange
    public var uuid: BluetoothUUID

    public init(handle: AttributeHandle, range: HandleRange, uuid: BluetoothUUID) {
      self.handle = handle
      self.range = range
      self.uuid = uuid
    }
  }

  public struct Characteristic: Hashable, Sendable {
    /// Handle of the declaration.
    public var handle: AttributeHandle
    public var properties: CharacteristicProperties
    public var valueHandle: AttributeHandle
    /// Last handle that belongs to the characteristic.
    public var endHandle: AttributeHandle
    public var uuid: BluetoothUUID
    public var descriptors: [Descriptor] = []

    public init(
      handle: AttributeHandle, properties: CharacteristicProperties, valueHandle: AttributeHandle,
      endHandle: AttributeHandle, uuid: BluetoothUUID, descriptors: [Descriptor] = []
    ) {
      self.handle = handle
      self.properties = properties
      self.valueHandle = valueHandle
      self.endHandle = endHandle
      self.uuid = uuid
      self.descriptors = descriptors
    }

    /// Whether the characteristic can notify or indicate.
    public var canPush: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }

    /// Handle of the Client Characteristic Configuration descriptor, which enables notifications.
    public var configuration: AttributeHandle? {
      descriptors.first { $0.uuid == .clientCharacteristicConfiguration }?.handle
    }
  }

  public struct Descriptor: Hashable, Sendable {
    public var handle: AttributeHandle
    public var uuid: BluetoothUUID

    public init(handle: AttributeHandle, uuid: BluetoothUUID) {
      self.handle = handle
      self.uuid = uuid
    }
  }

  public var services: [Service]

  public init(services: [Service] = []) { self.services = services }

  /// Returns all characteristics with a UUID, in handle order. If `service` is given, searches only services
  /// of this type.
  public func characteristics(
    _ uuid: BluetoothUUID, in service: BluetoothUUID? = nil
  ) -> [Characteristic] {
    services.filter { service == nil || $0.uuid == service }.flatMap { $0.characteristics }.filter {
      $0.uuid == uuid
    }
  }

  /// Returns the first characteristic with this UUID.
  ///
  /// - Parameters:
  ///   - uuid: type of the characteristic.
  ///   - service: type of the services to search; `nil` for all.
  ///   - properties: a characteristic with any of these is preferred.
  public func characteristic(
    _ uuid: BluetoothUUID, in service: BluetoothUUID? = nil, with properties: CharacteristicProperties = []
  ) -> Characteristic? {
    let all = characteristics(uuid, in: service)
    return all.first { !$0.properties.isDisjoint(with: properties) } ?? all.first
  }

  /// Returns the characteristic with this value handle.
  public func characteristic(valueHandle: AttributeHandle) -> Characteristic? {
    for service in services {
      if let found = service.characteristics.first(where: { $0.valueHandle == valueHandle }) {
        return found
      }
    }
    return nil
  }
}

/// Result of a service discovery on a connection.
public struct GATTDiscoveryResult: Hashable, Sendable {
  public enum Extent: Hashable, Sendable {
    /// All services.
    case whole
    /// Only the requested services.
    case part
    /// Nothing: the device's attributes have changed, so earlier results are invalid.
    case none
  }

  /// Method to check on a later link whether the attributes are unchanged. Core 5.4, Vol 3, Part G, 2.5.2.
  public enum Proof: Hashable, Sendable {
    /// The attributes are unchanged if the device's Database Hash equals this hash.
    case hash([UInt8])
    /// No check needed: a device without Service Changed never changes its attributes.
    case lasting
    /// No check possible: a device with Service Changed reports changes to bonded clients only.
    case none
  }

  public var database: GATTDatabase
  public var extent: Extent
  /// The Database Hash, 16 bytes; `nil` if the device does not support it. Core 5.4, Vol 3, Part G, 7.3.
  public var databaseHash: [UInt8]?
  /// The requested services that the device does not have, if `extent` is `.part`.
  public var absent: [BluetoothUUID]

  public init(
    _ database: GATTDatabase, _ extent: Extent, databaseHash: [UInt8]? = nil, absent: [BluetoothUUID] = []
  ) {
    self.database = database
    self.extent = extent
    self.databaseHash = databaseHash
    self.absent = absent
  }

  public var proof: Proof {
    guard extent != .none else { return .none }
    if let databaseHash { return .hash(databaseHash) }
    guard hasLookedFor(.genericAttribute),
      database.characteristic(.serviceChanged, in: .genericAttribute) == nil
    else { return .none }
    return .lasting
  }

  /// Returns the services with these UUIDs: all services of each UUID, in the order of `services`.
  ///
  /// - Parameter services: `nil` for all.
  /// - Returns: `nil` if the discovery did not cover all of these UUIDs.
  public func database(of services: [BluetoothUUID]?) -> GATTDatabase? {
    guard let services else { return extent == .whole ? database : nil }
    guard services.allSatisfy(hasLookedFor) else { return nil }
    return GATTDatabase(
      services: services.flatMap { uuid in
        database.services.filter { $0.uuid == uuid && $0.kind == .primary }
      })
  }

  private func hasLookedFor(_ service: BluetoothUUID) -> Bool {
    switch extent {
    case .whole: true
    case .part: absent.contains(service) || database.services.contains { $0.uuid == service }
    case .none: false
    }
  }
}
