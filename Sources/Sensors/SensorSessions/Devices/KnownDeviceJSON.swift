import BLEHost
import BLEStack
import BLEWire
package import JSONText

/// The file of a known device: one JSON object. Keys shared with `ringtap gatt --json` have the same names.
extension KnownDevice {
  /// Version of the keys. A file with a higher version was written by a later program and is not changed.
  static let version = 2

  /// The lowest version that can hold this device, so that earlier programs can read the file.
  private var version: Int { avoided.isEmpty && firmwareRevision == nil ? 1 : 2 }

  /// Why a file is not used.
  enum Unreadable: Error, Hashable {
    /// The file is not valid JSON, or lacks a required member.
    case damaged(String)
    case ofLaterVersion(Int)
  }

  package func encode(into line: inout JSONLine) {
    line.object { line in
      encodeContent(into: &line)
      line.member("checksum", checksum)
    }
    line.endLine()
  }

  /// Checksum of the content as ringtap writes it: 64-bit FNV-1a, in hexadecimal. It detects damage, not
  /// tampering.
  private var checksum: String {
    var line = JSONLine()
    line.object { encodeContent(into: &$0) }
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for octet in line.octets { hash = (hash ^ UInt64(octet)) &* 0x100_0000_01B3 }
    return String(hash, radix: 16)
  }

  private func encodeContent(into line: inout JSONLine) {
    line.member("version", version)
    encodeSummary(into: &line)
    if let firmwareRevision { line.member("firmware", firmwareRevision) }
    if !avoided.isEmpty {
      line.member(
        "notAsked", array: { line in for item in avoided { line.object { item.encode(into: &$0) } } })
    }
    line.member("isWhole", discovery.extent == .whole)
    if discovery.extent == .none { line.member("isOutdated", true) }
    if !discovery.absent.isEmpty {
      line.member("absent", array: { line in for uuid in discovery.absent { line.value(uuid.description) } })
    }
    if let hash = discovery.databaseHash { line.member("databaseHash", hex: hash.span) }
    line.member(
      "services",
      array: { line in
        for service in discovery.database.services { line.object { service.encode(into: &$0) } }
      })
  }

  /// Encodes the identity of the device, without its attributes.
  package func encodeSummary(into line: inout JSONLine) {
    line.member("address", address.description)
    line.member("addressType", address.type.name)
    if let name { line.member("name", name) }
    line.member("kind", kind.rawValue)
    line.member("lastSeenNs", lastSeen)
  }

  init(decoding octets: [UInt8]) throws(Unreadable) {
    let file: JSONDocument
    do throws(JSONDocument.Failure) { file = try JSONDocument(octets) } catch {
      throw .damaged("\(error)")
    }
    guard let version = file["version"]?.integer(Int.self) else { throw .damaged("it has no version") }
    guard version <= Self.version else { throw .ofLaterVersion(version) }
    guard let type = file["addressType"]?.text.flatMap(AddressType.init(named:)),
      let address = file["address"]?.text.flatMap({ DeviceAddress($0, type: type) })
    else { throw .damaged("it has no address") }
    guard let lastSeen = file["lastSeenNs"]?.nanoseconds else {
      throw .damaged("it has no time")
    }
    guard let list = file["services"]?.array, let isWhole = file["isWhole"]?.flag else {
      throw .damaged("it has no services")
    }
    var services: [GATTDatabase.Service] = []
    for element in list {
      guard let service = GATTDatabase.Service(element) else { throw .damaged("a service is incomplete") }
      services.append(service)
    }
    var hash: [UInt8]?
    if let text = file["databaseHash"]?.text {
      hash = Self.octets(text)
      guard hash != nil else { throw .damaged("the database hash is not hexadecimal") }
    }
    let extent: GATTDiscoveryResult.Extent =
      file["isOutdated"]?.flag == true ? .none : isWhole ? .whole : .part
    var absent: [BluetoothUUID] = []
    for element in file["absent"]?.array ?? [] {
      guard let uuid = element.text.flatMap({ BluetoothUUID($0) }) else {
        throw .damaged("a UUID is damaged")
      }
      absent.append(uuid)
    }
    self.init(
      address: address, name: file["name"]?.text, lastSeen: ReceiveTime(nanoseconds: lastSeen),
      discovery: GATTDiscoveryResult(
        GATTDatabase(services: services), extent, databaseHash: hash, absent: absent))
    if extent == .none { kind = file["kind"]?.text.flatMap(Kind.init) ?? kind }
    firmwareRevision = file["firmware"]?.text
    for element in file["notAsked"]?.array ?? [] {
      guard let item = Avoided(element) else { throw .damaged("an avoided request is incomplete") }
      avoided.append(item)
    }
    if let checksum = file["checksum"] {
      guard checksum.text == self.checksum else { throw .damaged("its checksum does not match") }
    } else {
      // Written by an earlier ringtap without a checksum, so the handles may be damaged. They are shown, but
      // not used.
      discovery.extent = .none
    }
  }

  fileprivate static func octets(_ digits: String) -> [UInt8]? {
    let nibbles = digits.map(\.hexDigitValue)
    guard nibbles.count.isMultiple(of: 2), nibbles.allSatisfy({ $0 != nil }) else { return nil }
    return stride(from: 0, to: nibbles.count, by: 2).map { start in
      let (high, low) = (nibbles[start] ?? 0, nibbles[start + 1] ?? 0)
      return UInt8(high << 4 | low)
    }
  }
}

extension KnownDevice.Avoided {
  fileprivate func encode(into line: inout JSONLine) {
    switch suspect {
    case .request(let pdu): line.member("request", hex: pdu.span)
    case .parameters(let part): line.member("parameters", part.rawValue)
    }
    line.member("sinceNs", since)
  }

  fileprivate init?(_ object: JSONDocument) {
    guard let since = object["sinceNs"]?.nanoseconds else { return nil }
    let request = object["request"]?.text.flatMap { KnownDevice.octets($0) }
    let part = object["parameters"]?.text.flatMap { LinkRequest.Part(rawValue: $0) }
    guard let suspect = request.map({ LinkSuspect.request($0) }) ?? part.map({ .parameters($0) }) else {
      return nil
    }
    self.init(suspect, since: ReceiveTime(nanoseconds: since))
  }
}

extension AddressType {
  fileprivate init?(named name: String) {
    switch name {
    case "public": self = .public
    case "random": self = .random
    default: return nil
    }
  }
}

// MARK: Attributes

extension GATTDatabase.Service {
  fileprivate func encode(into line: inout JSONLine) {
    line.member("handle", range.start.rawValue)
    line.member("endHandle", range.end.rawValue)
    line.member("uuid", uuid.description)
    line.member("primary", kind == .primary)
    line.member(
      "includes", array: { line in for include in includes { line.object { include.encode(into: &$0) } } })
    line.member(
      "characteristics",
      array: { line in
        for characteristic in characteristics { line.object { characteristic.encode(into: &$0) } }
      })
  }

  fileprivate init?(_ object: JSONDocument) {
    guard let range = object.range("handle", "endHandle"), let uuid = object.uuid,
      let isPrimary = object["primary"]?.flag, let includes = object["includes"]?.array,
      let characteristics = object["characteristics"]?.array
    else { return nil }
    self.init(kind: isPrimary ? .primary : .secondary, range: range, uuid: uuid)
    for element in includes {
      guard let include = GATTDatabase.Include(element) else { return nil }
      self.includes.append(include)
    }
    for element in characteristics {
      guard let characteristic = GATTDatabase.Characteristic(element) else { return nil }
      self.characteristics.append(characteristic)
    }
  }
}

extension GATTDatabase.Include {
  fileprivate func encode(into line: inout JSONLine) {
    line.member("handle", handle.rawValue)
    line.member("includedHandle", range.start.rawValue)
    line.member("includedEndHandle", range.end.rawValue)
    line.member("uuid", uuid.description)
  }

  fileprivate init?(_ object: JSONDocument) {
    guard let handle = object.handle("handle"), let uuid = object.uuid,
      let range = object.range("includedHandle", "includedEndHandle")
    else { return nil }
    self.init(handle: handle, range: range, uuid: uuid)
  }
}

extension GATTDatabase.Characteristic {
  fileprivate func encode(into line: inout JSONLine) {
    line.member("handle", handle.rawValue)
    line.member("valueHandle", valueHandle.rawValue)
    line.member("endHandle", endHandle.rawValue)
    line.member("properties", array: { line in for name in properties.names { line.value(name) } })
    line.member("uuid", uuid.description)
    line.member(
      "descriptors",
      array: { line in
        for descriptor in descriptors {
          line.object { line in
            line.member("handle", descriptor.handle.rawValue)
            line.member("uuid", descriptor.uuid.description)
          }
        }
      })
  }

  fileprivate init?(_ object: JSONDocument) {
    guard let handle = object.handle("handle"), let valueHandle = object.handle("valueHandle"),
      let endHandle = object.handle("endHandle"), let uuid = object.uuid,
      let words = object["properties"]?.array, let descriptors = object["descriptors"]?.array
    else { return nil }
    var properties: CharacteristicProperties = []
    for word in words {
      guard let name = word.text, let property = CharacteristicProperties(named: name) else { return nil }
      properties.insert(property)
    }
    self.init(
      handle: handle, properties: properties, valueHandle: valueHandle, endHandle: endHandle, uuid: uuid)
    for element in descriptors {
      guard let handle = element.handle("handle"), let uuid = element.uuid else { return nil }
      self.descriptors.append(GATTDatabase.Descriptor(handle: handle, uuid: uuid))
    }
  }
}

extension CharacteristicProperties {
  fileprivate init?(named name: String) {
    guard let index = CharacteristicProperties(rawValue: 0xFF).names.firstIndex(of: name) else { return nil }
    self.init(rawValue: 1 << UInt8(index))
  }
}

extension JSONDocument {
  fileprivate func handle(_ key: String) -> AttributeHandle? {
    self[key]?.integer(UInt16.self).map { AttributeHandle($0) }
  }

  fileprivate func range(_ start: String, _ end: String) -> HandleRange? {
    guard let start = handle(start), let end = handle(end) else { return nil }
    let range = HandleRange(start: start, end: end)
    return range.isValid ? range : nil
  }

  fileprivate var uuid: BluetoothUUID? { self["uuid"]?.text.flatMap { BluetoothUUID($0) } }
}
