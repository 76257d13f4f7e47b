public import BLELinux
import BLEStack
import BLEWire

/// Runs the virtual controllers of a virtual air, all on one thread. Each controller exchanges packets with
/// its host through a descriptor.
///
/// At the pace `.air` the simulation runs in real time. The loop's clock has a resolution of milliseconds, so
/// a host receives events up to one millisecond late; a link's throughput is not affected.
///
/// ```swift
/// let emulation = try await ControllerAttachment.attach(
///   VirtualController(peripherals: [EmulatedRing()]), to: VHCI())
/// // … the kernel has an adapter `hci<emulation.index>` …
/// await emulation.detach()
/// ```
public actor ControllerAttachment {
  private nonisolated let loop: EventLoop
  private nonisolated let ownsLoop: Bool
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  /// Index of the kernel's adapter, 0 for `hci0`; `nil` if the host is not the kernel.
  public nonisolated let index: UInt16?

  /// The first controller.
  private let controller: VirtualController
  private var ports: [Port] = []
  /// Whether the virtual air continues to run when no host is attached.
  private let isPermanent: Bool
  private var isDetached = false
  private let detached = OneShot<Void>()
  /// Error that ended the attachment; `nil` if the other end closed.
  public private(set) var failure: SystemError?
  /// Number of packets that the kernel refused because the adapter is down.
  public private(set) var undelivered = 0

  /// A controller and the port to its host.
  private final class Port {
    let controller: VirtualController
    let port: PacketPort
    var framer = H4Framer(from: .hostToController)
    /// Set when the port is closed.
    let closed = OneShot<Void>()

    init(_ controller: VirtualController, _ port: PacketPort) {
      self.controller = controller
      self.port = port
    }
  }

  /// Attaches the controller to a new kernel adapter, and brings the adapter up.
  ///
  /// - Returns: The attachment, once the kernel has initialised the adapter.
  public static func attach(
    _ controller: sending VirtualController, to vhci: consuming VHCI
  ) async throws(VHCIError) -> ControllerAttachment {
    let index = vhci.index
    let attachment: ControllerAttachment
    do throws(SystemError) {
      attachment = try ControllerAttachment(controller, index: index)
      try await attachment.open(vhci.takeDescriptor(), .reads)
    } catch { throw .system(error) }
    do throws(VHCIError) { try VHCI.bringUp(index: index) } catch {
      await attachment.detach()
      throw error
    }
    return attachment
  }

  /// Attaches the controller to one end of a packet socket or of a byte stream.
  ///
  /// - Parameter loop: the event loop to run on, so that controller and host share virtual time; `nil` for a
  ///   new thread.
  package static func attach(
    _ controller: sending VirtualController, to descriptor: consuming FileDescriptor,
    _ framing: PacketPort.Framing, on loop: EventLoop? = nil
  ) async throws(SystemError) -> ControllerAttachment {
    let attachment = try ControllerAttachment(controller, index: nil, on: loop)
    try await attachment.open(descriptor, framing)
    return attachment
  }

  /// Runs the virtual air of a controller that has no host. `add` adds controllers with hosts. The virtual
  /// air runs until `detach`.
  package static func attach(
    _ controller: sending VirtualController
  ) throws(SystemError) -> ControllerAttachment {
    try ControllerAttachment(controller, index: nil, isPermanent: true)
  }

  /// Adds a controller to the virtual air, attaches it to another kernel adapter, and brings that adapter up.
  ///
  /// - Returns: Index of the kernel's adapter.
  public nonisolated func add(
    _ configuration: VirtualController.Configuration, to vhci: consuming VHCI
  ) async throws(VHCIError) -> UInt16 {
    let index = vhci.index
    do throws(SystemError) { try await add(configuration, to: vhci.takeDescriptor(), .reads) } catch {
      throw .system(error)
    }
    // Not on the loop's thread, which answers the kernel's commands meanwhile.
    try VHCI.bringUp(index: index)
    return index
  }

  /// Adds a controller to the virtual air and attaches it to a descriptor. The controller is removed when its
  /// host closes the other end.
  ///
  /// - Returns: A one-shot that is set when the controller was removed; already set if the attachment is
  ///   detached.
  @discardableResult
  package func add(
    _ configuration: VirtualController.Configuration, to descriptor: consuming FileDescriptor,
    _ framing: PacketPort.Framing
  ) throws(SystemError) -> OneShot<Void> {
    guard !isDetached else { return detached }
    try open(VirtualController(configuration, in: controller.air), descriptor, framing)
    return ports[ports.count - 1].closed
  }

  private init(
    _ controller: sending VirtualController, index: UInt16?, on loop: EventLoop? = nil,
    isPermanent: Bool = false
  ) throws(SystemError) {
    self.isPermanent = isPermanent
    ownsLoop = loop == nil
    if let loop { self.loop = loop } else { self.loop = try EventLoop(name: "controller") }
    self.controller = controller
    self.index = index
  }

  private func open(
    _ descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing
  ) throws(SystemError) {
    try open(controller, descriptor, framing)
  }

  private func open(
    _ controller: VirtualController, _ descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing
  ) throws(SystemError) {
    let port = Port(controller, try PacketPort(descriptor, framing, loop))
    let source = ActorSource {
      self.receive($0, at: port)
    } deadline: {
      // The first controller's deadline covers all controllers, because they share the virtual air.
      self.ports.first === port ? port.controller.deadline : nil
    } expired: {
      port.controller.advance(to: $0)
      self.send()
    } stopped: {
      self.detach()
    }
    try port.port.open(for: source)
    ports.append(port)
  }

  /// Stops the controllers. Their kernel adapters are removed.
  public func detach() {
    guard !isDetached else { return }
    isDetached = true
    let open = ports
    ports = []
    for port in open {
      port.port.close()
      port.closed.set(())
    }
    detached.set(())
  }

  deinit { if ownsLoop { loop.stop() } }

  /// Waits until `detach` is called or the last host has closed.
  public func ended() async { await detached.value() }

  /// Waits like `ended`, and detaches if the task is cancelled.
  public func runUntilCancelled() async {
    await withTaskCancellationHandler {
      await detached.value()
    } onCancel: {
      loop.later(self) { $0.detach() }
    }
  }

  /// Runs `body` with the first controller, between two packets.
  public func inspect<R: Sendable>(_ body: @Sendable (VirtualController) -> R) -> R { body(controller) }

  /// Starts or ends a fault of the virtual air.
  public func inject(_ fault: AirFault) {
    controller.air.inject(fault, now: loop.clock.monotonic())
    send()
  }

  /// Starts a fault of the first controller.
  public func inject(_ fault: ControllerFault) {
    controller.inject(fault, now: loop.clock.monotonic())
    send()
  }

  // MARK: On the loop's thread

  private func receive(_ readiness: Readiness, at port: Port) {
    do throws(SystemError) {
      if !readiness.isDisjoint(with: .writable) { try port.port.flush() }
      let isOpen = try port.port.drain { octets, _, _ in
        let now = loop.clock.monotonic()
        if port.port.framing == .stream {
          port.framer.receive(octets) { port.controller.receive($0, now: now) }
        } else {
          port.controller.receive(octets, now: now)
        }
      }
      send()
      if !isOpen { close(port) }
    } catch { fail(port, error) }
  }

  /// Sends the queued packets to all hosts, because a change at one controller may affect the others.
  private func send() {
    drain()
    let caughtUp = ports.filter { $0.controller.isHostBehind && !$0.port.isBehind }
    for port in ports { port.controller.isHostBehind = port.port.isBehind }
    if !caughtUp.isEmpty { drain() }
  }

  private func drain() {
    for port in ports {
      port.controller.drain { packet in
        do throws(SystemError) { try port.port.send(packet) } catch {
          if error.condition == .adapterGone { undelivered += 1 } else { fail(port, error) }
        }
      }
    }
  }

  private func fail(_ port: Port, _ error: SystemError) {
    failure = error
    close(port)
  }

  /// Closes a port. If it was the last port, detaches, unless the virtual air is permanent.
  private func close(_ port: Port) {
    guard ports.contains(where: { $0 === port }) else { return }
    if ports.count == 1, !isPermanent { return detach() }
    port.port.close()
    ports.removeAll { $0 === port }
    port.controller.leave()
    port.closed.set(())
    send()
  }
}
