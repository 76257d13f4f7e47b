package import BLEHost
package import BLELinux
package import BLEWire

/// Applies a plan's faults to packets, and passes other packets on unchanged.
package final class FaultyTransport: PacketTransport, @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only; the plan has its own.

  /// How long a reordered packet is held if no other packet follows.
  private static let overtakingPatience = Duration.milliseconds(100)

  private struct Held {
    let octets: [UInt8]
    let time: ReceiveTime
    let hasKernelStamp: Bool
    let due: MonotonicTime
    /// Whether the next packet may overtake it.
    let isOvertaken: Bool
  }

  private let inner: any PacketTransport
  private let plan: FaultPlan
  private let clock: LoopClock
  private var client: TransportClient?
  /// Held packets, by direction.
  private var held: [HCIDirection: [Held]] = [:]

  /// - Parameters:
  ///   - inner: the transport that carries the packets.
  ///   - plan: faults to apply.
  ///   - clock: clock of the loop on which it runs.
  package init(_ inner: any PacketTransport, _ plan: FaultPlan, clock: LoopClock = .system) {
    self.inner = inner
    self.plan = plan
    self.clock = clock
  }

  package var kernelQueueDrops: Int { inner.kernelQueueDrops }
  package var garbage: Int { inner.garbage }
  package var failure: HostError? { inner.failure }
  package func hold(while body: @escaping @Sendable () -> Bool) { inner.hold(while: body) }

  package func open(_ client: TransportClient) throws(SystemError) {
    self.client = client
    try inner.open(
      TransportClient(
        received: { packet, time, hasKernelStamp in
          // Delivery to the host cannot fail.
          try? self.pass(packet, from: .controllerToHost, time, hasKernelStamp)
        }, settled: client.settled, lost: client.lost,
        deadline: {
          let own = self.held.values.lazy.compactMap(\.first?.due).min()
          guard let own, let other = client.deadline() else { return own ?? client.deadline() }
          return min(own, other)
        }, expired: { self.expire($0) }))
  }

  package func send(_ packet: Span<UInt8>) throws(SystemError) {
    try pass(packet, from: .hostToController, clock.now(), false)
  }

  package func close() {
    client = nil
    for (direction, packets) in held {
      for packet in packets { plan.tell(.end, packet.octets.span, from: direction) }
    }
    held = [:]
    inner.close()
  }

  private func pass(
    _ packet: Span<UInt8>, from direction: HCIDirection, _ time: ReceiveTime, _ hasKernelStamp: Bool
  ) throws(SystemError) {
    func hold(for duration: Duration, isOvertaken: Bool) {
      held[direction, default: []].append(
        Held(
          octets: [UInt8](encoding: packet.count) { $0.append(packet) }, time: time,
          hasKernelStamp: hasKernelStamp, due: clock.monotonic().advanced(by: duration),
          isOvertaken: isOvertaken))
    }
    let action = plan.action(for: packet, from: direction)
    if let action { plan.tell(action, packet, from: direction) }
    if let first = held[direction]?.first, action == nil {
      guard first.isOvertaken else { return hold(for: .zero, isOvertaken: false) }
      held[direction]?.removeFirst()
      try deliver(packet, from: direction, time, hasKernelStamp)
      return try deliver(first.octets.span, from: direction, first.time, first.hasKernelStamp)
    }
    switch action {
    case nil: try deliver(packet, from: direction, time, hasKernelStamp)
    case .drop: break
    case .duplicate:
      for _ in 0..<2 { try deliver(packet, from: direction, time, hasKernelStamp) }
    case .delay(let duration): hold(for: duration, isOvertaken: false)
    case .reorder: hold(for: Self.overtakingPatience, isOvertaken: true)
    case .corrupt(let octet):
      var octets = [UInt8](encoding: packet.count) { $0.append(packet) }
      octets[min(octet, octets.count - 1)] ^= 0xFF
      try deliver(octets.span, from: direction, time, hasKernelStamp)
    case .truncate(let count):
      try deliver(packet.extracting(..<min(count, packet.count)), from: direction, time, hasKernelStamp)
    case .end:
      inner.close()
      client?.lost()
    }
  }

  private func deliver(
    _ packet: Span<UInt8>, from direction: HCIDirection, _ time: ReceiveTime, _ hasKernelStamp: Bool
  ) throws(SystemError) {
    switch direction {
    case .controllerToHost: client?.received(packet, time, hasKernelStamp)
    case .hostToController: try inner.send(packet)
    }
  }

  private func expire(_ now: MonotonicTime) {
    for direction in [HCIDirection.hostToController, .controllerToHost] {
      while let first = held[direction]?.first, first.due <= now {
        held[direction]?.removeFirst()
        // If sending fails here, the next packet fails with the same cause.
        try? deliver(first.octets.span, from: direction, first.time, first.hasKernelStamp)
      }
    }
    client?.expired(now)
    client?.settled()
  }
}

extension FaultyTransport {
  /// Makes a transport that delays all packets of one direction by the same time and keeps their order.
  package static func delaying(
    _ inner: any PacketTransport, from direction: HCIDirection, by duration: Duration
  ) -> FaultyTransport {
    FaultyTransport(inner, FaultPlan([PacketFault(.delay(duration), from: direction, count: nil)]))
  }
}
