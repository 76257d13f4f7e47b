import BLESensors
public import BLEStack
public import BLEWire
import ColmiRing

/// A device that this program was connected to, and what it learned of it.
public struct KnownDevice: Hashable, Sendable {
  /// What it is good for, by its services.
  public enum Kind: String, Hashable, Sendable {
    case ring, polar, core, thermometer, cycling
    case heartRate = "heart-rate"
    case other

    /// - Parameter services: of a device; a sensor with several is what tells most of it.
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
  /// As it was advertised last.
  public var name: String?
  public var kind: Kind
  /// Of the last discovery.
  public var lastSeen: ReceiveTime
  public var discovery: GATTDiscoveryResult

  public init(
    address: DeviceAddress, name: String?, lastSeen: ReceiveTime, discovery: GATTDiscoveryResult
  ) {
    self.address = address
    self.name = name
    self.lastSeen = lastSeen
    self.discovery = discovery
    kind = Kind(discovery.database.services)
  }

  /// Takes in what a later connection found.
  ///
  /// A few services that were asked for and are as they were do not displace the whole tree; others do: then the device
  /// has changed, and what is known of the rest is not true any more.
  mutating func update(name: String?, lastSeen: ReceiveTime, discovery later: GATTDiscoveryResult) {
    if let name { self.name = name }
    self.lastSeen = max(self.lastSeen, lastSeen)
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
      // It is what it was, wherever it has it now.
      return
    }
    kind = Kind(discovery.database.services)
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

  /// Whether the address will be the device's tomorrow: a public or a static random one. Core 5.4, Vol 6, Part B, 1.3.
  public static func isLasting(_ address: DeviceAddress) -> Bool {
    address.type == .public || address.octet(5) >> 6 == 0b11
  }
}

extension GATTDatabase.Service {
  /// The same but for its includes, for which a search for one service does not ask.
  fileprivate func agrees(with other: GATTDatabase.Service) -> Bool {
    range == other.range && uuid == other.uuid && characteristics == other.characteristics
  }
}
