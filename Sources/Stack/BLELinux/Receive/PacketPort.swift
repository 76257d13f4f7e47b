package import BLEWire

/// A descriptor that carries HCI packets, with its own queue for what does not go out at once.
///
/// Lives on its owner's event loop thread.
package final class PacketPort {
  /// What a read of the descriptor gives.
  package enum Framing: Sendable {
    /// One packet, with the kernel's stamp where it is a socket.
    case datagrams
    /// One packet to a read, as from `/dev/vhci`.
    case reads
    /// Some octets of a stream; the time is that of the read.
    case stream
  }

  /// Where the time of what arrived comes from.
  package enum Stamp: Sendable { case kernel, arrival }

  /// Octets of packets that may wait. Who takes nothing for so long is given up before.
  private static let outboxLimit = 1 << 20
  /// Slabs or reads in one turn: then the loop's jobs and other sources have theirs.
  private static let turnLimit = 8
  /// Receives in a row that the kernel may have no memory for.
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

  /// Packets dropped in the kernel's queue of a socket; a stream has flow control.
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

  /// Takes what waits, but not for ever: the loop comes back while there is more.
  ///
  /// - Returns: `false` where the other end has gone.
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
        // What waits is there when the loop comes back.
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

  /// One read a turn where each is a packet: the loop comes back while there are more.
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

  /// Whether the other end leaves more than the kernel keeps for it.
  package var isBehind: Bool { !outbox.isEmpty }

  /// Sends a packet, or keeps what does not go until there is room.
  ///
  /// - Throws: ENOBUFS where far too much waits.
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

  /// There is room again.
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

  /// - Returns: octets taken; 0 where there is no room.
  private func write(_ packet: Span<UInt8>) throws(SystemError) -> Int {
    do throws(SystemError) { return try descriptor.write(packet) } catch {
      // Without memory in the kernel too it is tried again, until far too much waits.
      if error.condition == .wouldBlock || error.condition == .noMemory { return 0 }
      throw error
    }
  }
}
