public import BLEWire

/// What a discovery on a connection found.
public struct GATTDiscoveryResult: Hashable, Sendable {
  public enum Extent: Hashable, Sendable {
    /// All services.
    case whole
    /// Only services that were asked for.
    case part
    /// Nothing: the device has changed, and what was found before is not true any more.
    case none
  }

  /// By what a later link can tell that nothing has changed. Core 5.4, Vol 3, Part G, 2.5.2.
  public enum Proof: Hashable, Sendable {
    /// The Database Hash is still this one.
    case hash([UInt8])
    /// A device without Service Changed has the same attributes for its whole life.
    case lasting
    /// There is none. With Service Changed a device tells of a change only those that it is bonded with.
    case none
  }

  public var database: GATTDatabase
  public var extent: Extent
  /// 16 octets; `nil` where the device has none. Core 5.4, Vol 3, Part G, 7.3.
  public var databaseHash: [UInt8]?
  /// Of a part: what was asked for and is not there.
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

  /// Those services, as far as they are there: all of each UUID, in the order asked for.
  ///
  /// - Parameter services: `nil` for all.
  /// - Returns: `nil` where that is not known.
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
