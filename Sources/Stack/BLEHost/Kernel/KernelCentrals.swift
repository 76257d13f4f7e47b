package import BLELinux
package import BLEStack
package import BLEWire

/// Hears what the controller of a raw channel says, and what others say to it.
package final class ControllerObserver: @unchecked Sendable {
  // No lock: called on the event loop's thread only, with a packet from its H4 type octet on.
  let heard: (Span<UInt8>) -> Void
  let lost: (HostError) -> Void

  package init(heard: @escaping (Span<UInt8>) -> Void, lost: @escaping (HostError) -> Void) {
    (self.heard, self.lost) = (heard, lost)
  }
}

extension KernelAdapter {
  /// Sends a command on the raw channel, and waits for its answer.
  @discardableResult
  package func command(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
    try await openChannel().command(command)
  }

  /// The same for the kernel's host.
  @discardableResult
  package func manage(_ command: any ManagementCommand) async throws(HostError) -> [UInt8] {
    try await openManagement().command(command)
  }

  /// Tells one observer of packets from now on.
  package func tell(_ observer: ControllerObserver) async throws(HostError) {
    try await openChannel().tell(observer)
  }

  /// Has the observer hear of what waits in the raw channel: the kernel queues an event there before it acts on it.
  package func catchUp() { channel?.assumeIsolated { $0.drain() } }

  package var bondStore: (any BondStore)? { security.settings?.store }

  /// Takes over the ATT channel of a link that a central made.
  package func adopt(
    _ descriptor: consuming FileDescriptor, peer: DeviceAddress, tap: PacketTap?
  ) throws(HostError) -> Connection {
    let carrier: SocketCarrier
    do throws(SystemError) {
      descriptor.prepareToReceive()
      carrier = try SocketCarrier(descriptor, loop)
    } catch { throw HostError(error) }
    channel?.assumeIsolated { $0.watch(for: carrier) }
    let handle = carrier.connectionHandle ?? ConnectionHandle(0)
    let connection = Connection(carrier, peer: peer, handle: handle, on: loop, tap: tap)
    do { try connection.assumeIsolated { try $0.attach() } } catch { throw .adapterDown(name) }
    security.add(connection)
    return connection
  }

  /// Has `arrive` take centrals that have come before the kernel's questions about them, and `changed` hear of keys.
  ///
  /// - Returns: `false` where somebody takes them already.
  package func whenPairing(arrive: @escaping () -> Void, changed: @escaping () -> Void) -> Bool {
    guard security.centrals == nil else { return false }
    security.centrals = (arrive, changed)
    return true
  }

  /// The end of `tell` and `whenPairing`.
  package func endCentrals() {
    security.centrals = nil
    channel?.assumeIsolated { $0.tell(nil) }
  }
}
