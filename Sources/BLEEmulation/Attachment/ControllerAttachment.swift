public import BLESystem
import BLEStack
import BLEWire

/// A virtual controller at work: packets to and from one descriptor, on a thread of its own.
///
/// ```swift
/// let emulation = try await ControllerAttachment.attach(
///   VirtualController(peripherals: [EmulatedRing()]), to: VHCI())
/// // … the kernel has an adapter `hci<emulation.index>` …
/// await emulation.detach()
/// ```
public actor ControllerAttachment {
  private nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  /// The kernel's number of the adapter, 0 for `hci0`; `nil` where no kernel is at the other end.
  public nonisolated let index: UInt16?

  private let controller: VirtualController
  private let port: PacketPort
  private var framer = H4Framer(from: .hostToController)
  private var isAttached = false
  private var endWaiters: [CheckedContinuation<Void, Never>] = []
  /// Why it stopped by itself; `nil` where the other end just closed.
  public private(set) var failure: SystemError?
  /// Packets that the kernel did not take because the adapter is down.
  public private(set) var undelivered = 0

  /// Makes the controller the hardware of a kernel adapter, and brings the adapter up.
  ///
  /// - Returns: when the kernel has set the adapter up and it can be used.
  public static func attach(
    _ controller: sending VirtualController, to vhci: consuming VHCI
  ) async throws(VHCIError) -> ControllerAttachment {
    let index = vhci.index
    let attachment: ControllerAttachment
    do throws(SystemError) {
      attachment = try ControllerAttachment(controller, vhci.takeDescriptor(), .reads, index: index)
      try await attachment.start()
    } catch { throw .system(error) }
    do throws(VHCIError) { try VHCI.bringUp(index: index) } catch {
      await attachment.detach()
      throw error
    }
    return attachment
  }

  /// Runs the controller at one end of a packet socket or of a byte stream.
  package static func attach(
    _ controller: sending VirtualController, to descriptor: consuming FileDescriptor,
    _ framing: PacketPort.Framing
  ) async throws(SystemError) -> ControllerAttachment {
    let attachment = try ControllerAttachment(controller, descriptor, framing, index: nil)
    try await attachment.start()
    return attachment
  }

  private init(
    _ controller: sending VirtualController, _ descriptor: consuming FileDescriptor,
    _ framing: PacketPort.Framing, index: UInt16?
  ) throws(SystemError) {
    loop = try EventLoop(name: "controller")
    self.controller = controller
    self.index = index
    port = try PacketPort(descriptor, framing, loop)
  }

  private func start() throws(SystemError) {
    let source = ActorSource {
      self.receive($0)
    } deadline: {
      self.controller.deadline
    } expired: {
      self.controller.advance(to: $0)
      self.send()
    } stopped: {
      self.detach()
    }
    try port.open(for: source)
    isAttached = true
  }

  /// Stops answering. The adapter goes when the last reference to this goes.
  public func detach() {
    guard isAttached else { return }
    isAttached = false
    port.close()
    for waiter in endWaiters { waiter.resume() }
    endWaiters = []
  }

  deinit { loop.stop() }

  /// Waits until it is detached, by whoever.
  public func ended() async {
    guard isAttached else { return }
    await withCheckedContinuation { endWaiters.append($0) }
  }

  /// Looks at the controller between two packets.
  public func inspect<R: Sendable>(_ body: @Sendable (VirtualController) -> R) -> R { body(controller) }

  // MARK: On the loop's thread

  private func receive(_ readiness: Readiness) {
    do throws(SystemError) {
      if !readiness.isDisjoint(with: .writable) { try port.flush() }
      let isOpen = try port.drain { octets, _, _ in
        let now = SystemClock.monotonic()
        if port.framing == .stream {
          framer.receive(octets) { controller.receive($0, now: now) }
        } else {
          controller.receive(octets, now: now)
        }
      }
      send()
      if !isOpen { detach() }
    } catch { fail(error) }
  }

  private func send() {
    controller.drain { packet in
      do throws(SystemError) { try port.send(packet) } catch {
        if error.condition == .adapterGone { undelivered += 1 } else { fail(error) }
      }
    }
  }

  private func fail(_ error: SystemError) {
    failure = error
    detach()
  }
}
