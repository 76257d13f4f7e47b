public import BLELinux
import BLEStack
public import BLEWire

/// A pending connection of the kernel's L2CAP socket.
actor SocketConnector {
  private let peer: DeviceAddress
  private let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private var descriptor: FileDescriptor?
  private var token: UInt64?
  private let outcome = OneShot<Result<Void, HostError>>()
  private var end: MonotonicTime?
  private let timeout: Duration

  init(
    to peer: DeviceAddress, from adapter: DeviceAddress, on loop: EventLoop, timeout: Duration
  ) throws(SystemError) {
    self.peer = peer
    self.loop = loop
    self.timeout = timeout
    descriptor = try L2CAPSocket.connectATT(to: peer, from: adapter)
  }

  /// Waits until the channel is connected. Call this only once.
  func connect() async throws(HostError) -> FileDescriptor {
    try register()
    end = SystemClock.monotonic().advanced(by: timeout)
    let result = await withTaskCancellationHandler {
      await outcome.value()
    } onCancel: {
      loop.later(self) { $0.finish(.failure(.gatt(.closed(.closedLocally)))) }
    }
    try result.get()
    guard let descriptor = descriptor.take() else { preconditionFailure("connected twice") }
    return descriptor
  }

  private func register() throws(HostError) {
    guard let descriptor = descriptor.take() else { preconditionFailure("connected twice") }
    let source = ActorSource { _ in
      self.settle()
    } deadline: {
      self.end
    } expired: { _ in
      self.expire()
    } stopped: {
      self.finish(.failure(.gatt(.closed(.closedLocally))))
    }
    do throws(SystemError) { token = try loop.add(source, descriptor, for: .writable) } catch {
      throw HostError(error)
    }
    self.descriptor = consume descriptor
  }

  private func finish(_ result: Result<Void, HostError>) {
    guard outcome.current == nil, let descriptor = descriptor.take() else { return }
    end = nil
    if let token { loop.remove(token, descriptor) }
    token = nil
    if case .success = result { self.descriptor = consume descriptor }
    outcome.set(result)
  }

  private func expire() {
    finish(.failure(.noAnswer(peer, seconds: Int(timeout.components.seconds))))
  }

  private func settle() {
    guard let descriptor = descriptor.take() else { return }
    var failure: HostError?
    do throws(SystemError) {
      if let error = try descriptor.pendingError() { failure = HostError(connecting: peer, error) }
    } catch { failure = HostError(connecting: peer, error) }
    self.descriptor = consume descriptor
    finish(failure.map { .failure($0) } ?? .success(()))
  }
}

extension Connection {
  /// Connects the ATT channel over the kernel's L2CAP socket.
  ///
  /// - Parameters:
  ///   - peer: the identity address if the device is bonded.
  ///   - adapter: the local adapter's address, or `DeviceAddress.any` for the first adapter that is up.
  ///   - loop: the event loop; its thread is the receive thread.
  ///   - timeout: time limit for the kernel's connection attempt.
  ///   - tap: receives a copy of each PDU, for a log.
  /// - Throws: `noAnswer`, `channelBusy`, `connectFailed`, `noBluetooth`.
  public static func open(
    to peer: DeviceAddress, from adapter: DeviceAddress = .any, on loop: EventLoop,
    timeout: Duration = .seconds(20), tap: PacketTap? = nil
  ) async throws(HostError) -> Connection {
    try await open(to: peer, from: adapter, on: loop, timeout: timeout, tap: tap, watching: nil)
  }

  /// Connects the ATT channel over the kernel's L2CAP socket, and subscribes to the link's events.
  ///
  /// - Parameter channel: supplies the controller's events for the link.
  static func open(
    to peer: DeviceAddress, from adapter: DeviceAddress, on loop: EventLoop, timeout: Duration,
    tap: PacketTap?, watching channel: RawChannel?
  ) async throws(HostError) -> Connection {
    let connector: SocketConnector
    do throws(SystemError) {
      connector = try SocketConnector(to: peer, from: adapter, on: loop, timeout: timeout)
    } catch { throw HostError(connecting: peer, error) }
    return try await adopt(
      try await connector.connect(), peer: peer, on: loop, tap: tap, watching: channel)
  }

  /// Creates a connection from a connected datagram socket. Each datagram is one PDU.
  package static func adopt(
    _ descriptor: consuming FileDescriptor, peer: DeviceAddress, on loop: EventLoop,
    tap: PacketTap? = nil
  ) async throws(HostError) -> Connection {
    try await adopt(descriptor, peer: peer, on: loop, tap: tap, watching: nil)
  }

  private static func adopt(
    _ descriptor: consuming FileDescriptor, peer: DeviceAddress, on loop: EventLoop,
    tap: PacketTap?, watching channel: RawChannel?
  ) async throws(HostError) -> Connection {
    let carrier: SocketCarrier
    do throws(SystemError) {
      descriptor.prepareToReceive()
      carrier = try SocketCarrier(descriptor, loop)
    } catch { throw HostError(error) }
    await channel?.watch(for: carrier)
    let handle = carrier.connectionHandle ?? ConnectionHandle(0)
    let connection = Connection(carrier, peer: peer, handle: handle, on: loop, tap: tap)
    try await connection.attach()
    return connection
  }
}
