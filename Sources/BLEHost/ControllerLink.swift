import BLECore
import BLEStack
import BLESystem
import BLEWire

/// The descriptor to a controller of our own: whole H4 packets out and in, whatever carries them.
///
/// Lives on the event loop's thread with the `HostAdapter` that owns it.
final class ControllerLink {
  /// What a read of the descriptor gives.
  enum Framing: Sendable {
    /// One packet, with the kernel's stamp.
    case datagrams
    /// Octets; the packet's time is that of the read.
    case stream
  }

  /// Octets of packets that may wait for the port. A controller that takes nothing is given up before.
  private static let outboxLimit = 1 << 20
  private static let slabSlots = 64
  private static let slabSlotByteCount = 4096

  private let descriptor: FileDescriptor
  private let framing: Framing
  private var slab: ReceiveSlab
  private var framer = H4Framer()
  private var chunk: [UInt8]
  private var outbox: [[UInt8]] = []
  private var outboxByteCount = 0
  private var token: UInt64?
  private let loop: EventLoop

  init(
    _ descriptor: consuming FileDescriptor, _ framing: Framing, _ loop: EventLoop
  ) throws(SystemError) {
    self.framing = framing
    self.loop = loop
    if framing == .datagrams {
      slab = try ReceiveSlab(slots: Self.slabSlots, slotByteCount: Self.slabSlotByteCount)
      chunk = []
      try descriptor.prepareToReceive()
    } else {
      slab = try ReceiveSlab(slots: 1, slotByteCount: 1)
      chunk = [UInt8](repeating: 0, count: Self.slabSlotByteCount)
    }
    self.descriptor = descriptor
  }

  /// Octets that belonged to no packet.
  var garbage: Int { framer.garbage }

  /// PDUs dropped in the kernel's queue of a datagram port; a stream has flow control.
  var kernelQueueDrops: Int { framing == .datagrams ? descriptor.receiveQueueDrops : 0 }

  func open(for source: any EventSource) throws(SystemError) {
    token = try loop.add(source, descriptor, for: .readable)
  }

  func close() {
    guard let token else { return }
    self.token = nil
    loop.remove(token, descriptor)
  }

  /// Takes everything that waits.
  ///
  /// - Returns: `false` where the other end has gone.
  func drain(_ body: (Span<UInt8>, ReceiveTime, BearerClient.Stamp) -> Void) throws(SystemError) -> Bool {
    framing == .datagrams ? try drainDatagrams(body) : try drainStream(body)
  }

  private func drainDatagrams(_ body: (Span<UInt8>, ReceiveTime, BearerClient.Stamp) -> Void)
    throws(SystemError) -> Bool
  {
    while token != nil {
      let count = try slab.receive(from: descriptor)
      for index in 0..<count {
        if let time = slab.time(index) {
          body(slab.datagram(index), time, .kernel)
        } else {
          // The end has neither octets nor a stamp.
          if slab.datagram(index).isEmpty { return false }
          body(slab.datagram(index), SystemClock.now(), .arrival)
        }
      }
      if count < slab.slots { return true }
    }
    return true
  }

  private func drainStream(_ body: (Span<UInt8>, ReceiveTime, BearerClient.Stamp) -> Void) throws(SystemError)
    -> Bool
  {
    while token != nil {
      let count: Int
      do throws(SystemError) { count = try descriptor.read(into: &chunk) } catch {
        if error.condition == .wouldBlock { return true }
        throw error
      }
      guard count > 0 else { return false }
      let time = SystemClock.now()
      framer.receive(chunk.span.extracting(..<count)) { packet in
        body(packet, time, .arrival)
      }
      if count < chunk.count { return true }
    }
    return true
  }

  /// Sends a packet, or keeps it until the port takes it.
  ///
  /// - Throws: ENOBUFS where far too much waits.
  func send(_ packet: [UInt8]) throws(SystemError) {
    if outbox.isEmpty, try write(packet) == packet.count { return }
    guard outboxByteCount + packet.count <= Self.outboxLimit else {
      throw SystemError(call: "write", number: SystemError.noBufferSpace)
    }
    if outbox.isEmpty, let token { try loop.update(token, descriptor, for: [.readable, .writable]) }
    let rest = Array(packet.dropFirst(partialByteCount))
    partialByteCount = 0
    outbox.append(rest)
    outboxByteCount += rest.count
  }

  /// Octets of the last packet that a stream took before it was full.
  private var partialByteCount = 0

  func flush() throws(SystemError) {
    while let packet = outbox.first {
      let count = try write(packet)
      outboxByteCount -= count
      guard count == packet.count else {
        if count > 0 { outbox[0].removeFirst(count) }
        partialByteCount = 0
        return
      }
      outbox.removeFirst()
    }
    if let token { try loop.update(token, descriptor, for: .readable) }
  }

  private func write(_ packet: [UInt8]) throws(SystemError) -> Int {
    do throws(SystemError) {
      partialByteCount = try descriptor.write(packet.span)
    } catch {
      guard error.condition == .wouldBlock else { throw error }
      partialByteCount = 0
    }
    return partialByteCount
  }
}
