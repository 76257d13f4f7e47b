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

  deinit { Task { [adapter, id] in await adapter.forget(id) } }

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
    guard let host = self as? HostAdapter else { throw .unsupported(mode: mode) }
    return try await host.open(spsm, on: connection, parameters)
  }
}

// MARK: On the adapter

/// The channels of an adapter, and who waits for them. On the loop's thread only.
struct ChannelTable {
  typealias Opener = CheckedContinuation<Result<CreditBasedParameters, ChannelError>, Never>

  struct State {
    fileprivate(set) var end: ChannelEnd?
    fileprivate var received: [[UInt8]] = []
    fileprivate var opener: Opener?
    /// Readers, writers and closers: each looks again when something has happened.
    fileprivate var waiters: [CheckedContinuation<Void, Never>] = []
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
      if state.opener != nil { open(id, .failure(.ended(end))) }
    }
    wake(id)
  }

  fileprivate mutating func wake(_ id: ChannelID) {
    let waiters = states[id]?.waiters ?? []
    states[id]?.waiters = []
    for waiter in waiters { waiter.resume() }
  }

  fileprivate mutating func open(_ id: ChannelID, _ result: Result<CreditBasedParameters, ChannelError>) {
    let opener = states[id]?.opener
    states[id]?.opener = nil
    if case .failure = result { states[id] = nil }
    opener?.resume(returning: result)
  }
}

extension HostAdapter {
  fileprivate func open(
    _ spsm: UInt16, on connection: Connection, _ parameters: CreditBasedParameters
  ) async throws(ChannelError) -> CreditBasedChannel {
    guard await connection.end == nil else { throw .refused(.linkLost) }
    let asked = withHost { host in
      let id = host.openChannel(
        to: spsm, parameters, on: connection.handle, now: loop.clock.monotonic())
      // Before anything can happen to it.
      if let id { channels[id] = ChannelTable.State() }
      return id
    }
    guard let id = asked else { throw .refused(.linkLost) }
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { (opener: ChannelTable.Opener) in
        guard channels[id] != nil else {
          opener.resume(returning: .failure(.refused(.linkLost)))
          return
        }
        channels[id]?.opener = opener
        if Task.isCancelled { cancelOpening(id) }
      }
    } onCancel: {
      Task { await self.cancelOpening(id) }
    }
    return CreditBasedChannel(self, id, try result.get())
  }

  fileprivate func send(_ sdu: [UInt8], on id: ChannelID) async throws(ChannelError) {
    while !Task.isCancelled {
      guard let state = channels[id] else { throw .ended(.closedLocally) }
      if let end = state.end { throw .ended(end) }
      let submission = withHost { $0.send(sdu.span, on: id) }
      switch submission {
      case .queued: return
      case .tooLong(let mtu): throw .tooLong(mtu: mtu)
      // `nil`: it is about to end, and why is told then.
      case .full, nil: await wait(for: id)
      }
    }
    throw .cancelled
  }

  fileprivate func nextSDU(on id: ChannelID) async -> [UInt8]? {
    while !Task.isCancelled, let state = channels[id] {
      if !state.received.isEmpty {
        let sdu = channels[id]?.received.removeFirst()
        withHost { $0.taken(on: id) }
        return sdu
      }
      if state.end != nil { return nil }
      await wait(for: id)
    }
    return nil
  }

  fileprivate func close(_ id: ChannelID) async {
    beginClose(id)
    _ = await ended(id)
  }

  fileprivate func ended(_ id: ChannelID) async -> ChannelEnd? {
    while !Task.isCancelled, let state = channels[id], state.end == nil { await wait(for: id) }
    return channels[id]?.end
  }

  fileprivate func forget(_ id: ChannelID) {
    beginClose(id)
    channels[id] = nil
  }

  private func cancelOpening(_ id: ChannelID) {
    guard channels[id]?.opener != nil else { return }
    beginClose(id)
    channels.open(id, .failure(.cancelled))
  }

  private func beginClose(_ id: ChannelID) {
    withHost { $0.close(id, now: loop.clock.monotonic()) }
  }

  /// Until something has happened to a channel, or the task is cancelled.
  private func wait(for id: ChannelID) async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { waiter in
        guard channels[id] != nil, !Task.isCancelled else {
          waiter.resume()
          return
        }
        channels[id]?.waiters.append(waiter)
      }
    } onCancel: {
      Task { await self.wake(id) }
    }
  }

  private func wake(_ id: ChannelID) { channels.wake(id) }
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
