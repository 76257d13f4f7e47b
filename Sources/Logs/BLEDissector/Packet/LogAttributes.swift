import BLEStack
package import BLEWire

/// The device of a packet in a log.
package enum LogDevice: Hashable, Sendable {
  case peer(DeviceAddress)
  /// A link without a known peer, because the log does not contain the start of the link: its adapter and
  /// handle.
  case link(adapter: UInt16, ConnectionHandle)

  package init(_ adapter: UInt16, _ handle: ConnectionHandle, _ peer: DeviceAddress?) {
    self = peer.map { .peer($0) } ?? .link(adapter: adapter, handle)
  }

  /// The peer's address; `nil` if the log does not contain it.
  package var address: DeviceAddress? {
    if case .peer(let address) = self { address } else { nil }
  }
}

/// Attribute types of the devices in a log, from discovery in the log and from other sources.
///
/// To have all discovered types available for the first packet, read the log twice with the same instance.
package final class LogAttributes {
  private static let deviceLimit = Limit(
    64, "devices of a log whose attributes are known", by: .file, whenFull: "the first is dropped",
    counted: "attributes shown as handles only")

  /// The host's own attributes, for all links.
  let local = AttributeTypes()
  private var known: [(device: LogDevice, types: AttributeTypes)] = []
  private let told: [(handle: AttributeHandle, uuid: BluetoothUUID)]

  /// Creates a set of attribute types.
  ///
  /// - Parameter told: attribute types given by the user. These types apply to every device.
  package init(_ told: [(handle: AttributeHandle, uuid: BluetoothUUID)] = []) { self.told = told }

  func types(of device: LogDevice) -> AttributeTypes {
    if let known = known.first(where: { $0.device == device }) { return known.types }
    if known.count >= Self.deviceLimit.count { known.removeFirst() }
    let types = AttributeTypes()
    for attribute in told { types.assume(attribute.uuid, at: attribute.handle, by: .file) }
    known.append((device, types))
    return types
  }

  /// Returns the type of an attribute.
  ///
  /// - Returns: the type and its source; `nil` if the type is unknown.
  package func type(
    of handle: AttributeHandle, _ device: LogDevice
  ) -> (uuid: BluetoothUUID, source: AttributeSource)? {
    known.first { $0.device == device }?.types.known(handle)
  }

  /// Adds a type that the log does not contain. Discovered types take precedence. A type inferred from a
  /// payload is ignored if it contradicts a more reliable type.
  package func assume(
    _ uuid: BluetoothUUID, at handle: AttributeHandle, of device: LogDevice, by source: AttributeSource
  ) {
    let types = types(of: device)
    if source == .payload, types.contradicts(uuid, at: handle) { return }
    types.assume(uuid, at: handle, by: source)
  }
}

/// Source of an attribute type. The most reliable source is first.
package enum AttributeSource: String, CaseIterable, Hashable, Sendable {
  /// A type given by the user.
  case file
  /// A type discovered in the log, on this link or another link to the device.
  case discovery
  /// A type that this program discovered on an earlier connection to the device.
  case knownDevice
  /// A type inferred from the distinctive format of the values.
  case payload
}

/// Known attribute types of one server.
final class AttributeTypes {
  /// Maximum number of attributes of a server, more than real servers have. The limit protects memory against
  /// invalid logs.
  private static let limit = Limit(
    4_096, "attributes of a device in a log", by: .file, whenFull: "further ones stay unknown",
    counted: "attributes shown as handles only")

  private var types: [AttributeHandle: (uuid: BluetoothUUID, source: AttributeSource)] = [:]
  /// Discovered services, by their first handle.
  private var services: [AttributeHandle: (end: AttributeHandle, uuid: BluetoothUUID)] = [:]

  subscript(handle: AttributeHandle) -> BluetoothUUID? { types[handle]?.uuid }

  func known(_ handle: AttributeHandle) -> (uuid: BluetoothUUID, source: AttributeSource)? { types[handle] }

  func assume(_ uuid: BluetoothUUID, at handle: AttributeHandle, by source: AttributeSource) {
    guard source == .file || types[handle] == nil else { return }
    put(uuid, at: handle, source)
  }

  /// Returns whether a more reliable source contradicts the type, because the attribute belongs to another
  /// service, or the device has this type at another handle.
  func contradicts(_ uuid: BluetoothUUID, at handle: AttributeHandle) -> Bool {
    if types.contains(where: { $0.key != handle && $0.value.uuid == uuid && $0.value.source != .payload }) {
      return true
    }
    guard let service = AttributeDeclaration(of: uuid)?.service,
      let known = services.filter({ $0.key <= handle && handle <= $0.value.end }).max(by: { $0.key < $1.key })
    else { return false }
    return known.value.uuid != service
  }

  private func learn(_ range: HandleRange, _ service: BluetoothUUID) {
    guard services.count < Self.limit.count || services[range.start] != nil else { return }
    services[range.start] = (range.end, service)
  }

  private func put(_ uuid: BluetoothUUID, at handle: AttributeHandle, _ source: AttributeSource) {
    if types.count < Self.limit.count || types[handle] != nil { types[handle] = (uuid, source) }
  }

  private func learn(_ handle: AttributeHandle, _ type: BluetoothUUID) {
    if types[handle]?.source != .file { put(type, at: handle, .discovery) }
  }

  /// Stores the types in a server's discovery response. Core 5.4, Vol 3, Part G, 4.4 to 4.7.
  func learn(from att: borrowing DecodedATT, _ pdu: Span<UInt8>) {
    switch att.opcode {
    case .findInformationResponse:
      guard let list = try? FindInformationResponse(validating: pdu) else { return }
      for index in 0..<list.count { learn(list[index].handle, list[index].type) }
    case .findByTypeValueResponse:
      guard let type = att.askedType, let list = try? FindByTypeValueResponse(validating: pdu) else { return }
      for index in 0..<list.count {
        learn(list[index].start, type)
        if let service = att.askedService { learn(list[index], service) }
      }
    case .readByGroupTypeResponse:
      guard let type = att.askedType, let list = try? ReadByGroupTypeResponse(validating: pdu) else { return }
      for index in 0..<list.count {
        learn(list.range(index).start, type)
        if let service = list.uuid(index) { learn(list.range(index), service) }
      }
    case .readByTypeResponse:
      guard let type = att.askedType, let list = try? ReadByTypeResponse(validating: pdu) else { return }
      for index in 0..<list.count {
        learn(list.handle(index), type)
        if type == .characteristic { learn(declaration: list.value(index)) }
      }
    case .readResponse:
      if let handle = att.handle, self[handle] == .characteristic, let value = att.value {
        learn(declaration: value)
      }
    default: break
    }
  }

  private func learn(declaration value: Span<UInt8>) {
    guard let declaration = try? CharacteristicDeclaration(validating: value) else { return }
    learn(declaration.valueHandle, declaration.uuid)
  }
}
