import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// A controller and its host's event loop, without a descriptor between them. A packet from the host arrives
/// at once, a packet from the controller in the loop's next turn.
final class SimulatedRadio: EventSource, @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  let loop: EventLoop
  let controller: VirtualController
  private let ledger: FrameLedger
  private let trace: Trace
  private(set) var client: TransportClient?
  /// Whether the controller has packets that the host has not received yet.
  private var hasOutput = false
  /// Cached deadline of the controller; `nil` after any event that may change it.
  private var controllerDeadline: MonotonicTime??
  private let descriptor: FileDescriptor
  private var token: UInt64?

  init(_ controller: VirtualController, _ ledger: FrameLedger, _ trace: Trace, on loop: EventLoop) throws {
    self.controller = controller
    self.ledger = ledger
    self.trace = trace
    self.loop = loop
    descriptor = try FileDescriptor.silent()
    token = try loop.add(self, descriptor, for: .readable)
  }

  func close() {
    if let token { loop.remove(token, descriptor) }
    token = nil
    client = nil
  }

  var now: MonotonicTime { loop.clock.monotonic() }

  // MARK: The host's side

  func attach(_ client: TransportClient) { self.client = client }

  func detach() { client = nil }

  func send(_ packet: Span<UInt8>) {
    trace.packet(">", packet, at: now)
    controller.receive(packet, now: now)
    (hasOutput, controllerDeadline) = (true, nil)
  }

  // MARK: The loop's side

  func ready(_ readiness: Readiness) {}

  var deadline: MonotonicTime? {
    if hasOutput { return now }
    if controllerDeadline == nil { controllerDeadline = .some(controller.deadline) }
    return .earliest(controllerDeadline ?? nil, client?.deadline())
  }

  func expired(now: MonotonicTime) {
    if let known = controllerDeadline, known.map({ $0 > now }) ?? true {
      // It is the host's deadline, not the controller's.
    } else {
      controller.advance(to: now)
      controllerDeadline = nil
    }
    deliver()
    if let client, let deadline = client.deadline(), deadline <= now { client.expired(now) }
  }

  func inject(_ fault: AirFault) {
    controller.air.inject(fault, now: now)
    (hasOutput, controllerDeadline) = (true, nil)
  }

  func inject(_ fault: ControllerFault) {
    controller.inject(fault, now: now)
    (hasOutput, controllerDeadline) = (true, nil)
  }

  private func deliver() {
    hasOutput = false
    var isAny = false
    controller.drain { packet in
      isAny = true
      trace.packet("<", packet, at: now)
      ledger.left(packet, hasHost: client != nil)
      client?.received(packet, loop.clock.now(), true)
    }
    if isAny { client?.settled() }
  }
}

/// The host's transport to the radio.
final class SimulatedTransport: PacketTransport, @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  private let radio: SimulatedRadio
  private var isOpen = false

  init(_ radio: SimulatedRadio) { self.radio = radio }

  var kernelQueueDrops: Int { 0 }
  var garbage: Int { 0 }

  func open(_ client: TransportClient) {
    radio.attach(client)
    isOpen = true
  }

  func send(_ packet: Span<UInt8>) throws(SystemError) {
    guard isOpen else { throw SystemError(call: "send", number: 32) }  // EPIPE
    radio.send(packet)
  }

  func close() {
    guard isOpen else { return }
    isOpen = false
    radio.detach()
  }
}

/// The transport next to the host, which records what happens to each packet.
final class LedgerTransport: PacketTransport, @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  private let inner: any PacketTransport
  private let ledger: FrameLedger

  init(_ inner: any PacketTransport, _ ledger: FrameLedger) {
    self.inner = inner
    self.ledger = ledger
  }

  var kernelQueueDrops: Int { 0 }
  var garbage: Int { 0 }
  var failure: HostError? { inner.failure }

  func open(_ client: TransportClient) throws(SystemError) {
    let ledger = ledger
    try inner.open(
      TransportClient(
        received: { packet, time, isStamped in
          ledger.arrived(packet) { client.received(packet, time, isStamped) }
        }, settled: client.settled, lost: client.lost, deadline: client.deadline, expired: client.expired))
  }

  func send(_ packet: Span<UInt8>) throws(SystemError) { try inner.send(packet) }

  func close() { inner.close() }
}
