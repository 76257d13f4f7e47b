public import BLELinux
import BLEStack
public import BLEWire

/// A transport for HCI packets between a host and its controller. Each packet is complete and starts with its
/// H4 type byte.
///
/// Used only on the event loop's thread. The transport calls its client on the same thread. To process
/// packets in transit, wrap a transport in another, such as `CapturingTransport`.
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
  /// Number of data packets that a replayed log contains only in part.
  var cutFrames: Int { get }
  /// Number of bytes of a stream that belong to no packet.
  var garbage: Int { get }
  /// Reason why the transport was lost; `nil` if the peer closed it for an unknown reason.
  var failure: HostError? { get }
  /// Whether links may have existed before the first packet, as in a log that starts in the middle of a link.
  var hasOlderLinks: Bool { get }
  /// Pauses receiving while `body` returns `true`. `body` is called on the event loop's thread. Only a log
  /// can pause.
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

/// A transport over a descriptor: user channel, serial port or socket.
final class PortTransport: PacketTransport, EventSource, @unchecked Sendable {
  // No lock: used on the event loop's thread only.

  private let port: PacketPort
  private var framer = H4Framer(from: .controllerToHost)
  private var client: TransportClient?

  init(
    _ descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing, _ loop: EventLoop
  ) throws(SystemError) {
    port = try PacketPort(descriptor, framing, loop)
  }

  var kernelQueueDrops: Int { port.kernelQueueDrops }
  var garbage: Int { framer.garbage }

  func open(_ client: TransportClient) throws(SystemError) {
    self.client = client
    try port.open(for: self)
  }

  func send(_ packet: Span<UInt8>) throws(SystemError) { try port.send(packet) }

  func close() {
    client = nil
    port.close()
  }

  // MARK: The receive thread

  var deadline: MonotonicTime? { client?.deadline() }

  func expired(now: MonotonicTime) { client?.expired(now) }

  func stopped() { client?.lost() }

  func ready(_ readiness: Readiness) {
    guard let client else { return }
    var isOpen = true
    do throws(SystemError) {
      if !readiness.isDisjoint(with: .writable) { try port.flush() }
      isOpen = try port.drain { octets, time, stamp in
        if port.framing == .stream {
          framer.receive(octets) { client.received($0, time, false) }
        } else {
          client.received(octets, time, stamp == .kernel)
        }
      }
    } catch { isOpen = false }
    if !isOpen { client.lost() }
    client.settled()
  }
}

extension TransportSpecification {
  /// Opens the port.
  ///
  /// - Throws: `adapterBusy`, `notPermitted`, `noAdapter`, or the system's error for the port; `unsuitable`
  ///   for a server, a pseudo-terminal, a virtual controller or a replay, which are opened elsewhere.
  public func open(on loop: EventLoop) throws(HostError) -> any PacketTransport {
    do throws(SystemError) {
      switch self {
      case .hciSocket(let index):
        return try PortTransport(try ControllerPort.userChannel(index: index), .datagrams, loop)
      case .serial(let path, let baud, let hardwareFlow):
        return try PortTransport(
          try ControllerPort.serial(path: path, baud: baud, flow: hardwareFlow ? .hardware : .none), .stream,
          loop)
      case .tcpClient(let host, let port):
        return try PortTransport(try ControllerPort.tcp(host: host, port: port), .stream, loop)
      case .unix(let path): return try PortTransport(try ControllerPort.unix(path: path), .stream, loop)
      case .tcpServer, .pseudoTerminal, .virtual, .replay: break
      }
    } catch { throw HostError(opening: description, error) }
    switch self {
    case .replay: throw .unsuitable("\(self): a log is opened by ReplayTransport")
    case .virtual: throw .unsuitable("\(self): a virtual peripheral is attached by its emulation")
    default: throw .unsuitable("\(self): wait for the peer first, then take the stream over")
    }
  }
}

extension EventLoop {
  /// Returns a transport over an open descriptor.
  ///
  /// - Parameter framing: whether a read returns a packet or part of a stream.
  package func transport(
    over descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing
  ) throws(HostError) -> any PacketTransport {
    do throws(SystemError) { return try PortTransport(descriptor, framing, self) } catch {
      throw HostError(error)
    }
  }
}
