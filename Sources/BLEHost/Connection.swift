public import BLECore
public import BLEStack
public import BLESystem
public import BLEWire

/// The ATT bearer to one device over the kernel's L2CAP socket.
///
/// It lives on an event loop: the loop's thread drains the socket into the slab and lends each value to its
/// subscribers, and the actor's methods run on the same thread between two batches. Nothing on the way of a
/// notification awaits, locks or allocates.
public actor Connection: ATTRequester, EventSource {
  /// Runs on the receive thread. Must not block or allocate; cannot keep the view.
  public typealias Sink = @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void

  /// PDUs taken per system call. 64 × 1 KiB; a full slab is simply drained again.
  static let slabSlots = 64
  static let slabSlotByteCount = 1024

  private struct Request {
    let pdu: [UInt8]
    let answer: CheckedContinuation<Result<[UInt8], GATTError>, Never>
  }

  private struct Subscriber {
    let id: Int
    let handle: AttributeHandle
    let sink: Sink
  }

  private enum State {
    case connecting(CheckedContinuation<Result<Void, HostError>, Never>?, deadline: MonotonicTime)
    case open
    case ended(BearerEnd)
  }

  public nonisolated let peer: DeviceAddress
  nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private let descriptor: FileDescriptor
  private var token: UInt64?
  private var state: State
  private var slab: ReceiveSlab
  private var machine = ATTClientMachine()
  private var server: LocalServer
  private let tap: PacketTap?
  private var current: Request?
  private var queue: [Request] = []
  private var outbox: [[UInt8]] = []
  private var outboxWaiters: [CheckedContinuation<Void, Never>] = []
  private var endWaiters: [CheckedContinuation<BearerEnd, Never>] = []
  private var subscribers: [Subscriber] = []
  private var nextSubscriber = 0
  private var wakes: [WakeEvent] = []
  private var counters = BearerStatistics()

  /// Connects the ATT channel.
  ///
  /// - Parameters:
  ///   - adapter: own adapter's address, `DeviceAddress.any` for the first that is up.
  ///   - timeout: how long the kernel may look for the device.
  ///   - tap: where every PDU is logged, if anywhere.
  /// - Throws: `noAnswer`, `channelBusy`, `connectFailed`, `noBluetooth`.
  public static func open(
    to peer: DeviceAddress, from adapter: DeviceAddress = .any, on loop: EventLoop,
    timeout: Duration = .seconds(20), tap: PacketTap? = nil
  ) async throws(HostError) -> Connection {
    let connection: Connection
    do throws(SystemError) {
      let deadline = SystemClock.monotonic().advanced(by: timeout)
      connection = try Connection(
        try L2CAPSocket.connectATT(to: peer, from: adapter), peer, loop,
        .connecting(nil, deadline: deadline), tap)
    } catch { throw HostError(connecting: peer, error) }
    try await connection.connect(timeout: timeout)
    return connection
  }

  /// Takes over a datagram socket that is connected already, one PDU to a datagram.
  package static func adopt(
    _ descriptor: consuming FileDescriptor, peer: DeviceAddress, on loop: EventLoop,
    tap: PacketTap? = nil
  ) async throws(HostError) -> Connection {
    let connection: Connection
    do throws(SystemError) {
      try descriptor.prepareToReceive()
      connection = try Connection(descriptor, peer, loop, .open, tap)
    } catch { throw HostError(error) }
    try await connection.register(for: .readable)
    return connection
  }

  private init(
    _ descriptor: consuming FileDescriptor, _ peer: DeviceAddress, _ loop: EventLoop, _ state: State,
    _ tap: PacketTap?
  ) throws(SystemError) {
    self.peer = peer
    self.loop = loop
    self.tap = tap
    self.state = state
    slab = try ReceiveSlab(slots: Self.slabSlots, slotByteCount: Self.slabSlotByteCount)
    server = LocalServer(receiveMTU: machine.receiveMTU)
    self.descriptor = descriptor
  }

  // MARK: State

  public var mtu: Int { machine.mtu }

  /// What came, what was lost and where, until now.
  public var statistics: BearerStatistics {
    var result = counters
    result.kernelQueueDrops = descriptor.receiveQueueDrops
    return result
  }

  /// The kernel's receive queue, in octets of kernel memory.
  public var receiveBufferByteCount: Int { (try? descriptor.receiveBufferByteCount()) ?? 0 }

  /// The link's handle on its controller; 0 where the kernel does not tell.
  public private(set) var handle = ConnectionHandle(0)

  /// Why the bearer ended, once it has.
  public var end: BearerEnd? {
    if case .ended(let end) = state { end } else { nil }
  }

  /// Waits until the bearer has ended.
  public func ended() async -> BearerEnd {
    if case .ended(let end) = state { return end }
    return await withCheckedContinuation { endWaiters.append($0) }
  }

  /// Closes the channel. The kernel drops the link when its own disconnect time-out has passed.
  public func close() { finish(.closedLocally) }

  // MARK: Requests

  public func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8] {
    let result = await withCheckedContinuation { continuation in
      queue.append(Request(pdu: request, answer: continuation))
      pump()
    }
    return try result.get()
  }

  public func send(_ command: [UInt8]) async throws(GATTError) {
    while !outbox.isEmpty, end == nil {
      await withCheckedContinuation { outboxWaiters.append($0) }
    }
    if let end { throw .closed(end) }
    transmit(command)
  }

  private func pump() {
    if case .ended(let end) = state {
      failRequests(.closed(end))
      return
    }
    guard case .open = state, current == nil, !queue.isEmpty else { return }
    let request = queue.removeFirst()
    current = request
    machine.begin(ATTOpcode(rawValue: request.pdu.first ?? 0), now: SystemClock.monotonic())
    transmit(request.pdu)
  }

  private func complete(_ result: Result<[UInt8], GATTError>) {
    let request = current
    current = nil
    request?.answer.resume(returning: result)
    pump()
  }

  private func failRequests(_ error: GATTError) {
    let waiting = (current.map { [$0] } ?? []) + queue
    current = nil
    queue = []
    for request in waiting { request.answer.resume(returning: .failure(error)) }
  }

  // MARK: Subscribers

  /// Hands values of one attribute to `sink` from now on.
  func addSubscriber(_ handle: AttributeHandle, _ sink: @escaping Sink) -> Int {
    nextSubscriber += 1
    subscribers.append(Subscriber(id: nextSubscriber, handle: handle, sink: sink))
    return nextSubscriber
  }

  /// - Returns: whether others still listen to the same attribute.
  func removeSubscriber(_ id: Int) -> Bool {
    guard let index = subscribers.firstIndex(where: { $0.id == id }) else { return false }
    let handle = subscribers.remove(at: index).handle
    return subscribers.contains { $0.handle == handle }
  }

  func removeSubscribers(of handle: AttributeHandle) {
    subscribers.removeAll { $0.handle == handle }
  }

  /// Signals `wake` after each batch of PDUs, and at the end.
  public func addWake(_ wake: WakeEvent) { wakes.append(wake) }

  // MARK: The receive thread

  public nonisolated var deadline: MonotonicTime? { assumeIsolated { $0.currentDeadline } }

  public nonisolated func ready(_ readiness: Readiness) {
    assumeIsolated { $0.service(readiness) }
  }

  public nonisolated func expired(now: MonotonicTime) { assumeIsolated { $0.expire(now) } }

  private var currentDeadline: MonotonicTime? {
    if case .connecting(_, let deadline) = state { return deadline }
    return machine.deadline
  }

  private func service(_ readiness: Readiness) {
    if case .connecting = state {
      finishConnecting()
      return
    }
    if readiness.contains(.writable) { flushOutbox() }
    if !readiness.isDisjoint(with: [.readable, .hangUp]) { drain(readiness) }
  }

  private func drain(_ readiness: Readiness) {
    var total = 0
    do throws(SystemError) {
      while case .open = state {
        let count = try slab.receive(from: descriptor)
        counters.batches += count > 0 ? 1 : 0
        total += count
        for index in 0..<count {
          // Only the end of the channel has neither octets nor a stamp; an empty PDU has its stamp.
          guard let time = slab.time(index) else {
            if slab.datagram(index).isEmpty {
              finish(lost(pendingError()))
              return
            }
            counters.withoutKernelStamp += 1
            take(index, SystemClock.now())
            continue
          }
          take(index, time)
        }
        if count < slab.slots { break }
      }
    } catch { finish(lost(error)) }
    if total == 0, !readiness.isDisjoint(with: .hangUp), end == nil {
      finish(lost(pendingError()))
    }
    for wake in wakes { wake.signal() }
  }

  private func take(_ index: Int, _ time: ReceiveTime) {
    let pdu = slab.datagram(index)
    counters.received += 1
    tap?.log(.controllerToHost, handle, pdu, at: time)
    do throws(WireError) {
      let reaction = try machine.receive(pdu) { deliver($0, at: time) }
      if reaction != .none { react(reaction, pdu) }
    } catch {
      counters.malformed += 1
      counters.lastMalformed = error
    }
  }

  private func deliver(_ notification: borrowing HandleValueNotification, at time: ReceiveTime) {
    counters.notifications += 1
    var isClaimed = false
    for index in subscribers.indices where subscribers[index].handle == notification.handle {
      subscribers[index].sink(notification, time)
      isClaimed = true
    }
    if !isClaimed { counters.unclaimed += 1 }
  }

  private func react(_ reaction: ATTClientMachine.Reaction, _ pdu: Span<UInt8>) {
    switch reaction {
    case .none: break
    case .confirm: transmit([HandleValueIndication.confirmation])
    case .completed: complete(.success([UInt8](encoding: pdu.count) { $0.append(pdu) }))
    case .refused(let error): complete(.failure(.refused(error)))
    case .failed(let error): complete(.failure(.malformed(error)))
    case .serve:
      let answer = server.answer(pdu, mtu: machine.mtu)
      if !answer.isEmpty { transmit(answer) }
    case .close(let error):
      counters.malformed += 1
      counters.lastMalformed = error
      finish(.protocolViolation(error))
    }
  }

  private func expire(_ now: MonotonicTime) {
    if case .connecting(_, let deadline) = state, deadline <= now {
      finish(.closedLocally, connecting: .noAnswer(peer, seconds: connectSeconds))
    } else if let request = machine.expire(now: now) {
      complete(.failure(.timedOut(request)))
      finish(.transactionTimeout)
    }
  }

  // MARK: The socket

  private var connectSeconds = 0

  private func connect(timeout: Duration) async throws(HostError) {
    connectSeconds = Int(timeout.components.seconds)
    try register(for: .writable)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        if case .connecting(_, let deadline) = state, !Task.isCancelled {
          state = .connecting(continuation, deadline: deadline)
        } else {
          continuation.resume(returning: .failure(.gatt(.closed(.closedLocally))))
        }
      }
    } onCancel: {
      Task { await self.close() }
    }
    try result.get()
  }

  private func register(for readiness: Readiness) throws(HostError) {
    do throws(SystemError) {
      token = try loop.add(self, descriptor, for: readiness)
    } catch { throw HostError(error) }
  }

  private func finishConnecting() {
    guard case .connecting(let waiter, _) = state else { return }
    let error = pendingError()
    if error == nil, let token {
      state = .open
      handle = descriptor.connectionHandle ?? handle
      try? loop.update(token, descriptor, for: .readable)
      waiter?.resume(returning: .success(()))
    } else {
      finish(lost(error), connecting: error.map { HostError(connecting: peer, $0) })
    }
  }

  /// What stands against the socket, if anything.
  private func pendingError() -> SystemError? {
    do throws(SystemError) {
      let number = try descriptor.pendingError()
      return number == 0 ? nil : SystemError(call: "connect(L2CAP)", number: number)
    } catch { return error }
  }

  private func lost(_ error: SystemError?) -> BearerEnd {
    switch error?.condition {
    case .timedOut: .linkLost(.silence)
    case .reset: .linkLost(.closedByPeer)
    default: .linkLost(.unknown)
    }
  }

  private func transmit(_ pdu: [UInt8]) {
    guard case .open = state else { return }
    guard outbox.isEmpty else {
      outbox.append(pdu)
      return
    }
    write(pdu)
  }

  private func write(_ pdu: [UInt8]) {
    let time = SystemClock.now()
    do throws(SystemError) {
      _ = try descriptor.write(pdu.span)
      counters.sent += 1
      tap?.log(.hostToController, handle, pdu.span, at: time)
    } catch {
      if error.condition == .wouldBlock, let token {
        outbox.insert(pdu, at: 0)
        try? loop.update(token, descriptor, for: [.readable, .writable])
      } else {
        finish(lost(error))
      }
    }
  }

  private func flushOutbox() {
    let waiting = outbox
    outbox = []
    for index in waiting.indices {
      if outbox.isEmpty { write(waiting[index]) } else { outbox.append(waiting[index]) }
    }
    guard outbox.isEmpty, let token else { return }
    try? loop.update(token, descriptor, for: .readable)
    let waiters = outboxWaiters
    outboxWaiters = []
    for waiter in waiters { waiter.resume() }
  }

  /// - Parameter failure: for whoever waits for the connect, if not simply that it was closed.
  private func finish(_ end: BearerEnd, connecting failure: HostError? = nil) {
    if case .ended = state { return }
    let previous = state
    state = .ended(end)
    if let token { loop.remove(token, descriptor) }
    token = nil
    descriptor.shutDown()
    if case .connecting(let waiter, _) = previous {
      waiter?.resume(returning: .failure(failure ?? .gatt(.closed(end))))
    }
    failRequests(.closed(end))
    for waiter in outboxWaiters { waiter.resume() }
    for waiter in endWaiters { waiter.resume(returning: end) }
    outboxWaiters = []
    endWaiters = []
    for wake in wakes { wake.signal() }
  }
}
