package import BLELinux
package import BLEStack
package import BLEWire

/// Receives all packets of a raw channel, from the controller and from other users of the controller.
package final class ControllerObserver: @unchecked Sendable {
  // No lock: called on the event loop's thread only. A packet begins with its H4 type byte.
  let heard: (Span<UInt8>) -> Void
  let lost: (HostError) -> Void

  package init(heard: @escaping (Span<UInt8>) -> Void, lost: @escaping (HostError) -> Void) {
    (self.heard, self.lost) = (heard, lost)
  }
}

extension KernelAdapter {
  /// Sends a command on the raw channel and waits for its reply.
  @discardableResult
  package func command(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
    try await openChannel().command(command)
  }

  /// Sends a command on the management socket and waits for its reply.
  @discardableResult
  package func manage(_ command: any ManagementCommand) async throws(HostError) -> [UInt8] {
    try await openManagement().command(command)
  }

  /// Passes all further packets to the observer, which replaces any earlier one.
  package func tell(_ observer: ControllerObserver) async throws(HostError) {
    try await openChannel().tell(observer)
  }

  /// Passes the packets queued in the raw channel to the observer. The kernel queues an event there before it
  /// acts on the event.
  package func catchUp() { channel?.assumeIsolated { $0.drain() } }

  package var bondStore: (any BondStore)? { security.settings?.store }

  /// Creates a connection from the ATT channel of a link that a central created.
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

  /// Sets callbacks around the kernel's pairing events. `arrive` runs before each event, to accept centrals
  /// that have just connected; `changed` runs after it, because keys may have changed.
  ///
  /// - Returns: `false` if callbacks are already set.
  package func whenPairing(arrive: @escaping () -> Void, changed: @escaping () -> Void) -> Bool {
    guard security.centrals == nil else { return false }
    security.centrals = (arrive, changed)
    return true
  }

  /// Undoes `tell` and `whenPairing`.
  package func endCentrals() {
    security.centrals = nil
    channel?.assumeIsolated { $0.tell(nil) }
  }
}
