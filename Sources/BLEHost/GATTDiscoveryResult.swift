public import BLEStack

/// What a discovery on a connection found.
public struct GATTDiscoveryResult: Hashable, Sendable {
  public enum Extent: Hashable, Sendable {
    /// All services.
    case whole
    /// Only services that were asked for.
    case part
  }

  public var database: GATTDatabase
  public var extent: Extent
  /// 16 octets; `nil` where the device has none. Core 5.4, Vol 3, Part G, 7.3.
  public var databaseHash: [UInt8]?

  public init(_ database: GATTDatabase, _ extent: Extent, databaseHash: [UInt8]? = nil) {
    self.database = database
    self.extent = extent
    self.databaseHash = databaseHash
  }
}
