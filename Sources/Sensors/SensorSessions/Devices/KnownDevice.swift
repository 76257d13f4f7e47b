public import BLEWire
public import BLEHost
import BLESensors
public import BLEStack
import ColmiRing

/// A device that ringtap has connected to, with the information learned about it.
public struct KnownDevice: Hashable, Sendable {
  /// Kind of the device, by its services.
  public enum Kind: String, Hashable, Sendable {
    case ring, polar, core, thermometer, cycling
    case heartRate = "heart-rate"
    case other

    /// - Parameter services: services of a device. If it matches several kinds, the most informative one is
    ///   chosen.
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
  /// A cause that made the device end a link.
  public struct Avoided: Hashable, Sendable {
    public var suspect: LinkSuspect
    /// Time at which the link ended.
    public var since: ReceiveTime

    public init(_ suspect: LinkSuspect, since: ReceiveTime) { (self.suspect, self.since) = (suspect, since) }
  }

  /// Time for which a cause is avoided. Afterwards it is tried once more, because the device's firmware may
  /// have changed.
  public static let avoidanceTime = Duration.seconds(30 * 86_400)
  /// Maximum number of causes kept; the oldest is replaced.
  static let avoidedLimit = 8

  /// Name that the device advertised last.
  public var name: String?
  public var kind: Kind
  /// Time of the last discovery.
  public var lastSeen: ReceiveTime
  public var discovery: GATTDiscoveryResult
  /// Causes that made the device end links, oldest first.
  public var avoided: [Avoided] = []
  /// Firmware Revision String as last read.
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
  /// A partial discovery that agrees with the known attributes does not replace them. If it contradicts them,
  /// the device has changed, and all known attributes are replaced.
  mutating func update(name: String?, lastSeen: ReceiveTime, discovery later: GATTDiscoveryResult) {
    if let name { self.name = name }
    self.lastSeen = max(self.lastSeen, lastSeen)
    // A changed device may accept requests that it rejected before.
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
      // Without services, the kind stays as it was.
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

  /// Returns the causes that are still avoided.
  ///
  /// - Parameter time: the current time.
  public func avoided(at time: ReceiveTime) -> [LinkSuspect] {
    // Uses the magnitude: a clock that was years ahead must not extend the avoidance by years.
    avoided.filter { abs((time - $0.since).nanoseconds) < Self.avoidanceNanoseconds }.map(\.suspect)
  }

  private static let avoidanceNanoseconds = Int64(avoidanceTime / .nanoseconds(1))

  mutating func avoid(_ suspect: LinkSuspect, since time: ReceiveTime) {
    avoided.removeAll { $0.suspect == suspect }
    avoided.append(Avoided(suspect, since: time))
    avoided.removeFirst(max(0, avoided.count - Self.avoidedLimit))
  }

  /// Whether an advertised name differs from the remembered one, and neither is the start of the other.
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

  /// Whether the device keeps the address: it is public or static random. Core 5.4, Vol 6, Part B, 1.3.
  public static func isLasting(_ address: DeviceAddress) -> Bool {
    address.type == .public || address.octet(5) >> 6 == 0b11
  }
}

extension GATTDatabase.Service {
  /// Whether both services are equal, ignoring includes, which a search for a single service does not
  /// request.
  fileprivate func agrees(with other: GATTDatabase.Service) -> Bool {
    range == other.range && uuid == other.uuid && characteristics == other.characteristics
  }
}
