public import BLECore
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

  /// The first characteristic with that UUID, within services of `service` if given.
  public func characteristic(
    _ uuid: BluetoothUUID, in service: BluetoothUUID? = nil
  ) -> Characteristic? {
    for candidate in services where service == nil || candidate.uuid == service {
      if let found = candidate.characteristics.first(where: { $0.uuid == uuid }) { return found }
    }
    return nil
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
