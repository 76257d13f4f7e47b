public import BLEWire

/// A server's attributes as discovery found them, in handle order.
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

    /// Whether it has a characteristic of this UUID that can notify or indicate.
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
    /// Of the include declaration.
    public var handle: AttributeHandle
    /// Of the included service.
    public var range: HandleRange
    public var uuid: BluetoothUUID

    public init(handle: AttributeHandle, range: HandleRange, uuid: BluetoothUUID) {
      self.handle = handle
      self.range = range
      self.uuid = uuid
    }
  }

  public struct Characteristic: Hashable, Sendable {
    /// Of the declaration.
    public var handle: AttributeHandle
    public var properties: CharacteristicProperties
    public var valueHandle: AttributeHandle
    /// The last handle that belongs to it.
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

    /// Whether it has values that the server sends by itself.
    public var canPush: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }

    /// The descriptor that turns notifications on, where there is one.
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

  /// All characteristics with that UUID, within services of `service` if given, in handle order.
  public func characteristics(
    _ uuid: BluetoothUUID, in service: BluetoothUUID? = nil
  ) -> [Characteristic] {
    services.filter { service == nil || $0.uuid == service }.flatMap(\.characteristics).filter {
      $0.uuid == uuid
    }
  }

  /// The first characteristic with that UUID.
  ///
  /// - Parameters:
  ///   - uuid: its type.
  ///   - service: the type of the services that are looked through; `nil`: all.
  ///   - properties: one that has any of these is preferred.
  public func characteristic(
    _ uuid: BluetoothUUID, in service: BluetoothUUID? = nil, with properties: CharacteristicProperties = []
  ) -> Characteristic? {
    let all = characteristics(uuid, in: service)
    return all.first { !$0.properties.isDisjoint(with: properties) } ?? all.first
  }

  /// The characteristic whose value has that handle.
  public func characteristic(valueHandle: AttributeHandle) -> Characteristic? {
    for service in services {
      if let found = service.characteristics.first(where: { $0.valueHandle == valueHandle }) {
        return found
      }
    }
    return nil
  }
}
