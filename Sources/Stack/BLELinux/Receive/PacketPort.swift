package import BLEWire

/// A descriptor that transports HCI packets, with a send queue for data that the kernel does not accept
/// immediately.
///
/// Use the port only on the thread of its owner's event loop.
package final class PacketPort {
  /// Unit of a read from the descriptor.
  package enum Framing: Sendable {
    /// One packet per datagram, with the kernel's timestamp if it is a socket.
    case datagrams
    /// One packet per read, as from `/dev/vhci`.
    case reads
    /// Part of a stream per read, with the time of the read.
    case stream
  }

  /// Source of a packet's timestamp.
  package enum Stamp: Sendable { case kernel, arrival }

  /// Send queue limit in bytes. A stalled peer is disconnected before this limit is reached.
  private static let outboxLimit = 1 << 20
  /// Maximum number of slabs or reads per turn, so that the loop can run its jobs and other sources.
  private static let turnLimit = 8
  /// Maximum number of consecutive receive calls that fail for lack of kernel memory.
  private static let shortageLimit = 1000
  private static let slabSlots = 64
  private static let slabSlotByteCount = 4096

  package let framing: Framing
  private let descriptor: FileDescriptor
  private var slab: ReceiveSlab
  private var chunk: [UInt8]
  private var outbox: [[UInt8]] = []
  private var outboxByteCount = 0
  private var token: UInt64?
  private var shortages = 0
  private let loop: EventLoop

  package init(
    _ descriptor: consuming FileDescriptor, _ framing: Framing, _ loop: EventLoop
  ) throws(SystemError) {
    self.framing = framing
    self.loop = loop
    if framing == .datagrams {
      slab = try ReceiveSlab(slots: Self.slabSlots, slotByteCount: Self.slabSlotByteCount)
      chunk = []
      descriptor.prepareToReceive()
    } else {
      slab = try ReceiveSlab(slots: 1, slotByteCount: 1)
      chunk = [UInt8](repeating: 0, count: Self.slabSlotByteCount)
    }
    self.descriptor = descriptor
  }

  /// Number of packets that the kernel dropped from a socket's receive queue; 0 for a stream, which has flow
  /// control.
  package var kernelQueueDrops: Int {
    framing == .datagrams ? descriptor.receiveQueueDrops ?? slab.drops : 0
  }

  package func open(for source: any EventSource) throws(SystemError) {
    loop.assertIsCurrent()
    token = try loop.add(source, descriptor, for: .readable)
  }

  package func close() {
    loop.assertIsCurrent()
    guard let token else { return }
    self.token = nil
    loop.remove(token, descriptor)
    descriptor.shutDown()
  }

  // MARK: In

  /// Receives pending packets, up to a limit per turn. The loop calls this method again if more are pending.
  ///
  /// - Returns: `false` if the other end has closed.
  package func drain(_ body: (Span<UInt8>, ReceiveTime, Stamp) -> Void) throws(SystemError) -> Bool {
    loop.assertIsCurrent()
    return framing == .datagrams ? try drainDatagrams(body) : try drainReads(body)
  }

  private func drainDatagrams(
    _ body: (Span<UInt8>, ReceiveTime, Stamp) -> Void
  ) throws(SystemError) -> Bool {
    for _ in 0..<Self.turnLimit where token != nil {
      let count: Int
      do throws(SystemError) { count = try slab.receive(from: descriptor) } catch {
        // The packets stay queued in the kernel until the loop calls again.
        if error.condition == .noMemory, shortages < Self.shortageLimit {
          shortages += 1
          return true
        }
        throw error
      }
      shortages = 0
      for index in 0..<count {
        if let time = slab.time(index) {
          body(slab.datagram(index), loop.clock.isVirtual ? loop.clock.now() : time, .kernel)
        } else {
          if slab.isEnd(index, of: descriptor) { return false }
          body(slab.datagram(index), loop.clock.now(), .arrival)
        }
      }
      if count < slab.slots { return true }
    }
    return true
  }

  /// Makes one read per turn if each read is a packet. The loop calls this method again if more are pending.
  private func drainReads(
    _ body: (Span<UInt8>, ReceiveTime, Stamp) -> Void
  ) throws(SystemError) -> Bool {
    for _ in 0..<Self.turnLimit where token != nil {
      let count: Int
      do throws(SystemError) { count = try descriptor.read(into: &chunk) } catch {
        if error.condition == .wouldBlock { return true }
        throw error
      }
      guard count > 0 else { return false }
      body(chunk.span.extracting(..<count), loop.clock.now(), .arrival)
      if framing == .reads || count < chunk.count { return true }
    }
    return true
  }

  // MARK: Out

  /// Whether packets are queued because the kernel's send queue is full.
  package var isBehind: Bool { !outbox.isEmpty }

  /// Sends a packet, or queues it if the kernel does not accept it.
  ///
  /// - Throws: ENOBUFS if the send queue is full.
  package func send(_ packet: Span<UInt8>) throws(SystemError) {
    loop.assertIsCurrent()
    var taken = 0
    if outbox.isEmpty {
      taken = try write(packet)
      if taken == packet.count { return }
    }
    guard outboxByteCount + packet.count <= Self.outboxLimit else {
      throw SystemError(call: "write", number: SystemError.noBufferSpace)
    }
    if outbox.isEmpty, let token { try loop.update(token, descriptor, for: [.readable, .writable]) }
    var rest: [UInt8] = []
    rest.reserveCapacity(packet.count - taken)
    for index in taken..<packet.count { rest.append(packet[index]) }
    outbox.append(rest)
    outboxByteCount += rest.count
  }

  /// Sends queued packets. Call this when the descriptor is writable again.
  package func flush() throws(SystemError) {
    while let packet = outbox.first {
      let taken = try write(packet.span)
      outboxByteCount -= taken
      guard taken == packet.count else {
        outbox[0].removeFirst(taken)
        return
      }
      outbox.removeFirst()
    }
    if let token { try loop.update(token, descriptor, for: .readable) }
  }

  /// Writes a packet or a part of it.
  ///
  /// - Returns: Number of bytes written; 0 if there is no room.
  private func write(_ packet: Span<UInt8>) throws(SystemError) -> Int {
    do throws(SystemError) { return try descriptor.write(packet) } catch {
      // ENOMEM is handled like EAGAIN: the data is queued until the send queue is full.
      if error.condition == .wouldBlock || error.condition == .noMemory { return 0 }
      throw error
    }
  }
}
