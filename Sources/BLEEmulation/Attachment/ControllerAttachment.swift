public import BLECore
public import BLESystem
import BLEWire

/// A virtual controller at work: packets to and from one descriptor, on a thread of its own.
///
/// ```swift
/// let emulation = try await ControllerAttachment.attach(
///   VirtualController(peripherals: [EmulatedRing()]), to: VHCI())
/// // … the kernel has an adapter `hci<emulation.index>` …
/// await emulation.detach()
/// ```
public actor ControllerAttachment: EventSource {
  /// Longer than any packet that a host may send: an ACL packet of 65,535 octets is beyond all buffers.
  private static let packetByteCount = 4096

  private nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  /// The kernel's number of the adapter, 0 for `hci0`; `nil` where no kernel is at the other end.
  public nonisolated let index: UInt16?

  private let controller: VirtualController
  private let descriptor: FileDescriptor
  private var token: UInt64?
  private var buffer = [UInt8](repeating: 0, count: ControllerAttachment.packetByteCount)
  /// Why it stopped by itself.
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
      attachment = try ControllerAttachment(controller, vhci.takeDescriptor(), index: index)
      try await attachment.start()
    } catch { throw .system(error) }
    do throws(VHCIError) { try VHCI.bringUp(index: index) } catch {
      await attachment.detach()
      throw error
    }
    return attachment
  }

  /// Runs the controller at one end of a packet socket: one H4 packet per datagram.
  package static func attach(
    _ controller: sending VirtualController, to descriptor: consuming FileDescriptor
  ) async throws(SystemError) -> ControllerAttachment {
    let attachment = try ControllerAttachment(controller, descriptor, index: nil)
    try await attachment.start()
    return attachment
  }

  private init(
    _ controller: sending VirtualController, _ descriptor: consuming FileDescriptor, index: UInt16?
  ) throws(SystemError) {
    loop = try EventLoop(name: "controller")
    self.controller = controller
    self.descriptor = descriptor
    self.index = index
  }

  private func start() throws(SystemError) {
    token = try loop.add(self, descriptor, for: .readable)
  }

  /// Stops answering. The adapter goes when the last reference to this goes.
  public func detach() {
    guard let token else { return }
    loop.remove(token, descriptor)
    self.token = nil
    loop.stop()
  }

  /// Looks at the controller between two packets.
  public func inspect<R: Sendable>(_ body: @Sendable (VirtualController) -> R) -> R { body(controller) }

  // MARK: On the loop's thread

  public nonisolated var deadline: MonotonicTime? { assumeIsolated { $0.controller.deadline } }

  public nonisolated func ready(_ readiness: Readiness) {
    assumeIsolated { $0.receive(readiness) }
  }

  public nonisolated func expired(now: MonotonicTime) {
    assumeIsolated { attachment in
      attachment.controller.advance(to: now)
      attachment.send()
    }
  }

  /// One packet a turn: the loop comes back while there are more, and deadlines are kept between them.
  private func receive(_ readiness: Readiness) {
    do throws(SystemError) {
      let count = try descriptor.read(into: &buffer)
      // An empty datagram cannot be told from the end here, but no host sends one.
      guard count > 0 else { return detach() }
      let packet = buffer
      controller.receive(packet.span.extracting(..<count), now: SystemClock.monotonic())
      send()
    } catch {
      if error.condition != .wouldBlock || readiness.contains(.hangUp) { fail(error) }
    }
  }

  private func send() {
    controller.drain { packet in
      do throws(SystemError) { _ = try descriptor.write(packet) } catch {
        if error.condition == .adapterGone { undelivered += 1 } else { fail(error) }
      }
    }
  }

  private func fail(_ error: SystemError) {
    failure = error
    detach()
  }
}
