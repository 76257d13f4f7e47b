import BLEStack
package import BLEWire

/// The device that a packet of a log is of.
package enum LogDevice: Hashable, Sendable {
  case peer(DeviceAddress)
  /// Where the log does not show how the link began: its adapter and handle.
  case link(adapter: UInt16, ConnectionHandle)

  package init(_ adapter: UInt16, _ handle: ConnectionHandle, _ peer: DeviceAddress?) {
    self = peer.map { .peer($0) } ?? .link(adapter: adapter, handle)
  }

  /// `nil` where the log does not tell it.
  package var address: DeviceAddress? {
    if case .peer(let address) = self { address } else { nil }
  }
}

/// The attribute types of the devices in a log: as discovery in it has shown them, and as somebody else knows them.
///
/// Who reads a log twice with the same one knows the second time, from the first packet on, what was discovered at its end.
package final class LogAttributes {
  private static let deviceLimit = Limit(
    64, "devices of a log whose attributes are known", by: .file, whenFull: "the first one goes",
    counted: "attributes by their numbers alone")

  /// The host's own attributes, for all links.
  let local = AttributeTypes()
  private var known: [(device: LogDevice, types: AttributeTypes)] = []
  private let told: [(handle: AttributeHandle, uuid: BluetoothUUID)]

  /// - Parameter told: what a person says of the attributes of every device.
  package init(_ told: [(handle: AttributeHandle, uuid: BluetoothUUID)] = []) { self.told = told }

  func types(of device: LogDevice) -> AttributeTypes {
    if let known = known.first(where: { $0.device == device }) { return known.types }
    if known.count >= Self.deviceLimit.count { known.removeFirst() }
    let types = AttributeTypes()
    for attribute in told { types.assume(attribute.uuid, at: attribute.handle, by: .file) }
    known.append((device, types))
    return types
  }

  /// - Returns: the type, and how it is known.
  package func type(
    of handle: AttributeHandle, _ device: LogDevice
  ) -> (uuid: BluetoothUUID, source: AttributeSource)? {
    known.first { $0.device == device }?.types.known(handle)
  }

  /// Takes a type that the log itself does not tell. What was discovered stays, and a payload that contradicts it counts for
  /// nothing.
  package func assume(
    _ uuid: BluetoothUUID, at handle: AttributeHandle, of device: LogDevice, by source: AttributeSource
  ) {
    let types = types(of: device)
    if source == .payload, types.contradicts(uuid, at: handle) { return }
    types.assume(uuid, at: handle, by: source)
  }
}

/// How the type of an attribute of a log is known, the surest first.
package enum AttributeSource: String, CaseIterable, Hashable, Sendable {
  /// A person's word.
  case file
  /// Discovery in the log, on this link or another one of the device.
  case discovery
  /// This program was connected to the device once.
  case knownDevice
  /// The form of its values, which hardly anything else has; nothing else that is known of the device contradicts it.
  case payload
}

/// The types of one server's attributes, as far as they are known.
final class AttributeTypes {
  /// More than servers have; a log of garbage must not take the memory.
  private static let limit = Limit(
    4_096, "attributes of a device in a log", by: .file, whenFull: "further ones stay unknown",
    counted: "attributes by their numbers alone")

  private var types: [AttributeHandle: (uuid: BluetoothUUID, source: AttributeSource)] = [:]
  /// Services that were discovered, by their first handles.
  private var services: [AttributeHandle: (end: AttributeHandle, uuid: BluetoothUUID)] = [:]

  subscript(handle: AttributeHandle) -> BluetoothUUID? { types[handle]?.uuid }

  func known(_ handle: AttributeHandle) -> (uuid: BluetoothUUID, source: AttributeSource)? { types[handle] }

  func assume(_ uuid: BluetoothUUID, at handle: AttributeHandle, by source: AttributeSource) {
    guard source == .file || types[handle] == nil else { return }
    put(uuid, at: handle, source)
  }

  /// Whether surer knowledge says that the attribute at `handle` is something else: its service is another one, or the device
  /// has the attribute elsewhere.
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

  /// Takes what a server's answer says of its attributes. Core 5.4, Vol 3, Part G, 4.4 to 4.7.
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
