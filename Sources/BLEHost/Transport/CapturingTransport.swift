import BLECore
public import BLESystem
import BLEWire

/// Copies every packet, both ways, into a ring that a log writer drains.
public final class CapturingTransport: PacketTransport {
  private let inner: any PacketTransport
  private let ring: RecordRing
  private let wake: WakeEvent?

  /// - Parameter ring: gets whole packets, H4 type octet first, tagged with the direction's raw value. A full ring
  ///   drops the record and counts it.
  /// - Parameter wake: signalled when there is something in the ring.
  public init(_ inner: any PacketTransport, into ring: RecordRing, waking wake: WakeEvent? = nil) {
    self.inner = inner
    self.ring = ring
    self.wake = wake
  }

  public var kernelQueueDrops: Int { inner.kernelQueueDrops }
  public var garbage: Int { inner.garbage }
  public var failure: HostError? { inner.failure }
  public func hold(while body: @escaping @Sendable () -> Bool) { inner.hold(while: body) }

  public func open(_ client: TransportClient) throws(SystemError) {
    let (ring, wake) = (ring, wake)
    try inner.open(
      TransportClient(
        received: { packet, time, hasKernelStamp in
          ring.push(tag: UInt32(HCIDirection.controllerToHost.rawValue), time: time, packet)
          client.received(packet, time, hasKernelStamp)
        },
        settled: {
          client.settled()
          wake?.signal()
        }, lost: client.lost, deadline: client.deadline,
        expired: client.expired))
  }

  public func send(_ packet: Span<UInt8>) throws(SystemError) {
    ring.push(tag: UInt32(HCIDirection.hostToController.rawValue), time: SystemClock.now(), packet)
    wake?.signal()
    try inner.send(packet)
  }

  public func close() { inner.close() }
}
