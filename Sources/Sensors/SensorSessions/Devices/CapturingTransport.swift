public import BLEHost
public import BLELinux
import BLEStack
import BLEWire

/// Copies every packet in both directions into a ring buffer, from which a log writer reads.
public final class CapturingTransport: PacketTransport {
  /// Handling of keys in the logged packets.
  public enum Keys: Hashable, Sendable {
    /// Keys are replaced with zeros.
    case concealed
    case logged
  }

  private let keys: Keys
  private let inner: any PacketTransport
  private let ring: PacketQueue
  private let wake: WakeEvent?

  /// Creates a transport around another transport.
  ///
  /// - Parameters:
  ///   - inner: the transport that carries the packets.
  ///   - ring: receives complete packets with their H4 type byte, tagged with the raw value of the direction.
  ///     A full ring buffer drops and counts packets.
  ///   - wake: signalled when the ring buffer has data.
  ///   - keys: `logged` to log keys. Anyone who can read the log can then decrypt the device's links.
  public init(
    _ inner: any PacketTransport, into ring: PacketQueue, waking wake: WakeEvent? = nil,
    keys: Keys = .concealed
  ) {
    self.keys = keys
    self.inner = inner
    self.ring = ring
    self.wake = wake
  }

  public var kernelQueueDrops: Int { inner.kernelQueueDrops }
  public var garbage: Int { inner.garbage }
  public var cutFrames: Int { inner.cutFrames }
  public var hasOlderLinks: Bool { inner.hasOlderLinks }
  public var failure: HostError? { inner.failure }
  public func hold(while body: @escaping @Sendable () -> Bool) { inner.hold(while: body) }

  public func open(_ client: TransportClient) throws(SystemError) {
    let (ring, wake, keys) = (ring, wake, keys)
    try inner.open(
      TransportClient(
        received: { packet, time, hasKernelStamp in
          Self.log(.controllerToHost, time, packet, ring, keys)
          client.received(packet, time, hasKernelStamp)
        },
        settled: {
          client.settled()
          wake?.signal()
        }, lost: client.lost, deadline: client.deadline,
        expired: client.expired))
  }

  public func send(_ packet: Span<UInt8>) throws(SystemError) {
    Self.log(.hostToController, SystemClock.now(), packet, ring, keys)
    wake?.signal()
    try inner.send(packet)
  }

  public func close() { inner.close() }

  private static func log(
    _ direction: HCIDirection, _ time: ReceiveTime, _ packet: Span<UInt8>, _ ring: PacketQueue, _ keys: Keys
  ) {
    let tag = UInt32(direction.rawValue)
    if keys == .concealed, let concealed = KeyConcealment.concealed(packet) {
      ring.push(tag: tag, time: time, concealed.span)
    } else {
      ring.push(tag: tag, time: time, packet)
    }
  }
}
