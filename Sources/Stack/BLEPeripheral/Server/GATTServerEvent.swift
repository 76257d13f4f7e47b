public import BLEStack
public import BLEWire

/// A central that is or was connected to a server of ours: one link.
public struct Central: Hashable, Sendable {
  /// Counts the links of a server, from 1.
  public let number: Int
  /// Under which it connected; a central that hides has another each time.
  public let address: DeviceAddress
}

/// What a central did.
public enum GATTServerEvent: Hashable, Sendable {
  case connected(Central)
  case disconnected(Central, BearerEnd)
  /// A write was stored, with or without a response. Of a long one the whole value.
  case written(Central, AttributeHandle, [UInt8])
  /// What it wants of a characteristic from now on, by the handle of its value; empty: nothing any more.
  case subscribed(Central, AttributeHandle, Set<ServerPush>)
}

/// Why a value was not pushed, or a device of ours is none.
public enum GATTServerError: Error, Hashable, Sendable {
  /// The central did not ask for it, or the characteristic does not offer it.
  case notSubscribed
  /// The central has gone, or never was.
  case disconnected
  /// It did not confirm an indication within 30 s; its link is ended. Core 5.4, Vol 3, Part F, 3.3.3.
  case notConfirmed
  /// The task was cancelled before.
  case cancelled
  /// The server was closed: its device is none any more.
  case closed
}

extension GATTServerError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .notSubscribed: "the central is not subscribed to this characteristic"
    case .disconnected: "the central is not connected any more"
    case .notConfirmed: "the central did not confirm the indication within 30 s; its link was ended"
    case .cancelled: "it was cancelled"
    case .closed: "the device is not advertised any more"
    }
  }
}

/// What a server was asked, and what went wrong.
public struct GATTServerStatistics: Hashable, Sendable {
  public var centrals = 0
  public var writes = 0
  public var notifications = 0
  public var indications = 0
  /// Indications that nobody confirmed in time; each ended a link.
  public var unconfirmed = 0
  /// Long writes that a link's end cut off: nothing of them was stored.
  public var brokenWrites = 0
  /// Links ended because the central asked on and on, and did not take the answers.
  public var floods = 0
  /// Requests that were refused, but for searches that find nothing: unknown handles, values that do not fit, more prepared
  /// writes than there is room for, lack of security.
  public var refusals = 0
  /// Pairings that came to nothing, whichever side ended them; those that the link's end cut off are left out.
  public var failedPairings = 0
  /// Other faults of centrals: confirmations that nothing waited for, answers to no question, PDUs longer than the MTU,
  /// commands too short to name an attribute, MTUs below 23.
  public var faults = 0
  /// Events that were not taken in time.
  public var droppedEvents = 0

  public init() {}
}
