public import BLEWire

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

  /// How to check on a later link that the attributes have not changed. Core 5.4, Vol 3, Part G, 2.5.2.
  public enum Proof: Hashable, Sendable {
    /// The attributes are unchanged if the device's Database Hash equals this one.
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
