public import BLEWire

/// What happened on one ATT bearer.
public struct BearerStatistics: Hashable, Sendable {
  /// PDUs that arrived.
  public var received = 0
  /// Values of notifications and indications among them.
  public var notifications = 0
  /// Values that nobody had subscribed to.
  public var unclaimed = 0
  /// Those of them whose handle had no subscription at any time: not what is under way while one ends.
  public var unsubscribed = 0
  /// PDUs that were dropped because they break the format, and the last such error.
  public var malformed = 0
  public var lastMalformed: WireError?
  /// Responses and confirmations that belong to no request. They were ignored.
  public var strayResponses = 0
  /// PDUs that the kernel gave without its receive stamp: they carry ours.
  public var withoutKernelStamp = 0
  /// PDUs that the kernel dropped because its receive queue was full (SO_MEMINFO).
  public var kernelQueueDrops = 0
  /// Calls that the kernel had no memory for (ENOMEM, ENOBUFS). They were made again.
  public var memoryShortages = 0
  /// PDUs that were sent.
  public var sent = 0
  /// ATT requests among them: each is a round trip.
  public var requests = 0
  /// System calls that brought at least one PDU.
  public var batches = 0

  public init() {}

  /// Adds those of another bearer.
  package mutating func add(_ other: BearerStatistics) {
    received += other.received
    notifications += other.notifications
    unclaimed += other.unclaimed
    unsubscribed += other.unsubscribed
    malformed += other.malformed
    lastMalformed = other.lastMalformed ?? lastMalformed
    strayResponses += other.strayResponses
    withoutKernelStamp += other.withoutKernelStamp
    kernelQueueDrops += other.kernelQueueDrops
    memoryShortages += other.memoryShortages
    sent += other.sent
    requests += other.requests
    batches += other.batches
  }
}
