public import BLELinux
public import BLEStack
public import BLEWire
import Synchronization

/// The ATT bearer to one device, over the kernel's L2CAP socket or a link of our own host.
///
/// The connection runs on an event loop. The loop's thread lends each value to the subscribers; the actor's
/// methods run on the same thread between two batches. Delivering a notification never awaits, locks or
/// allocates.
public actor Connection: ATTRequester {
  /// Called on the receive thread. Must not block, allocate or keep the view.
  public typealias Sink = @Sendable (borrowing HandleValueNotification, ReceiveTime) -> Void

  /// Maximum number of PDUs that wait for room in the bearer. Only a peer that sends requests without reading
  /// the responses exceeds the limit. The protocol allows a peer one outstanding request.
  private static let outboxLimit = 64
  /// Maximum number of link changes to keep.
  static let changeLimit = 1024
  /// Maximum number of remarks to keep.
  private static let remarkLimit = 64
  /// If the link ends within this time after a request for new link parameters, that request is suspected as
  /// the cause.
  private static let suspicion = Duration.seconds(2)

  private struct Request {
    let pdu: [UInt8]
    let need: Need
    /// A command to send right after the request. The command has no response.
    let command: [UInt8]?
    let answer: OneShot<Result<[UInt8], GATTError>>
  }

  private struct Subscriber {
    let id: Int
    let handle: AttributeHandle
    let sink: Sink
    /// Whether the subscriber has received a value.
    var isHeard = false
  }

  /// Whether the caller can continue without the response.
  public enum Need: Hashable, Sendable {
    case required
    /// The caller can continue if the request fails.
    case optional
  }

  /// Whether the current task's requests are required or optional. An MTU exchange is always optional.
  @TaskLocal package static var need = Need.required

  public nonisolated let peer: DeviceAddress
  /// The link's handle on its controller; 0 if the kernel does not report the handle.
  public nonisolated let handle: ConnectionHandle
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  let carrier: any ATTBearer
  private let tap: PacketTap?
  /// Whether the start of this link has been logged.
  private var isLogged = false
  // Private, so that the machine is used in place: an accessor that lends the machine allocates on each use.
  private var machine: ATTClientMachine
  private var server: LocalServer
  /// Responder to use instead of `server`, if set.
  private var responder: AttributeResponder?
  /// Reason why the bearer ended; `nil` while it is up.
  public private(set) var end: BearerEnd?
  private var current: Request?
  private var queue: [Request] = []
  /// Topics of requests that made the device end an earlier link. Such requests are not sent.
  private var avoided: Set<[UInt8]> = []
  /// The last request for new link parameters.
  private var asked: (part: LinkRequest.Part, at: MonotonicTime, isChanged: Bool)?
  /// Requests that made the device end links in an earlier run of the program. Such requests are not sent.
  package var recalled: [LinkSuspect] = []
  /// Whether the device has responded to any request on this link.
  private var hasResponded = false
  /// The last optional request that the device has responded to.
  private var answered: (request: [UInt8], at: MonotonicTime)?
  /// Suspected cause if the device ended this link. `isUnanswered` is `true` if the device had not answered
  /// the suspected request.
  package private(set) var suspect: (cause: LinkSuspect, isUnanswered: Bool)?
  /// Oddities of the device. Each oddity is recorded once.
  public private(set) var remarks: [LinkRemark] = []
  private let queuedWrites = Turns()
  package private(set) var outbox: [[UInt8]] = []
  /// Whether the PDUs of one system call are being delivered. PDUs sent during this time are queued.
  private var isDelivering = false
  private let senders = Waiters()
  /// Set to `end` when the bearer ends, for tasks that await the end.
  private let ending = OneShot<BearerEnd>()
  private var subscribers: [Subscriber] = []
  private var everSubscribed: Set<AttributeHandle> = []
  /// Tasks that await a subscriber's first value.
  private let hearers = Waiters()
  private var nextSubscriber = 0
  private var wakes: [WakeEvent] = []
  /// Undoes changes to a link that may stay up without this channel. Called by `close`.
  var restore: (@Sendable () async -> Void)?
  /// Sets the lasting timing of a link that started fast. Called when the fast start ends.
  var settle: (@Sendable (Connection) async -> Void)?
  /// Set when the fast start or the link has ended.
  var settled: OneShot<Void>?
  /// Timing of the link before any request.
  var former: LinkParameters?
  /// Raises the security of a link after the device refused a request as insufficiently secure.
  private var securityRaiser: (@Sendable (Connection, ATTErrorCode) async -> Bool)?
  var attributeCache = AttributeCache()
  public private(set) var hasAskedMTU = false
  public nonisolated let requests = RequestCounter()
  private var counters = BearerStatistics()
  /// Changes of the link, in order; empty if the kernel does not report them.
  public private(set) var changes: [LinkChange] = []

  init(
    _ carrier: any ATTBearer, peer: DeviceAddress, handle: ConnectionHandle, on loop: EventLoop,
    tap: PacketTap?
  ) {
    self.carrier = carrier
    self.peer = peer
    self.handle = handle
    self.loop = loop
    self.tap = tap
    machine = ATTClientMachine(mayBeOlder: carrier.mayBeOlder)
    server = LocalServer(receiveMTU: machine.receiveMTU)
  }

  /// Starts to receive PDUs from the bearer.
  func attach() throws(HostError) {
    let client = BearerClient(
      received: { self.received($0, at: $1, $2) }, batchBegan: { self.beginDelivery() },
      batchDelivered: { self.endDelivery() }, batchEnded: { self.signalWakes() },
      writable: { self.flushOutbox() }, changed: { self.note($0) },
      ended: { self.finish($0) }, deadline: { self.machine.deadline }, expired: { self.expire($0) })
    do throws(SystemError) { try carrier.attach(client) } catch { throw HostError(error) }
  }

  // MARK: State

  public var mtu: Int { machine.mtu }

  func note(_ change: LinkChange) {
    // Keep the first and the latest changes, so that a peer cannot exhaust memory.
    if changes.count == Self.changeLimit { changes.remove(at: 1) }
    changes.append(change)
    guard let asked, change.value.isAbout(asked.part) else { return }
    if case .refused = change.value { self.asked = nil } else { self.asked?.isChanged = true }
  }

  package func note(_ remark: LinkRemark) {
    if !remarks.contains(remark), remarks.count < Self.remarkLimit { remarks.append(remark) }
  }

  /// Records that the controller is about to request new link parameters from the device.
  func noteAsking(for part: LinkRequest.Part) { asked = (part, loop.clock.monotonic(), false) }

  /// Refuses requests like these locally instead of sending them, as a device without the feature would.
  /// Applies to optional requests, and to requests that the connection can do without.
  package func avoid(_ requests: Set<[UInt8]>) {
    avoided.formUnion(requests.map { LinkSuspect.topic(of: $0) })
  }

  /// Permits subscription requests again, because no values have arrived without a subscription.
  ///
  /// - Returns: Whether any subscription requests had been avoided.
  func allowSubscriptions() -> Bool {
    let before = avoided.count
    avoided = avoided.filter { !isSubscription($0) }
    return avoided.count < before
  }

  var avoidsSubscriptions: Bool { avoided.contains(where: isSubscription) }

  /// Counts of received, sent and lost PDUs so far.
  public var statistics: BearerStatistics {
    var result = counters
    result.kernelQueueDrops = carrier.kernelQueueDrops
    result.memoryShortages = carrier.memoryShortages
    result.requests = requests.value
    return result
  }

  /// Sets the time limit for a response. The bearer ends at the limit, which is at most 30 s.
  public func limitAnswers(to patience: Duration) { machine.patience = patience }

  /// Waits until the bearer has ended.
  public func ended() async -> BearerEnd { await ending.value() }

  /// Undoes temporary changes to the link and closes the channel. The kernel then drops the link after its
  /// own disconnect timeout.
  public func close() async {
    if end == nil, let restore {
      self.restore = nil
      await restore()
    }
    finish(.closedLocally)
  }

  /// Closes the channel for a cause that the caller has detected. Does not inform the device.
  package func close(for cause: BearerEnd) { finish(cause) }

  /// Whether a packet log responds instead of a device. Pauses are then those of the log.
  package nonisolated var isReplayed: Bool { (carrier as? HostCarrier)?.mayBeOlder == true }

  // MARK: Requests

  /// Sets the handler for requests that the device refuses for insufficient security.
  ///
  /// - Parameter body: raises the link's security and returns whether to repeat the request.
  func onRefusal(_ body: @escaping @Sendable (Connection, ATTErrorCode) async -> Bool) {
    securityRaiser = body
  }

  /// Sends a request and returns its response. Requests are sent in the order of the calls, one at a time.
  ///
  /// If the calling task is cancelled while the request is queued, the request is removed; once sent, the
  /// request is completed. A task that was cancelled before the call can still send requests, to clean up.
  ///
  /// If the device refuses for insufficient security and the link's security can be raised, the request is
  /// repeated once.
  public func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8] {
    try await transact(request, followedBy: nil)
  }

  /// Sends a request, and a command right after it without waiting for the response. The device processes
  /// both in this order. The command is sent even if the device refuses the request.
  func transact(_ request: [UInt8], followedBy command: [UInt8]?) async throws(GATTError) -> [UInt8] {
    do throws(GATTError) { return try await exchange(request, command) } catch {
      guard case .refused(let refusal) = error, try await isWorthRepeating(after: refusal.code) else {
        throw error
      }
    }
    return try await exchange(request, command)
  }

  private func isWorthRepeating(after code: ATTErrorCode) async throws(GATTError) -> Bool {
    if code == .databaseOutOfSync { return try await isInStep() }
    guard code.wantsSecurity, let securityRaiser else { return false }
    return await securityRaiser(self, code)
  }

  private func exchange(_ request: [UInt8], _ command: [UInt8]?) async throws(GATTError) -> [UInt8] {
    let need = hasSubstitute(request) ? .optional : Self.need
    if need == .optional, !avoided.isEmpty, avoided.contains(LinkSuspect.topic(of: request)) {
      let opcode = ATTOpcode(rawValue: request[0])
      throw .refused(ErrorResponse(request: opcode, handle: .none, code: .requestNotSupported))
    }
    let answer = OneShot<Result<[UInt8], GATTError>>()
    queue.append(Request(pdu: request, need: need, command: command, answer: answer))
    pump()
    let wasCancelled = Task.isCancelled
    let result = await withTaskCancellationHandler {
      await answer.value()
    } onCancel: {
      if !wasCancelled { loop.later(self) { $0.takeBack(answer) } }
    }
    return try result.get()
  }

  private func takeBack(_ answer: OneShot<Result<[UInt8], GATTError>>) {
    guard let index = queue.firstIndex(where: { $0.answer === answer }) else { return }
    queue.remove(at: index).answer.set(.failure(.cancelled))
  }

  public func send(_ command: [UInt8]) async throws(GATTError) {
    await senders.wait { outbox.isEmpty || end != nil }
    if let end { throw .closed(end) }
    transmit(command)
  }

  /// Waits until the bearer has accepted all queued PDUs.
  package func room() async throws(GATTError) {
    do { try await senders.waitUnlessCancelled { outbox.isEmpty || end != nil } } catch { throw .cancelled }
    if let end { throw .closed(end) }
  }

  /// Passes all further requests of the peer to `responder`.
  package func serve(_ responder: AttributeResponder?) {
    machine.servesIndications = true
    self.responder = responder
  }

  /// Number of requests queued behind the current request.
  package var waitingRequests: Int { queue.count }

  private func pump() {
    if let end {
      failRequests(.closed(end))
      return
    }
    guard current == nil, !queue.isEmpty else { return }
    let request = queue.removeFirst()
    current = request
    machine.begin(request.pdu.span, now: loop.clock.monotonic())
    if request.pdu.first == ATTOpcode.exchangeMTURequest.rawValue { hasAskedMTU = true }
    requests.add()
    transmit(request.pdu)
    if let command = request.command { transmit(command) }
  }

  private func complete(_ result: Result<[UInt8], GATTError>) {
    let request = current
    current = nil
    hasResponded = true
    if let request, request.need == .optional { answered = (request.pdu, loop.clock.monotonic()) }
    request?.answer.set(result)
    pump()
  }

  private func failRequests(_ error: GATTError) {
    let waiting = (current.map { [$0] } ?? []) + queue
    current = nil
    queue = []
    for request in waiting { request.answer.set(.failure(error)) }
  }

  // MARK: Subscribers

  /// Passes all further values of one attribute to `sink`.
  func addSubscriber(_ handle: AttributeHandle, _ sink: @escaping Sink) -> Int {
    nextSubscriber += 1
    everSubscribed.insert(handle)
    subscribers.append(Subscriber(id: nextSubscriber, handle: handle, sink: sink))
    return nextSubscriber
  }

  /// Waits for a subscriber's first value.
  ///
  /// - Returns: Whether the value arrived in time.
  func hasHeard(_ id: Int, within patience: Duration) async -> Bool {
    func isHeard() -> Bool { subscribers.contains { $0.id == id && $0.isHeard } }
    let limit = loop.clock.monotonic().advanced(by: patience)
    let timer = loop.after(patience) { [hearers] in hearers.wakeAll() }
    defer { timer.cancel() }
    await hearers.wait { isHeard() || end != nil || limit <= loop.clock.monotonic() }
    return isHeard()
  }

  /// Removes a subscriber.
  ///
  /// - Returns: Whether the attribute has other subscribers.
  func removeSubscriber(_ id: Int) -> Bool {
    guard let index = subscribers.firstIndex(where: { $0.id == id }) else { return false }
    let handle = subscribers.remove(at: index).handle
    return subscribers.contains { $0.handle == handle }
  }

  func removeSubscribers(of handle: AttributeHandle) {
    subscribers.removeAll { $0.handle == handle }
  }

  func removeSubscribers(in range: HandleRange, but kept: AttributeHandle?) {
    subscribers.removeAll { range.contains($0.handle) && $0.handle != kept }
  }

  /// Signals `wake` after each batch of PDUs, and at the end.
  public func addWake(_ wake: WakeEvent) { wakes.append(wake) }

  // MARK: From the carrier, on the receive thread

  private func beginDelivery() {
    counters.batches += 1
    isDelivering = true
  }

  /// Sends the PDUs that were queued during a batch, such as the next request after a response. Sending after
  /// the batch ensures that no notification of the batch waits for a system call.
  private func endDelivery() {
    isDelivering = false
    if !outbox.isEmpty { flushOutbox() }
  }

  private func received(_ pdu: Span<UInt8>, at time: ReceiveTime, _ stamp: PacketPort.Stamp) {
    // A failed send may have ended the bearer during the batch. PDUs that arrived before the end still count.
    switch end {
    case nil, .linkLost: break
    case .closedLocally, .transactionTimeout, .answersNotTaken, .encryptionLost, .silent: return
    }
    counters.received += 1
    if stamp == .arrival { counters.withoutKernelStamp += 1 }
    log(.controllerToHost, pdu, at: time)
    do throws(WireError) {
      let reaction = try machine.receive(pdu, now: loop.clock.monotonic()) { deliver($0, at: time) }
      // A pattern match, because `!=` would call a function of another module.
      if case .none = reaction { return }
      react(reaction, pdu)
    } catch {
      counters.malformed += 1
      counters.lastMalformed = error
    }
  }

  /// Logs the start of the link before its first PDU. By then the link's timing is known if the kernel
  /// reports it at all.
  private func log(_ direction: HCIDirection, _ pdu: Span<UInt8>, at time: ReceiveTime) {
    guard let tap else { return }
    if !isLogged {
      isLogged = true
      let start = PacketTap.start(of: handle, peer, responder == nil ? .central : .peripheral, link.timing)
      tap.log(event: start, handle, at: time)
    }
    tap.log(direction, handle, pdu, at: time)
  }

  private func logEnd() {
    guard isLogged, let tap, let reason = disconnectReason else { return }
    tap.log(event: PacketTap.end(of: handle, reason), handle, at: loop.clock.now())
  }

  private func signalWakes() { for index in wakes.indices { wakes[index].signal() } }

  private func flushOutbox() {
    let waiting = outbox
    outbox = []
    for index in waiting.indices {
      guard end == nil else { return }
      if outbox.isEmpty { write(waiting[index]) } else { outbox.append(waiting[index]) }
    }
    if outbox.isEmpty { senders.wakeAll() }
  }

  private func deliver(_ notification: borrowing HandleValueNotification, at time: ReceiveTime) {
    counters.notifications += 1
    var isClaimed = false
    for index in subscribers.indices where subscribers[index].handle == notification.handle {
      subscribers[index].sink(notification, time)
      isClaimed = true
      if !subscribers[index].isHeard {
        subscribers[index].isHeard = true
        hearers.wakeAll()
      }
    }
    guard !isClaimed else { return }
    counters.unclaimed += 1
    if !everSubscribed.contains(notification.handle) { counters.unsubscribed += 1 }
  }

  private func react(_ reaction: ATTClientMachine.Reaction, _ pdu: Span<UInt8>) {
    // Copied here, because a subscriber may read the statistics while the machine lends a value.
    counters.strayResponses = machine.strayResponses
    switch reaction {
    // `release` returns a held response later.
    case .none, .stray, .held: break
    case .confirm: transmit([HandleValueIndication.confirmation])
    case .completed: complete(.success([UInt8](encoding: pdu.count) { $0.append(pdu) }))
    case .refused(let error): complete(.failure(.refused(error)))
    case .failed(let error): complete(.failure(.malformed(error)))
    case .serve:
      let answer = responder?.answer(pdu, machine.mtu) ?? server.answer(pdu, mtu: machine.mtu)
      if !answer.isEmpty { transmit(answer) }
    }
  }

  func expire(_ now: MonotonicTime) {
    if let (reaction, pdu) = machine.release(now: now) { react(reaction, pdu.span) }
    guard let request = machine.expire(now: now) else { return }
    // End the bearer before the caller resumes, so that nothing more is sent on the bearer, not even the next
    // queued request.
    let timedOut = current
    current = nil
    finish(.transactionTimeout)
    timedOut?.answer.set(.failure(.timedOut(request, seconds: Int(machine.patience.components.seconds))))
  }

  // MARK: To the carrier

  package func transmit(_ pdu: [UInt8]) {
    guard end == nil else { return }
    guard isDelivering || !outbox.isEmpty else {
      write(pdu)
      return
    }
    guard outbox.count < Self.outboxLimit else { return finish(.answersNotTaken(Self.outboxLimit)) }
    outbox.append(pdu)
  }

  private func write(_ pdu: [UInt8]) {
    let time = loop.clock.now()
    do throws(SystemError) {
      try carrier.send(pdu.span)
      counters.sent += 1
      log(.hostToController, pdu.span, at: time)
    } catch let error where error.condition == .wouldBlock {
      outbox.insert(pdu, at: 0)
    } catch {
      finish(.linkLost(LinkLoss(error)))
    }
  }

  private func suspected(of end: BearerEnd) -> (cause: LinkSuspect, isUnanswered: Bool)? {
    guard case .linkLost(let loss) = end, loss != .controllerReset else { return nil }
    // A device that is out of range does not respond at all. The loss of such a link is no evidence against a
    // request.
    guard loss == .closedByPeer || hasResponded else { return nil }
    let now = loop.clock.monotonic()
    func isRecent(_ time: MonotonicTime) -> Bool { time.duration(to: now) < Self.suspicion }
    let change = asked.flatMap { isRecent($0.at) ? $0 : nil }
    if let change, !change.isChanged { return (.parameters(change.part), true) }
    if let current, current.need == .optional { return (.request(current.pdu), true) }
    // Some devices send the response first and then end the link.
    let request = answered.flatMap { isRecent($0.at) ? $0 : nil }
    if let change, request.map({ $0.at <= change.at }) ?? true { return (.parameters(change.part), false) }
    return request.map { (.request($0.request), false) }
  }

  /// Returns whether the connection can do without the response: the MTU stays as it is, values may arrive
  /// without a subscription, and other requests can discover the services and descriptors.
  private func hasSubstitute(_ request: [UInt8]) -> Bool {
    switch ATTOpcode(rawValue: request.first ?? 0) {
    case .exchangeMTURequest, .findByTypeValueRequest, .findInformationRequest: true
    default: isSubscription(request)
    }
  }

  private func isSubscription(_ pdu: [UInt8]) -> Bool { LinkSuspect.request(pdu).isSubscription }

  private func finish(_ end: BearerEnd) {
    guard self.end == nil else { return }
    self.end = end
    suspect = suspected(of: end)
    hearers.wakeAll()
    logEnd()
    carrier.close()
    failRequests(.closed(end))
    senders.wakeAll()
    ending.set(end)
    attributeCache.watchers.wakeAll()
    signalWakes()
  }
}

/// Number of ATT requests sent on a connection. Also readable on the receive thread.
public final class RequestCounter: Sendable {
  private let count = Atomic<Int>(0)

  public var value: Int { count.load(ordering: .relaxed) }

  func add() { count.add(1, ordering: .relaxed) }
}

// MARK: - Timing

/// Temporary changes that an adapter makes to a link's timing.
extension Connection {
  /// Records the timing that the link had before any request.
  ///
  /// - Parameter current: timing in force; `nil` if unknown.
  /// - Returns: The timing recorded by the first call.
  func firstTiming(_ current: LinkParameters?) -> LinkParameters? {
    former = former ?? current
    return former
  }

  /// Sets a closure that `close` runs first.
  ///
  /// - Parameter restore: undoes changes to a link that may stay up without this channel.
  func onClose(_ restore: @escaping @Sendable () async -> Void) { self.restore = restore }

  /// Sets the closure that ends the fast start.
  ///
  /// - Parameter settle: sets the lasting timing of a link with a fast start.
  func onSettled(_ settle: @escaping @Sendable (Connection) async -> Void) {
    let settled = OneShot<Void>()
    (self.settle, self.settled) = (settle, settled)
    loop.task {
      _ = await self.ended()
      settled.set(())
    }
  }

  /// Whether the link still has the timing of a fast start. The device may have requested other timing.
  var isFast: Bool { link.timing.map { $0.interval <= LinkRequest.fastIntervals.upperBound } ?? true }

  /// Ends the fast start of a link that started fast.
  public func endFastStart() async {
    guard end == nil, let settle = settle.take() else { return }
    await settle(self)
    settled?.set(())
  }

  /// Waits until the fast start or the link has ended; returns at once for a link without a fast start.
  package func fastStartEnded() async { await settled?.value() }
}

/// State of the bearer.
extension Connection {
  /// The controller's reason for the end of the link, if known. Core 5.4, Vol 1, Part F.
  public var disconnectReason: HCIStatus? { carrier.disconnectReason }

  /// Parameters in force on the link; `nil` for unknown parameters.
  public var link: LinkState { LinkState(after: changes) }

  /// Size of the kernel's receive queue in bytes of kernel memory.
  public var receiveBufferByteCount: Int { carrier.receiveBufferByteCount }

  /// Security level of the kernel's link; `nil` if the kernel does not report one.
  package var securityLevel: LinkSecurityLevel? { carrier.securityLevel() }

  /// Requests that the kernel encrypts the link, with a key that it has or by pairing. Until that is done or
  /// the peer sends a PDU, nothing can be sent.
  func raiseSecurity(to level: LinkSecurityLevel) async -> RaisingOutcome {
    guard end == nil else { return .ended }
    let outcome = OneShot<RaisingOutcome>()
    carrier.raiseSecurity(to: level) { outcome.set($0) }
    return await outcome.value()
  }

  func abandonRaising() { carrier.abandonRaising() }

  public func beginQueuedWrite() async { await queuedWrites.take() }
  public func endQueuedWrite() { queuedWrites.end() }
}

// MARK: - Requests of the peer

/// Answers the requests of a connection's peer instead of the built-in server, which has only two services.
package final class AttributeResponder: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// Processes a request, command or confirmation with the current MTU. Returns the response, or an empty
  /// array if no response is due.
  package typealias Answer = (Span<UInt8>, _ mtu: Int) -> [UInt8]

  let answer: Answer
  package init(_ answer: @escaping Answer) { self.answer = answer }
}
