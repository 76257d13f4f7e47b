public import BLEHost
import BLESensors
public import BLEStack
public import BLEWire
import ColmiRing
package import JSONText

/// Device to which ringtap has connected, and the information learned about it.
public struct KnownDevice: Hashable, Sendable {
  /// Kind of device, determined from its services.
  public enum Kind: String, Hashable, Sendable {
    case ring, polar, core, thermometer, cycling
    case heartRate = "heart-rate"
    case other

    /// Determines the kind of a device.
    ///
    /// - Parameter services: services of the device. If they match several kinds, the most informative kind
    ///   is chosen.
    public init(_ services: [GATTDatabase.Service]) {
      let uuids = services.map(\.uuid)
      if uuids.contains(RingUUID.commandService) {
        self = .ring
      } else if uuids.contains(PolarUUID.service) {
        self = .polar
      } else if uuids.contains(CoreUUID.service) || uuids.contains(CoreUUID.legacyService) {
        self = .core
      } else if uuids.contains(.healthThermometer) {
        self = .thermometer
      } else if uuids.contains(.heartRate) {
        self = .heartRate
      } else if uuids.contains(.cyclingSpeedAndCadence) {
        self = .cycling
      } else {
        self = .other
      }
    }
  }

  public var address: DeviceAddress
  /// Request or parameter after which the device ended a link.
  public struct Avoided: Hashable, Sendable {
    public var suspect: LinkSuspect
    /// Time at which the link ended.
    public var since: ReceiveTime

    public init(_ suspect: LinkSuspect, since: ReceiveTime) { (self.suspect, self.since) = (suspect, since) }
  }

  /// Time for which a cause is avoided. It is then tried once more, because the device's firmware may have
  /// changed.
  public static let avoidanceTime = Duration.seconds(30 * 86_400)
  /// Maximum number of stored causes. When it is exceeded, the oldest cause is replaced.
  static let avoidedLimit = 8

  /// Name in the device's latest advertisement.
  public var name: String?
  public var kind: Kind
  /// Time of the last discovery.
  public var lastSeen: ReceiveTime
  public var discovery: GATTDiscoveryResult
  /// Causes for which the device ended links, oldest first.
  public var avoided: [Avoided] = []
  /// Firmware Revision String that was read last.
  public var firmwareRevision: String?

  public init(
    address: DeviceAddress, name: String?, lastSeen: ReceiveTime, discovery: GATTDiscoveryResult
  ) {
    self.address = address
    self.name = name
    self.lastSeen = lastSeen
    self.discovery = discovery
    kind = Kind(discovery.database.services)
  }

  /// Adds the results of a later connection.
  ///
  /// If a partial discovery agrees with the known attributes, they are kept. If it contradicts them, the
  /// device has changed, and all known attributes are replaced.
  mutating func update(name: String?, lastSeen: ReceiveTime, discovery later: GATTDiscoveryResult) {
    if let name { self.name = name }
    self.lastSeen = max(self.lastSeen, lastSeen)
    // A changed device may accept requests after which it ended the link before.
    if isChanged(in: later) { avoided = [] }
    switch later.extent {
    case .whole: discovery = later
    case .part:
      if isContradicted(by: later) {
        discovery = later
      } else if discovery.extent == .part {
        add(later)
      }
    case .none:
      discovery = later
      // If no services are known, keep the kind.
      return
    }
    kind = Kind(discovery.database.services)
  }

  private func isChanged(in later: GATTDiscoveryResult) -> Bool {
    switch (discovery.extent, later.extent) {
    case (.none, _): false
    case (_, .none): true
    case (.whole, .whole):
      discovery.database.services.count != later.database.services.count
        || !zip(discovery.database.services, later.database.services).allSatisfy { $0.agrees(with: $1) }
    case (.part, .whole):
      !discovery.database.services.allSatisfy { service in
        later.database.services.contains { $0.agrees(with: service) }
      }
    case (_, .part): isContradicted(by: later)
    }
  }

  /// Returns the causes that are still avoided at a time.
  ///
  /// - Parameter time: the current time.
  public func avoided(at time: ReceiveTime) -> [LinkSuspect] {
    // Use the magnitude, because a clock that was years ahead must not extend the avoidance by years.
    avoided.filter { abs((time - $0.since).nanoseconds) < Self.avoidanceNanoseconds }.map(\.suspect)
  }

  private static let avoidanceNanoseconds = Int64(avoidanceTime / .nanoseconds(1))

  mutating func avoid(_ suspect: LinkSuspect, since time: ReceiveTime) {
    avoided.removeAll { $0.suspect == suspect }
    avoided.append(Avoided(suspect, since: time))
    avoided.removeFirst(max(0, avoided.count - Self.avoidedLimit))
  }

  /// Returns whether an advertised name differs from the stored name and neither is a prefix of the other.
  func isNamedOtherwise(_ heard: String?) -> Bool {
    guard let heard, let name else { return false }
    return !heard.hasPrefix(name) && !name.hasPrefix(heard)
  }

  private func isContradicted(by later: GATTDiscoveryResult) -> Bool {
    if discovery.extent == .none || discovery.databaseHash != later.databaseHash { return true }
    let known = discovery.database.services
    return later.absent.contains { uuid in known.contains { $0.uuid == uuid } }
      || later.database.services.contains { service in
        discovery.absent.contains(service.uuid)
          || known.contains { $0.range == service.range || $0.uuid == service.uuid }
            && !known.contains { $0.agrees(with: service) }
      }
  }

  private mutating func add(_ later: GATTDiscoveryResult) {
    let known = discovery.database.services
    discovery.database.services += later.database.services.filter { service in
      !known.contains { $0.range == service.range }
    }
    discovery.database.services.sort { $0.range.start < $1.range.start }
    discovery.absent += later.absent.filter { !discovery.absent.contains($0) }
  }

  /// Returns whether an address is permanent: public or static random. Core 5.4, Vol 6, Part B, 1.3.
  public static func isLasting(_ address: DeviceAddress) -> Bool {
    address.type == .public || address.octet(5) >> 6 == 0b11
  }
}

extension GATTDatabase.Service {
  /// Returns whether two services are equal. Included services are not compared, because a search for a
  /// single service does not request them.
  fileprivate func agrees(with other: GATTDatabase.Service) -> Bool {
    range == other.range && uuid == other.uuid && characteristics == other.characteristics
  }
}

/// File format: one JSON object per device. Keys have the same names as in `ringtap gatt --json`.
extension KnownDevice {
  /// Version of the keys. A file with a higher version was written by a later program and is not changed.
  static let version = 2

  /// Lowest version that can represent this device. Earlier programs can then read the file.
  private var version: Int { avoided.isEmpty && firmwareRevision == nil ? 1 : 2 }

  /// Reason why a file cannot be used.
  enum Unreadable: Error, Hashable {
    /// The file is not valid JSON or lacks a required member.
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

  /// Checksum of the file's content: 64-bit FNV-1a, in hexadecimal. It detects damage, not tampering.
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
      // The file was written without a checksum by an earlier ringtap, so its handles may be damaged. They
      // are shown but not used.
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
