public import BLECore
public import BLEWire

/// Tells one channel from another; never used twice.
public struct ChannelID: Hashable, Sendable {
  public let handle: ConnectionHandle
  /// 0x0040 … 0x007F, its number on our side.
  public let localCID: UInt16
  let number: UInt64
}

/// Why there is no channel.
public enum ChannelRefusal: Error, Hashable, Sendable {
  /// The peer's answer.
  case refused(CreditBasedConnectionResult)
  /// The peer does not know what was asked: the reason of its Command Reject.
  case commandRejected(UInt16)
  /// It agreed to numbers that are not allowed, or that are taken.
  case invalidResponse
  /// No answer within `CreditBasedChannels.connectTimeout`.
  case timedOut
  /// The link ended before.
  case linkLost
}

/// Why a channel ended.
public enum ChannelEnd: Error, Hashable, Sendable {
  case closedLocally
  case closedByPeer
  case linkLost
  /// The peer broke the rules.
  case fault(CreditBasedFault)
}

/// What happened to a channel.
public enum ChannelEvent: Hashable, Sendable {
  /// With what the peer takes.
  case opened(CreditBasedParameters)
  case refused(ChannelRefusal)
  /// Whoever takes it says so, or the peer runs out of credits.
  case received([UInt8])
  /// There is room again for SDUs, after there was none.
  case writable
  case closed(ChannelEnd)
}
