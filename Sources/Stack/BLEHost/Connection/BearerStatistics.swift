public import BLEWire

/// Counters of one ATT bearer.
public struct BearerStatistics: Hashable, Sendable {
  /// PDUs received.
  public var received = 0
  /// Notifications and indications among `received`.
  public var notifications = 0
  /// Values without a subscriber.
  public var unclaimed = 0
  /// Values among `unclaimed` whose handle was never subscribed to. Values in transit when a subscription
  /// ends are not included.
  public var unsubscribed = 0
  /// Malformed PDUs, which were dropped, and the last error.
  public var malformed = 0
  public var lastMalformed: WireError?
  /// Responses and confirmations without a request, which were ignored.
  public var strayResponses = 0
  /// PDUs without a kernel receive timestamp, which carry the time of arrival instead.
  public var withoutKernelStamp = 0
  /// PDUs that the kernel dropped because its receive queue was full (SO_MEMINFO).
  public var kernelQueueDrops = 0
  /// Calls that failed for lack of kernel memory (ENOMEM, ENOBUFS) and were retried.
  public var memoryShortages = 0
  /// PDUs sent.
  public var sent = 0
  /// ATT requests among the PDUs sent. Each is a round trip.
  public var requests = 0
  /// System calls that returned at least one PDU.
  public var batches = 0

  public init() {}

  /// Adds the counters of another bearer.
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
