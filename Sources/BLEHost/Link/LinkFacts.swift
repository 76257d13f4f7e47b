public import BLEWire

/// What the controller and the peer's link layer say of a link; `nil` where a mode does not get to know.
public struct LinkFacts: Hashable, Sendable {
  /// dBm, of the last packet that was heard.
  public var rssi: Int8?
  public var version: LinkLayerVersion?
  public var features: LEFeatures?

  public init() {}
}
