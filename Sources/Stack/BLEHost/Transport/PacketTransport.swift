public import BLELinux
public import BLEWire

/// Transports HCI packets between a host and its controller. Each packet is complete and starts with its H4
/// type byte.
///
/// Used only on the event loop's thread, on which it also calls its client. To process packets in transit,
/// wrap a transport in another, such as `CapturingTransport`.
public protocol PacketTransport: AnyObject, Sendable {
  /// Starts to deliver packets to a client.
  func open(_ client: TransportClient) throws(SystemError)
  /// Sends one packet, or queues it until there is room.
  ///
  /// - Throws: if no more packets can be sent.
  func send(_ packet: Span<UInt8>) throws(SystemError)
  /// Closes the transport. The client is not called again.
  func close()
  /// Number of packets that the kernel dropped because its queue was full.
  var kernelQueueDrops: Int { get }
  /// Number of data packets that the log which replaces the controller contains only in part.
  var cutFrames: Int { get }
  /// Number of bytes of a stream that belong to no packet.
  var garbage: Int { get }
  /// Reason why the transport was lost; `nil` if it is only known that the peer closed it.
  var failure: HostError? { get }
  /// Whether links may have existed before the first packet, as in a log that starts in the middle of a link.
  var hasOlderLinks: Bool { get }
  /// Pauses receiving while `body`, called on the event loop's thread, returns `true`. Only a log can pause.
  func hold(while body: @escaping @Sendable () -> Bool)
}

extension PacketTransport {
  public var cutFrames: Int { 0 }
  public var failure: HostError? { nil }
  public var hasOlderLinks: Bool { false }
  public func hold(while body: @escaping @Sendable () -> Bool) {}
}

/// A host's callbacks for its transport. The closures are created inside the host's actor and called on its
/// executor's thread. See `BearerClient`.
public final class TransportClient {
  public typealias Received = (Span<UInt8>, ReceiveTime, _ hasKernelStamp: Bool) -> Void

  public let received: Received
  /// Called when all queued packets were received, or when there is room to send.
  public let settled: () -> Void
  /// Called when the peer has closed the transport.
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
