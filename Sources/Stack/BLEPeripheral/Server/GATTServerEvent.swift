public import BLEStack
public import BLEWire

/// A central that is or was connected to a server. Each link counts as a new central.
public struct Central: Hashable, Sendable {
  /// Number of the link on its server, from 1.
  public let number: Int
  /// Address with which the central connected. A central with private addresses uses a new address each time.
  public let address: DeviceAddress
}

/// An action of a central.
public enum GATTServerEvent: Hashable, Sendable {
  case connected(Central)
  case disconnected(Central, BearerEnd)
  /// A write was stored, with or without a response. For a long write, this is the whole value.
  case written(Central, AttributeHandle, [UInt8])
  /// The central's subscriptions to a characteristic, given by its value handle, have changed. The set is
  /// empty if it unsubscribed.
  case subscribed(Central, AttributeHandle, Set<ServerPush>)
}

/// Reason why a value was not sent, or why a device is no longer advertised.
public enum GATTServerError: Error, Hashable, Sendable {
  /// The central is not subscribed, or the characteristic cannot be notified or indicated.
  case notSubscribed
  /// The central has disconnected or was never connected.
  case disconnected
  /// The central did not confirm an indication within 30 s, so its link was ended. Core 5.4, Vol 3, Part F,
  /// 3.3.3.
  case notConfirmed
  /// The task was cancelled before the value was sent.
  case cancelled
  /// The server was closed and is no longer advertised.
  case closed
}

extension GATTServerError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .notSubscribed: "the central is not subscribed to this characteristic"
    case .disconnected: "the central is no longer connected"
    case .notConfirmed: "the central did not confirm the indication within 30 s; its link was ended"
    case .cancelled: "it was cancelled"
    case .closed: "the device is no longer advertised"
    }
  }
}

/// Counters of a server's requests and errors.
public struct GATTServerStatistics: Hashable, Sendable {
  public var centrals = 0
  public var writes = 0
  public var notifications = 0
  public var indications = 0
  /// Indications that were not confirmed in time. The link was then ended.
  public var unconfirmed = 0
  /// Long writes that were interrupted by the end of the link. Nothing was stored.
  public var brokenWrites = 0
  /// Links that were ended because the central kept sending requests without reading the responses.
  public var floods = 0
  /// Requests that were refused, except searches without a result: unknown handles, values that do not fit,
  /// too many prepared writes, insufficient security.
  public var refusals = 0
  /// Pairings that failed, whichever side ended them. Does not include pairings that were interrupted by the
  /// end of the link.
  public var failedPairings = 0
  /// Other protocol violations by centrals: unexpected confirmations, responses without a request, PDUs
  /// longer than the MTU, commands too short for a handle, MTUs below 23.
  public var faults = 0
  /// Events that were dropped because the queue was full.
  public var droppedEvents = 0

  public init() {}
}
