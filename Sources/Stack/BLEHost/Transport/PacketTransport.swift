public import BLELinux
public import BLEWire

/// Carries HCI packets between a host and its controller, each whole and with its H4 type octet first.
///
/// It lives on the event loop's thread and calls its client there. What shall happen to the packets on their way is a
/// transport around a transport: `CapturingTransport`.
public protocol PacketTransport: AnyObject, Sendable {
  /// Starts to serve a client.
  func open(_ client: TransportClient) throws(SystemError)
  /// Hands one packet on, or keeps it until there is room.
  ///
  /// - Throws: what says that no packet will go out any more.
  func send(_ packet: Span<UInt8>) throws(SystemError)
  /// Ends it. No call to the client comes after.
  func close()
  /// Packets that the kernel dropped because its queue was full.
  var kernelQueueDrops: Int { get }
  /// Octets of a stream that belonged to no packet.
  var garbage: Int { get }
  /// Why it was lost, where it knows better than that the other end has gone.
  var failure: HostError? { get }
  /// Whether links may be older than what it carries, as in a log that begins in their midst.
  var hasOlderLinks: Bool { get }
  /// Has nothing received while `body`, asked on the event loop's thread, says so. Only a log can wait.
  func hold(while body: @escaping @Sendable () -> Bool)
}

extension PacketTransport {
  public var failure: HostError? { nil }
  public var hasOlderLinks: Bool { false }
  public func hold(while body: @escaping @Sendable () -> Bool) {}
}

/// A host's entries for its transport: closures made inside the host's actor, called on its executor's thread. See
/// `BearerClient`.
public final class TransportClient {
  public typealias Received = (Span<UInt8>, ReceiveTime, _ hasKernelStamp: Bool) -> Void

  public let received: Received
  /// Everything that waited was received, or there is room to send.
  public let settled: () -> Void
  /// The other end has gone.
  public let lost: () -> Void
  public let deadline: () -> MonotonicTime?
  public let expired: (MonotonicTime) -> Void

  public init(
    received: @escaping Received, settled: @escaping () -> Void, lost: @escaping () -> Void,
    deadline: @escaping () -> MonotonicTime?, expired: @escaping (MonotonicTime) -> Void
  ) {
    self.received = received
    self.settled = settled
    self.lost = lost
    self.deadline = deadline
    self.expired = expired
  }
}
