import BLECore
import BLEWire

/// The LE credit-based channels of one link, and their signalling: client only, I/O-free.
///
/// Core 5.4, Vol 3, Part A, 4.6, 4.7 and 4.22–4.24.
struct CreditBasedChannels {
  /// RTX, which the specification lets an implementation choose between 1 s and 60 s; the link is reliable, so that
  /// nothing is sent again. Core 5.4, Vol 3, Part A, 6.2.1.
  static let connectTimeout = Duration.seconds(30)
  /// RTX of a Disconnection Request: the channel is over all the same.
  static let disconnectTimeout = Duration.seconds(5)

  private enum State {
    case connecting(identifier: UInt8, deadline: MonotonicTime)
    case open
    case closing(identifier: UInt8, deadline: MonotonicTime, ChannelEnd)
  }

  private final class Channel {
    let id: ChannelID
    let local: CreditBasedParameters
    var state: State
    var remoteCID: UInt16 = 0
    var machine: CreditBasedChannelMachine
    /// An SDU was refused for want of room.
    var isBlocked = false
    /// Closed before the peer answered: if it agrees, it is told.
    var isAbandoned = false

    init(_ id: ChannelID, _ local: CreditBasedParameters, _ state: State) {
      self.id = id
      self.local = local
      self.state = state
      machine = CreditBasedChannelMachine(local: local, remote: local)
    }
  }

  private var channels: [UInt16: Channel] = [:]
  private var lastIdentifier: UInt8 = 0
  private var lastCID: UInt16 = 0x007F
  /// Which channel sends next.
  private var turn: UInt16 = 0x0040
  /// Signalling commands that wait to be sent, and what happened, both since they were last taken.
  private var signals: [[UInt8]] = []
  private var events: [(ChannelID, ChannelEvent)] = []

  var isEmpty: Bool { channels.isEmpty && signals.isEmpty }
  var hasEvents: Bool { !events.isEmpty }

  // MARK: For the owner

  /// Asks the peer for a channel.
  ///
  /// - Returns: `nil` where all 64 numbers are taken.
  mutating func open(
    _ spsm: UInt16, _ local: CreditBasedParameters, on handle: ConnectionHandle, number: UInt64,
    now: MonotonicTime
  ) -> ChannelID? {
    guard let cid = freeCID() else { return nil }
    let id = ChannelID(handle: handle, localCID: cid, number: number)
    let identifier = nextIdentifier()
    let deadline = now.advanced(by: Self.connectTimeout)
    channels[cid] = Channel(id, local, .connecting(identifier: identifier, deadline: deadline))
    let request = CreditBasedConnectionRequest(spsm: spsm, sourceCID: cid, parameters: local)
    signal(L2CAPSignal.creditBasedConnectionRequest, identifier, 10) { request.encode(into: &$0) }
    return id
  }

  /// - Returns: `nil` for a channel that is not open.
  mutating func submit(_ sdu: Span<UInt8>, to id: ChannelID) -> CreditBasedChannelMachine.Submission? {
    guard let channel = openChannel(id) else { return nil }
    let submission = channel.machine.submit(sdu)
    if submission == .full { channel.isBlocked = true }
    return submission
  }

  mutating func taken(of id: ChannelID) { openChannel(id)?.machine.taken() }

  mutating func close(_ id: ChannelID, now: MonotonicTime) {
    guard let channel = channels[id.localCID], channel.id == id else { return }
    switch channel.state {
    case .connecting: channel.isAbandoned = true
    case .open: disconnect(channel, .closedLocally, now)
    case .closing: break
    }
  }

  /// The link is gone.
  mutating func lose() -> [(ChannelID, ChannelEvent)] {
    for channel in channels.values {
      switch channel.state {
      case .connecting: refuse(channel, .linkLost)
      case .open: finish(channel, .linkLost)
      case .closing(_, _, let end): finish(channel, end)
      }
    }
    channels = [:]
    signals = []
    return takeEvents()
  }

  mutating func takeEvents() -> [(ChannelID, ChannelEvent)] {
    defer { events = [] }
    return events
  }

  // MARK: Time

  var deadline: MonotonicTime? {
    channels.values.lazy.compactMap { channel in
      switch channel.state {
      case .connecting(_, let deadline), .closing(_, let deadline, _): deadline
      case .open: nil
      }
    }.min()
  }

  mutating func expire(now: MonotonicTime) {
    for channel in channels.values {
      switch channel.state {
      case .connecting(_, let deadline) where deadline <= now: refuse(channel, .timedOut)
      case .closing(_, let deadline, let end) where deadline <= now: finish(channel, end)
      default: break
      }
    }
  }

  // MARK: Down

  /// The next signalling command: what was asked for first, then credits.
  mutating func nextSignal() -> [UInt8]? {
    if !signals.isEmpty { return signals.removeFirst() }
    for channel in channels.values {
      guard case .open = channel.state, let credits = channel.machine.creditsToReturn() else { continue }
      let credit = FlowControlCredit(sourceCID: channel.id.localCID, credits: credits)
      signal(L2CAPSignal.flowControlCredit, nextIdentifier(), 4) { credit.encode(into: &$0) }
      return signals.removeFirst()
    }
    return nil
  }

  /// The next PDU and the peer's number of its channel; channels take turns.
  mutating func nextPDU() -> (channelID: UInt16, pdu: [UInt8])? {
    guard !channels.isEmpty else { return nil }
    for step in 1...64 as ClosedRange<UInt16> {
      let cid = 0x0040 + (turn - 0x0040 + step) % 64
      guard let channel = channels[cid], case .open = channel.state, let pdu = channel.machine.nextPDU()
      else { continue }
      turn = cid
      if channel.isBlocked, channel.machine.hasRoom {
        channel.isBlocked = false
        events.append((channel.id, .writable))
      }
      return (channel.remoteCID, pdu)
    }
    return nil
  }

  // MARK: Up

  /// - Returns: `false` for a channel that is not there.
  mutating func receive(_ pdu: Span<UInt8>, on cid: UInt16, now: MonotonicTime) -> Bool {
    guard let channel = channels[cid] else { return false }
    switch channel.state {
    case .connecting: return false
    // What was on its way when we closed.
    case .closing: return true
    case .open: break
    }
    do throws(CreditBasedFault) {
      if let sdu = try channel.machine.receive(pdu) { events.append((channel.id, .received(sdu))) }
    } catch { disconnect(channel, .fault(error), now) }
    return true
  }

  /// A frame came that was too long to be kept.
  mutating func receiveOversized(on cid: UInt16, now: MonotonicTime) {
    guard let channel = channels[cid], case .open = channel.state else { return }
    disconnect(channel, .fault(.pduTooLong), now)
  }

  /// - Returns: `nil` for a command that is none of ours.
  mutating func react(to signal: borrowing L2CAPSignal, now: MonotonicTime) -> SignallingResponder.Reaction? {
    let (identifier, data) = (signal.identifier, signal.data)
    switch signal.code {
    case L2CAPSignal.creditBasedConnectionRequest: return Self.refuseRequest(identifier, data)
    case L2CAPSignal.creditBasedConnectionResponse:
      guard let channel = waiting(for: identifier), case .connecting = channel.state else { return .stray }
      answered(channel, data, now)
      return SignallingResponder.Reaction.none
    case L2CAPSignal.flowControlCredit: return credit(data, now)
    case L2CAPSignal.disconnectionRequest: return disconnectionRequested(identifier, data)
    case L2CAPSignal.disconnectionResponse:
      guard let channel = waiting(for: identifier), case .closing(_, _, let end) = channel.state,
        let response = try? ChannelDisconnection(validating: data),
        response.destinationCID == channel.remoteCID, response.sourceCID == channel.id.localCID
      else { return .stray }
      finish(channel, end)
      return SignallingResponder.Reaction.none
    case L2CAPSignal.commandReject:
      guard let channel = waiting(for: identifier) else { return .stray }
      if case .closing(_, _, let end) = channel.state {
        finish(channel, end)
      } else {
        refuse(channel, .commandRejected(data.count >= 2 ? data.u16(at: 0) : 0))
      }
      return SignallingResponder.Reaction.none
    default: return nil
    }
  }

  // MARK: Commands of the peer

  /// We have no services of our own.
  private static func refuseRequest(_ identifier: UInt8, _ data: Span<UInt8>) -> SignallingResponder.Reaction
  {
    guard (try? CreditBasedConnectionRequest(validating: data)) != nil else {
      return .answer(L2CAPSignal.encoded(L2CAPSignal.commandReject, identifier, 0x0000))
    }
    let result = CreditBasedConnectionResult.spsmNotSupported.rawValue
    return .answer(
      L2CAPSignal.encoded(L2CAPSignal.creditBasedConnectionResponse, identifier, 0, 0, 0, 0, result))
  }

  private mutating func answered(_ channel: Channel, _ data: Span<UInt8>, _ now: MonotonicTime) {
    guard let response = try? CreditBasedConnectionResponse(validating: data) else {
      refuse(channel, .invalidResponse)
      return
    }
    guard response.result == .success else {
      refuse(channel, .refused(response.result))
      return
    }
    let isTaken = channels.values.contains { $0.remoteCID == response.destinationCID }
    guard L2CAPFrame.dynamicChannels.contains(response.destinationCID), response.parameters.isValid,
      !isTaken
    else {
      refuse(channel, .invalidResponse)
      return
    }
    channel.remoteCID = response.destinationCID
    channel.machine = CreditBasedChannelMachine(local: channel.local, remote: response.parameters)
    channel.state = .open
    if channel.isAbandoned {
      disconnect(channel, .closedLocally, now)
    } else {
      events.append((channel.id, .opened(response.parameters)))
    }
  }

  private mutating func credit(_ data: Span<UInt8>, _ now: MonotonicTime) -> SignallingResponder.Reaction {
    // Zero credits are reserved, and change nothing.
    guard let given = try? FlowControlCredit(validating: data), given.credits > 0,
      L2CAPFrame.dynamicChannels.contains(given.sourceCID),
      let channel = channels.values.first(where: { $0.remoteCID == given.sourceCID })
    else { return .stray }
    guard case .open = channel.state else { return SignallingResponder.Reaction.none }
    do throws(CreditBasedFault) { try channel.machine.credit(given.credits) } catch {
      disconnect(channel, .fault(error), now)
    }
    return SignallingResponder.Reaction.none
  }

  private mutating func disconnectionRequested(
    _ identifier: UInt8, _ data: Span<UInt8>
  ) -> SignallingResponder.Reaction {
    guard let request = try? ChannelDisconnection(validating: data) else {
      return .answer(L2CAPSignal.encoded(L2CAPSignal.commandReject, identifier, 0x0000))
    }
    guard let channel = channels[request.destinationCID] else {
      // Invalid CID in request, with both numbers as they came. Core 5.4, Vol 3, Part A, 4.1.
      return .answer(
        L2CAPSignal.encoded(
          L2CAPSignal.commandReject, identifier, 0x0002, request.destinationCID, request.sourceCID))
    }
    // Ours but not the peer's number: silently discarded. Core 5.4, Vol 3, Part A, 4.6.
    guard channel.remoteCID == request.sourceCID, request.sourceCID != 0 else { return .stray }
    if case .closing(_, _, let end) = channel.state {
      finish(channel, end)
    } else {
      finish(channel, .closedByPeer)
    }
    return .answer(
      L2CAPSignal.encoded(
        L2CAPSignal.disconnectionResponse, identifier, request.destinationCID, request.sourceCID))
  }

  // MARK: Parts

  private func openChannel(_ id: ChannelID) -> Channel? {
    guard let channel = channels[id.localCID], channel.id == id, case .open = channel.state else {
      return nil
    }
    return channel
  }

  private func waiting(for identifier: UInt8) -> Channel? {
    channels.values.first { channel in
      switch channel.state {
      case .connecting(identifier, _), .closing(identifier, _, _): true
      default: false
      }
    }
  }

  private mutating func disconnect(_ channel: Channel, _ end: ChannelEnd, _ now: MonotonicTime) {
    let identifier = nextIdentifier()
    channel.state = .closing(
      identifier: identifier, deadline: now.advanced(by: Self.disconnectTimeout), end)
    let request = ChannelDisconnection(
      destinationCID: channel.remoteCID, sourceCID: channel.id.localCID)
    signal(L2CAPSignal.disconnectionRequest, identifier, 4) { request.encode(into: &$0) }
  }

  private mutating func refuse(_ channel: Channel, _ refusal: ChannelRefusal) {
    channels[channel.id.localCID] = nil
    events.append((channel.id, channel.isAbandoned ? .closed(.closedLocally) : .refused(refusal)))
  }

  private mutating func finish(_ channel: Channel, _ end: ChannelEnd) {
    channels[channel.id.localCID] = nil
    events.append((channel.id, .closed(end)))
  }

  /// The number used longest ago: what is late for an old channel does not reach a new one.
  private mutating func freeCID() -> UInt16? {
    for _ in L2CAPFrame.dynamicChannels {
      lastCID = lastCID == 0x007F ? 0x0040 : lastCID + 1
      if channels[lastCID] == nil { return lastCID }
    }
    return nil
  }

  /// 1 … 255, not one that an answer is waited for. Core 5.4, Vol 3, Part A, 4.
  private mutating func nextIdentifier() -> UInt8 {
    repeat {
      lastIdentifier = lastIdentifier == 0xFF ? 1 : lastIdentifier + 1
    } while waiting(
      for: lastIdentifier) != nil
    return lastIdentifier
  }

  private mutating func signal(
    _ code: UInt8, _ identifier: UInt8, _ byteCount: Int, _ encode: (inout OutputSpan<UInt8>) -> Void
  ) {
    let data = [UInt8](encoding: byteCount, encode)
    signals.append(
      [UInt8](encoding: 4 + byteCount) {
        L2CAPSignal(code: code, identifier: identifier, data: data.span).encode(into: &$0)
      })
  }
}
