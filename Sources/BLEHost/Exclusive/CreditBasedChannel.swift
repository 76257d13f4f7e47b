public import BLEStack
import BLELinux
public import BLEWire

/// Why a channel could not be opened or used.
public enum ChannelError: Error, Hashable, Sendable {
  case refused(ChannelRefusal)
  case ended(ChannelEnd)
  /// The peer takes SDUs of no more octets than this.
  case tooLong(mtu: Int)
  /// The task was cancelled while it waited.
  case cancelled
  /// Such channels need a host of our own: not in this mode.
  case unsupported(mode: String)
}

/// An LE credit-based channel to a service of the peer: whole SDUs both ways, with flow control.
///
/// Read `for await sdu in channel`; what waits to be read is bounded by the credits that the peer was given, and a peer
/// that is not read is not given more. The sequence ends with the channel; `end` says why. The channel ends when it is
/// closed, let go of, or with its link. Core 5.4, Vol 3, Part A, 3.4 and 10.1.
public final class CreditBasedChannel: AsyncSequence, Sendable {
  /// What the peer takes.
  public let peerParameters: CreditBasedParameters
  private let adapter: HostAdapter
  private let id: ChannelID

  fileprivate init(_ adapter: HostAdapter, _ id: ChannelID, _ parameters: CreditBasedParameters) {
    self.adapter = adapter
    self.id = id
    peerParameters = parameters
  }

  deinit { adapter.loop.later(adapter) { [id] in $0.forget(id) } }

  /// Queues an SDU; waits while too many wait for the peer's credits.
  ///
  /// - Throws: `tooLong`, `cancelled`, or `ended`.
  public func send(_ sdu: [UInt8]) async throws(ChannelError) { try await adapter.send(sdu, on: id) }

  /// Waits until it has ended.
  ///
  /// - Returns: `nil` where the task was cancelled before.
  public func ended() async -> ChannelEnd? { await adapter.ended(id) }

  /// Ends the channel, and waits for the peer's word for it, 5 s at most.
  public func close() async { await adapter.close(id) }

  /// Why it ended, once it has.
  public var end: ChannelEnd? { get async { await adapter.channels[id]?.end } }

  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let channel: CreditBasedChannel
    public func next() async -> [UInt8]? { await channel.adapter.nextSDU(on: channel.id) }
  }

  public func makeAsyncIterator() -> Iterator { Iterator(channel: self) }
}

extension CreditBasedParameters {
  /// A PDU that fills one data packet of 251 octets, and ten of them at once.
  public static let `default` = CreditBasedParameters(mtu: 2048, mps: 247, credits: 10)
}

extension Adapter {
  /// Opens a channel beside a connection's ATT channel.
  ///
  /// - Parameters:
  ///   - spsm: the service's number.
  ///   - connection: one of this adapter's.
  ///   - parameters: what we take; MPS at most `HCIHost.channelMPSLimit`, at least one credit.
  /// - Throws: `refused` with the peer's answer, or `unsupported` where the kernel has the link.
  public func openChannel(
    to spsm: UInt16, on connection: Connection, taking parameters: CreditBasedParameters = .default
  ) async throws(ChannelError) -> CreditBasedChannel {
    guard let host = exclusive else { throw .unsupported(mode: mode) }
    return try await host.open(spsm, on: connection, parameters)
  }
}

// MARK: On the adapter

/// The channels of an adapter, and who waits for them. On the loop's thread only.
struct ChannelTable {
  struct State {
    fileprivate(set) var end: ChannelEnd?
    fileprivate var received: [[UInt8]] = []
    fileprivate let opened = OneShot<Result<CreditBasedParameters, ChannelError>>()
    /// Readers, writers and closers: each looks again when something has happened.
    fileprivate let waiters = Waiters()
  }

  private var states: [ChannelID: State] = [:]

  subscript(id: ChannelID) -> State? {
    get { states[id] }
    set { states[id] = newValue }
  }

  /// Takes what happened to a channel.
  mutating func take(_ event: ChannelEvent, of id: ChannelID) {
    guard let state = states[id] else { return }
    switch event {
    case .opened(let parameters): open(id, .success(parameters))
    case .refused(let refusal): open(id, .failure(.refused(refusal)))
    case .received(let sdu): states[id]?.received.append(sdu)
    case .writable: break
    case .closed(let end):
      states[id]?.end = end
      if state.opened.current == nil { open(id, .failure(.ended(end))) }
    }
    state.waiters.wakeAll()
  }

  fileprivate mutating func open(_ id: ChannelID, _ result: Result<CreditBasedParameters, ChannelError>) {
    let opened = states[id]?.opened
    if case .failure = result { states[id] = nil }
    opened?.set(result)
  }
}

extension HostAdapter {
  fileprivate func open(
    _ spsm: UInt16, on connection: Connection, _ parameters: CreditBasedParameters
  ) async throws(ChannelError) -> CreditBasedChannel {
    guard await connection.end == nil else { throw .refused(.linkLost) }
    let state = ChannelTable.State()
    let asked = withHost { host in
      let id = host.openChannel(
        to: spsm, parameters, on: connection.handle, now: loop.clock.monotonic())
      // Before anything can happen to it.
      if let id { channels[id] = state }
      return id
    }
    guard let id = asked else { throw .refused(.linkLost) }
    let result = await withTaskCancellationHandler {
      await state.opened.value()
    } onCancel: {
      loop.later(self) { $0.cancelOpening(id) }
    }
    return CreditBasedChannel(self, id, try result.get())
  }

  fileprivate func send(_ sdu: [UInt8], on id: ChannelID) async throws(ChannelError) {
    var outcome: Result<Void, ChannelError>?
    let isOver = await wait(for: id) { state in
      outcome = trySending(sdu, on: id, state)
      return outcome != nil
    }
    guard isOver else { throw .cancelled }
    try (outcome ?? .failure(.ended(.closedLocally))).get()
  }

  /// - Returns: `nil` where the channel is full.
  private func trySending(
    _ sdu: [UInt8], on id: ChannelID, _ state: ChannelTable.State
  ) -> Result<Void, ChannelError>? {
    if let end = state.end { return .failure(.ended(end)) }
    switch withHost({ $0.send(sdu.span, on: id) }) {
    case .queued: return .success(())
    case .tooLong(let mtu): return .failure(.tooLong(mtu: mtu))
    // `nil`: it is about to end, and why is told then.
    case .full, nil: return nil
    }
  }

  fileprivate func nextSDU(on id: ChannelID) async -> [UInt8]? {
    guard await wait(for: id, until: { !$0.received.isEmpty || $0.end != nil }),
      channels[id]?.received.isEmpty == false
    else { return nil }
    let sdu = channels[id]?.received.removeFirst()
    withHost { $0.taken(on: id) }
    return sdu
  }

  fileprivate func close(_ id: ChannelID) async {
    beginClose(id)
    _ = await ended(id)
  }

  fileprivate func ended(_ id: ChannelID) async -> ChannelEnd? {
    _ = await wait(for: id) { $0.end != nil }
    return channels[id]?.end
  }

  fileprivate func forget(_ id: ChannelID) {
    beginClose(id)
    let waiters = channels[id]?.waiters
    channels[id] = nil
    waiters?.wakeAll()
  }

  private func cancelOpening(_ id: ChannelID) {
    guard let state = channels[id], state.opened.current == nil else { return }
    beginClose(id)
    channels.open(id, .failure(.cancelled))
  }

  private func beginClose(_ id: ChannelID) {
    withHost { $0.close(id, now: loop.clock.monotonic()) }
  }

  /// Waits until a channel is so, or is there no more.
  ///
  /// - Returns: `false` where the task is cancelled before.
  private func wait(for id: ChannelID, until isSo: (ChannelTable.State) -> Bool) async -> Bool {
    guard !Task.isCancelled else { return false }
    guard let waiters = channels[id]?.waiters else { return true }
    do throws(CancellationError) {
      try await waiters.waitUnlessCancelled { channels[id].map(isSo) ?? true }
      return true
    } catch { return false }
  }
}

extension ChannelError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .refused(.refused(let result)):
      "the device refused the channel: \(result.name) (0x\(String(result.rawValue, radix: 16)))"
    case .refused(.commandRejected): "the device knows no credit-based channels"
    case .refused(.invalidResponse): "the device's answer to the channel request is not allowed"
    case .refused(.timedOut): "the device did not answer the channel request within 30 s"
    case .refused(.linkLost), .ended(.linkLost): "the link ended"
    case .ended(.closedLocally): "the channel was closed"
    case .ended(.closedByPeer): "the device closed the channel"
    case .ended(.fault(let fault)): "the device broke the channel's rules: \(fault)"
    case .tooLong(let mtu): "the device takes no more than \(mtu) octets at once"
    case .cancelled: "cancelled"
    case .unsupported(let mode): "there are no credit-based channels in \(mode) mode; use --mode exclusive"
    }
  }
}
