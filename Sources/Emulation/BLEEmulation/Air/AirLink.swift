import BLEStack
import BLEWire

/// A link between a central and a peripheral in the virtual air. Core 5.4, Vol 6, Part B, 4.5.
///
/// At the pace `.air` the link has connection events: central and peripheral take turns, T_IFS apart, until
/// neither has more data or the next event is near. Lost packets are retransmitted. An event in which neither
/// end has data is skipped, because its outcome is known. At the pace `.immediate` data arrives as soon as it
/// is sent.
///
/// Simplification: when the central decides whether another exchange fits into the event, it uses the length
/// of the peripheral's next packet. A real controller does not know this length and guesses.
final class AirLink {
  unowned let air: VirtualAir
  private let isImmediate: Bool
  let central: LinkEnd
  let peripheral: LinkEnd
  private let created: MonotonicTime

  var parameters: LinkParameters
  /// Counter of the current connection event. Between events, counter of the next event.
  private var eventCounter = 0
  var anchor: MonotonicTime
  var phase = Phase.between
  /// Counter of the next event that the peripheral listens to even if it has no data.
  private var nextListening = 0
  /// Number of consecutive damaged packets in this event. The second damaged packet in a row ends the event.
  private var invalidInARow = 0
  /// Whether the event continues, because an end has more data or sent a damaged packet.
  private var goesOn = false

  /// Number of consecutive events that were skipped because a radio was busy with another link.
  var missedInARow = 0

  /// A change that both ends make at an agreed connection event.
  var change: Change?
  private var isChanging = false
  private var waitingChanges: [LinkControl] = []
  /// The PHYs that the central's host requested.
  private var centralWish = PHYWish.any
  /// The encryption that the central's host requested; `nil` once the peripheral has responded.
  var wantedEncryption: LinkEncryption?
  /// Whether only one end has made a change. The ends can then no longer receive each other's packets.
  private var isApart = false

  enum Phase {
    /// Waiting for the next anchor.
    case between
    case centralSends(LinkPDU, until: MonotonicTime)
    case peripheralTurn(at: MonotonicTime)
    case peripheralSends(LinkPDU, until: MonotonicTime)
    case centralTurn(at: MonotonicTime)
  }

  struct Change {
    let control: LinkControl
    let instant: Int
    var isKnown = false
  }

  init(
    _ air: VirtualAir, central: LinkEnd, peripheral: LinkEnd, _ parameters: LinkParameters,
    firstAnchor: MonotonicTime, now: MonotonicTime
  ) {
    self.air = air
    isImmediate = air.configuration.pace == .immediate
    self.central = central
    self.peripheral = peripheral
    self.parameters = parameters
    anchor = firstAnchor
    created = now
    central.link = self
    peripheral.link = self
  }

  var interval: Int64 { Int64(parameters.interval) * AirTiming.intervalUnit }

  func other(_ end: LinkEnd) -> LinkEnd { end === central ? peripheral : central }

  // MARK: Radios

  func involves(_ owner: ObjectIdentifier) -> Bool {
    central.ownerIdentity == owner || peripheral.ownerIdentity == owner
  }

  func sharesRadio(with other: AirLink) -> Bool {
    involves(other.central.ownerIdentity) || involves(other.peripheral.ownerIdentity)
  }

  var isInEvent: Bool {
    if case .between = phase { false } else { true }
  }

  /// Time at which the link needs the radio next; `nil` during an event, and while neither end has data.
  var claim: MonotonicTime? {
    guard case .between = phase, hasBothEnds, isBusy else { return nil }
    return anchor
  }

  /// Returns the distance from a time to the nearest anchor of this link, in nanoseconds.
  func distance(of time: MonotonicTime) -> Int64 {
    let phase = (time.nanoseconds - anchor.nanoseconds) % interval
    let after = phase < 0 ? phase + interval : phase
    return min(after, interval - after)
  }

  // MARK: Sending

  func send(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary, from end: LinkEnd) {
    guard end.isOpen else { return }
    if isImmediate {
      end.owner.acknowledged(on: end)
      let other = other(end)
      return other.owner.received(data, boundary, on: other)
    }
    // Empty data is not sent. The buffer is free immediately.
    guard data.count > 0 else { return end.owner.acknowledged(on: end) }
    let octets = [UInt8](encoding: data.count) { $0.append(data) }
    end.queue.append(.data(octets, boundary))
    schedule()
  }

  func send(_ control: LinkControl, from end: LinkEnd) {
    if control.hasInstant {
      if isChanging { return waitingChanges.append(control) }
      isChanging = true
    }
    end.queue.append(.control(control))
    schedule()
  }

  func hasRoom(for end: LinkEnd) -> Bool {
    isImmediate ? other(end).owner.takesData : end.queue.dataCount < air.configuration.queuedFrames
  }

  /// Returns whether too many responses are queued at an end. No more may then be added.
  func isOverfull(end: LinkEnd) -> Bool {
    !isImmediate
      && end.queue.dataCount >= air.configuration.queuedFrames + PeripheralLink.maximumAnswersQueued
  }

  // MARK: The end

  /// Ends the link at one end after the queued packets of that end, and sends the reason to the other end.
  func terminate(from end: LinkEnd, _ reason: HCIStatus) {
    guard end.isOpen else { return }
    if isImmediate {
      close(central, end === central ? .localHostTerminated : reason)
      close(peripheral, end === peripheral ? .localHostTerminated : reason)
    } else {
      // Connection Timeout is never sent. The peer detects the end by the missing packets.
      send(reason == .connectionTimeout ? .vanish : .terminate(reason), from: end)
    }
  }

  /// Removes one end. Sends no packet and does not notify the owner.
  func abandon(_ end: LinkEnd) {
    schedule()
    end.isOpen = false
    let other = other(end)
    if isImmediate { close(other, .connectionTimeout) }
    forgetIfOver()
  }

  func close(_ end: LinkEnd, _ reason: HCIStatus) {
    guard end.isOpen else { return }
    end.isOpen = false
    if end === peripheral { giveUpFrames(of: end) }
    end.queue.removeAll()
    end.owner.ended(end, reason)
    forgetIfOver()
  }

  private func forgetIfOver() {
    if !central.isOpen, !peripheral.isOpen { air.forget(self) }
  }

  // MARK: Time

  /// Whether the next event must be simulated.
  private var isBusy: Bool {
    !central.isEstablished || !peripheral.isEstablished || !central.queue.isEmpty || !peripheral.queue.isEmpty
      || isChanging || central.farewell != nil || peripheral.farewell != nil || isTroubled
  }

  /// Whether packets can be lost. If so, every event must be simulated, because missing packets end the link.
  private var isTroubled: Bool {
    isApart || !central.isOpen || !peripheral.isOpen || air.losesPackets
      || !air.reaches(central.address, peripheral.address)
      || !air.reaches(peripheral.address, central.address)
  }

  var deadline: MonotonicTime? {
    switch phase {
    case .centralSends(_, let time), .peripheralSends(_, let time), .peripheralTurn(let time),
      .centralTurn(let time):
      return time
    case .between:
      guard !isImmediate, isBusy else { return nil }
      var next = hasBothEnds ? anchor : nil
      for end in [central, peripheral] where end.isOpen {
        let silence = supervisionEnd(end)
        next = next.map { min($0, silence) } ?? silence
      }
      return next
    }
  }

  private var hasBothEnds: Bool { central.isOpen && peripheral.isOpen }

  /// Returns the time at which an end closes the link unless it receives a packet first. Core 5.4, Vol 6,
  /// Part B, 4.5.2.
  private func supervisionEnd(_ end: LinkEnd) -> MonotonicTime {
    end.isEstablished
      ? end.lastHeard.advanced(nanoseconds: Int64(parameters.supervisionTimeout) * AirTiming.timeoutUnit)
      : created.advanced(nanoseconds: AirTiming.establishingEvents * interval)
  }

  /// Advances to the next event. Call this before a packet is sent; no packets were sent in the skipped
  /// events.
  func schedule() {
    guard case .between = phase, !isImmediate, anchor < air.now, hasBothEnds else { return }
    let passed = (air.now.nanoseconds - anchor.nanoseconds + interval - 1) / interval
    eventCounter += Int(passed)
    anchor = anchor.advanced(nanoseconds: passed * interval)
    let listened = anchor.advanced(nanoseconds: -interval)
    for end in [central, peripheral] { end.lastHeard = max(end.lastHeard, listened) }
    if nextListening < eventCounter {
      let step = Int(parameters.latency) + 1
      nextListening += (eventCounter - nextListening + step - 1) / step * step
    }
  }
}

/// The header of a link's packet. Its payload is the front of the sender's queue.
struct LinkPDU {
  /// Payload length in bytes; 0 for an empty packet.
  var byteCount: Int
  var sequence: Bool
  var expected: Bool
  var hasMore: Bool
}

// MARK: - Control procedures

/// Link-layer procedures that change the link. Core 5.4, Vol 6, Part B, 5.1.
extension AirLink {
  // MARK: Requested by a host

  /// Changes the link's parameters at the central's request. Core 5.4, Vol 6, Part B, 5.1.1.
  func update(_ wanted: LinkParameters) {
    guard isImmediate else { return send(.connectionUpdate(wanted), from: central) }
    apply(.connectionUpdate(wanted))
  }

  /// Requests new PHYs. Core 5.4, Vol 6, Part B, 5.1.10.
  func requestPHY(_ wish: PHYWish, from end: LinkEnd) {
    if end === central { centralWish = wish }
    guard isImmediate else { return send(.phyRequest(wish), from: end) }
    apply(
      .phyUpdate(
        end === central
          ? PHYChange(central: wish, peripheral: .any, now: self)
          : PHYChange(central: .any, peripheral: wish, now: self)))
  }

  /// Requests a new data length. At the pace `.immediate`, both directions get the requested length. Core
  /// 5.4, Vol 6, Part B, 5.1.9.
  func requestDataLength(_ wanted: DataLength, from end: LinkEnd) {
    end.allowedDataLength = wanted.clamped
    guard isImmediate else { return send(.lengthRequest(end.allowedDataLength), from: end) }
    for end in [central, peripheral] {
      end.dataLength = wanted.limited(to: .maximum)
    }
    for end in [central, peripheral] { end.owner.dataLengthChanged(on: end) }
  }

  /// Exchanges features. Core 5.4, Vol 6, Part B, 5.1.4.
  func requestFeatures(from end: LinkEnd) {
    guard isImmediate else { return send(.featureRequest, from: end) }
    end.owner.featuresRead(on: end)
  }

  /// Exchanges versions. Core 5.4, Vol 6, Part B, 5.1.5.
  func requestVersion(from end: LinkEnd) {
    guard isImmediate else { return send(.versionRequest, from: end) }
    end.owner.versionRead(on: end)
  }

  // MARK: Received

  private func obey(_ control: LinkControl, at end: LinkEnd) {
    switch control {
    case .terminate(let reason): end.farewell = reason
    case .vanish: break
    case .connectionUpdate, .phyUpdate: change?.isKnown = true
    case .phyRequest(let wish):
      if end === central {
        choosePHY(PHYChange(central: .any, peripheral: wish, now: self), for: peripheral)
      } else {
        send(.phyResponse(.any), from: end)
      }
    case .phyResponse(let wish):
      choosePHY(PHYChange(central: centralWish, peripheral: wish, now: self), for: central)
    case .lengthRequest: send(.lengthResponse(end.allowedDataLength), from: end)
    case .lengthResponse: changeDataLength()
    case .featureRequest: send(.featureResponse, from: end)
    case .featureResponse: end.owner.featuresRead(on: end)
    case .versionRequest: send(.versionResponse, from: end)
    case .versionResponse: end.owner.versionRead(on: end)
    case .encryptionRequest(let wanted): end.owner.keyWanted(wanted.random, wanted.diversifier, on: end)
    case .encryptionAnswer(let key): compare(key)
    case .encryptionStart: encrypted(end)
    }
  }

  /// Sends a PHY update, or reports to the requesting end that the PHYs are unchanged. Core 5.4, Vol 4, Part
  /// E, 7.8.49.
  private func choosePHY(_ chosen: PHYChange, for asker: LinkEnd) {
    if chosen.toPeripheral == central.phy, chosen.toCentral == peripheral.phy {
      asker.owner.phyChanged(on: asker)
    } else {
      send(.phyUpdate(chosen), from: central)
    }
  }

  /// Applies the new data lengths, and notifies both hosts of a change. Core 5.4, Vol 4, Part E, 7.7.65.7.
  private func changeDataLength() {
    let before = (central.dataLength, peripheral.dataLength)
    for end in [central, peripheral] { end.dataLength = end.allowedDataLength }
    guard before != (central.dataLength, peripheral.dataLength) else { return }
    for end in [central, peripheral] { end.owner.dataLengthChanged(on: end) }
  }

  // MARK: At the instant

  /// Makes the agreed change if its connection event has been reached.
  private func makeChange() {
    guard let change, change.instant <= eventCounter else { return }
    self.change = nil
    isChanging = false
    // The peripheral does not know about the change. From now on the ends do not receive each other's
    // packets.
    guard change.isKnown else {
      isApart = true
      return
    }
    apply(change.control)
    if !waitingChanges.isEmpty { send(waitingChanges.removeFirst(), from: central) }
  }

  private func apply(_ control: LinkControl) {
    switch control {
    case .connectionUpdate(let wanted):
      parameters = wanted
      for end in [central, peripheral] { end.owner.parametersChanged(on: end) }
    case .phyUpdate(let change):
      central.phy = change.toPeripheral
      peripheral.phy = change.toCentral
      for end in [central, peripheral] { end.owner.phyChanged(on: end) }
    default: break
    }
  }
}

// MARK: - Encryption

/// An encryption request of a central's host.
struct LinkEncryption: Hashable {
  var random: UInt64
  var diversifier: UInt16
  var key: UInt128
}

/// Encryption from the hosts' point of view: encryption succeeds if both controllers get the same key,
/// otherwise the link ends. The data itself is not encrypted.
///
/// Core 5.4, Vol 6, Part B, 5.1.3. The halves of the session key are not exchanged, and data is not held back
/// during the procedure.
extension AirLink {
  /// Starts encryption with the key of the central's host.
  func requestEncryption(_ wanted: LinkEncryption) {
    wantedEncryption = wanted
    guard isImmediate else { return send(.encryptionRequest(wanted), from: central) }
    peripheral.owner.keyWanted(wanted.random, wanted.diversifier, on: peripheral)
  }

  /// Responds with the peripheral's key, or `nil` if the peripheral has no key.
  func answerEncryption(_ key: UInt128?) {
    guard isImmediate else { return send(.encryptionAnswer(key), from: peripheral) }
    compare(key)
    if peripheral.isOpen, key != nil { encrypted(peripheral) }
  }

  /// Compares the peripheral's key with the central's. Ends the link if the keys differ.
  func compare(_ key: UInt128?) {
    guard let wanted = wantedEncryption else { return }
    wantedEncryption = nil
    guard let key else {
      return central.owner.encryptionEnded(.pinOrKeyMissing, isRefresh: false, on: central)
    }
    guard key == wanted.key else {
      // The keys differ, so the ends cannot decrypt each other's packets.
      close(central, .micFailure)
      close(peripheral, .micFailure)
      return
    }
    encrypted(central)
    if !isImmediate { send(.encryptionStart, from: central) }
  }

  func encrypted(_ end: LinkEnd) {
    let isRefresh = end.isEncrypted
    end.isEncrypted = true
    end.owner.encryptionEnded(.success, isRefresh: isRefresh, on: end)
  }
}

// MARK: - Connection events

/// Connection events. Core 5.4, Vol 6, Part B, 4.5.1, 4.5.6 and 4.5.9.
extension AirLink {
  /// Performs the step that is due. The virtual air calls this at each deadline, in chronological order.
  func step(now: MonotonicTime) {
    switch phase {
    case .between:
      for end in [central, peripheral] where end.isOpen && supervisionEnd(end) <= now {
        close(end, end.isEstablished ? .connectionTimeout : .connectionFailedToBeEstablished)
      }
      if hasBothEnds, anchor <= now { openEvent(now: now) }
    case .centralSends(let pdu, let end):
      let isHeard = isListening && air.reaches(central.address, peripheral.address)
      guard arrived(pdu, from: central, to: peripheral, isHeard: isHeard, now: now) else {
        return closeEvent()
      }
      phase = .peripheralTurn(at: end.advanced(nanoseconds: AirTiming.interFrameSpace))
    case .peripheralTurn: transmit(from: peripheral, now: now)
    case .peripheralSends(let pdu, let end):
      let isHeard = air.reaches(peripheral.address, central.address)
      guard arrived(pdu, from: peripheral, to: central, isHeard: isHeard, now: now) else {
        return closeEvent()
      }
      phase = .centralTurn(at: end.advanced(nanoseconds: AirTiming.interFrameSpace))
    case .centralTurn:
      guard wantsMore, exchangeFits(now: now) else { return closeEvent() }
      transmit(from: central, now: now)
    }
  }

  // MARK: One event

  private func openEvent(now: MonotonicTime) {
    invalidInARow = 0
    goesOn = false
    makeChange()
    air.eventCount += 1
    guard !air.isRadioTaken(for: self, until: now.advanced(nanoseconds: nextExchange)) else {
      missedInARow += 1
      return closeEvent()
    }
    missedInARow = 0
    transmit(from: central, now: now)
  }

  private func closeEvent() {
    phase = .between
    eventCounter += 1
    anchor = anchor.advanced(nanoseconds: interval)
  }

  /// Whether the peripheral listens to this event. A peripheral without data may skip as many events as the
  /// latency allows.
  private var isListening: Bool {
    !isApart
      && (eventCounter >= nextListening || !peripheral.isEstablished || !peripheral.queue.isEmpty
        || change?.isKnown == true || peripheral.farewell != nil)
  }

  private var wantsMore: Bool {
    hasBothEnds && (goesOn || central.farewell != nil)
  }

  /// Returns whether another exchange would end before the next event of this link, and before the next event
  /// of another link of the same radio.
  private func exchangeFits(now: MonotonicTime) -> Bool {
    let end = now.advanced(nanoseconds: nextExchange)
    return end <= anchor.advanced(nanoseconds: interval)
      && air.nextClaim(besides: self).map { end <= $0 } ?? true
  }

  /// Total duration of the next packets of both ends, and of the pauses after them, in nanoseconds.
  private var nextExchange: Int64 {
    central.phy.airTime(payload: nextByteCount(of: central))
      + peripheral.phy.airTime(payload: nextByteCount(of: peripheral)) + 2 * AirTiming.interFrameSpace
  }

  // MARK: One packet

  private func nextByteCount(of end: LinkEnd) -> Int {
    if let underWay = end.state.underWay { return underWay }
    guard let first = end.queue.first else { return 0 }
    switch first {
    case .control(let control): return control.byteCount
    case .data(let octets, _):
      return min(octets.count - end.queue.offset, end.dataLength.byteCount(on: end.phy))
    }
  }

  /// Chooses an end's next packet, unless a packet must be retransmitted.
  private func prepare(_ end: LinkEnd) {
    if end.state.underWay == nil {
      if case .control(let control)? = end.queue.first, control.hasInstant {
        change = Change(
          control: control, instant: eventCounter + AirTiming.eventsToInstant + Int(parameters.latency))
      }
      end.state.underWay = nextByteCount(of: end)
    }
    end.state.hasMore = end.queue.hasMore(after: end.state.underWay ?? 0)
  }

  private func transmit(from end: LinkEnd, now: MonotonicTime) {
    if case .control(.vanish)? = end.queue.first {
      close(end, .localHostTerminated)
      return closeEvent()
    }
    if end === central || end.state.underWay == nil { prepare(end) }
    let byteCount = end.state.underWay ?? 0
    let pdu = LinkPDU(
      byteCount: byteCount, sequence: end.state.sequence, expected: end.state.expected,
      hasMore: end.state.hasMore)
    let until = now.advanced(nanoseconds: end.phy.airTime(payload: byteCount))
    phase = end === central ? .centralSends(pdu, until: until) : .peripheralSends(pdu, until: until)
  }

  /// Handles the end of a packet.
  ///
  /// - Returns: Whether the event continues. It continues if the other end has detected the packet, even if
  ///   the packet was damaged.
  private func arrived(
    _ pdu: LinkPDU, from sender: LinkEnd, to receiver: LinkEnd, isHeard: Bool, now: MonotonicTime
  ) -> Bool {
    let isSwallowed = air.swallowsPacket()
    if isHeard, !isSwallowed, !isApart {
      if air.breaksPacket() {
        invalidInARow += 1
        goesOn = true
      } else {
        invalidInARow = 0
        take(pdu, from: sender, to: receiver, now: now)
      }
    } else {
      invalidInARow = 2
    }
    // The sender had received the end of the link. This packet has acknowledged it.
    if let farewell = sender.farewell { close(sender, farewell) }
    return invalidInARow < 2 && hasBothEnds
  }

  private func take(_ pdu: LinkPDU, from sender: LinkEnd, to receiver: LinkEnd, now: MonotonicTime) {
    receiver.lastHeard = now
    receiver.isEstablished = true
    if pdu.expected != receiver.state.sequence {
      receiver.state.sequence = pdu.expected
      acknowledge(receiver)
    }
    // Choose the next packet before a host receives the contents of the current packet, because T_IFS is too
    // short for a response.
    if receiver === peripheral {
      prepare(peripheral)
    } else {
      goesOn = pdu.hasMore || !central.queue.isEmpty
      nextListening = eventCounter + 1 + Int(parameters.latency)
    }
    if receiver.isOpen, pdu.sequence == receiver.state.expected {
      receiver.state.expected.toggle()
      deliver(pdu, from: sender, to: receiver)
    }
  }

  private func acknowledge(_ end: LinkEnd) {
    guard let byteCount = end.state.underWay else { return }
    end.state.underWay = nil
    guard byteCount > 0, let item = end.queue.acknowledge(byteCount) else { return }
    switch item {
    case .data: end.owner.acknowledged(on: end)
    case .control(.terminate): close(end, .localHostTerminated)
    case .control: break
    }
  }

  private func deliver(_ pdu: LinkPDU, from sender: LinkEnd, to receiver: LinkEnd) {
    guard pdu.byteCount > 0, let item = sender.queue.first else { return }
    switch item {
    case .control(let control): obey(control, at: receiver)
    case .data(let octets, let boundary):
      let offset = sender.queue.offset
      receiver.owner.received(
        octets.span.extracting(offset..<offset + pdu.byteCount), offset == 0 ? boundary : .continuation,
        on: receiver)
    }
  }
}

extension HCIStatus {
  fileprivate static let connectionFailedToBeEstablished = HCIStatus(rawValue: 0x3E)
}

// MARK: - Lost frames

/// Reason why a peripheral's frame was lost. Every lost frame has one of these reasons.
package enum FrameLoss: Hashable, Sendable {
  /// An L2CAP frame that was still queued in the peripheral when its link ended.
  case linkEnd
  /// An ACL packet that had reached a controller with the fault `silence`.
  case silentController
}

extension AirLink {
  /// Reports frames that an end has queued and the other end has not received completely.
  ///
  /// The first frame may have arrived without its acknowledgement. Core 5.4, Vol 6, Part B, 4.5.9.
  private func giveUpFrames(of end: LinkEnd) {
    guard let told = air.whenFrameLost else { return }
    var hasArrived = false
    if case .data(let octets, _)? = end.queue.first, let underWay = end.state.underWay {
      hasArrived =
        end.queue.offset + underWay == octets.count && other(end).state.expected != end.state.sequence
    }
    end.queue.forEachFrame { octets in
      if hasArrived { hasArrived = false } else { told(.linkEnd, octets.span) }
    }
  }
}

// MARK: - Control PDUs

/// Control PDUs between the two link layers. Core 5.4, Vol 6, Part B, 2.4.2.
enum LinkControl {
  case terminate(HCIStatus)
  /// Not a PDU: when this item is first in the queue, the device disappears.
  case vanish
  case connectionUpdate(LinkParameters)
  case phyRequest(PHYWish)
  case phyResponse(PHYWish)
  case phyUpdate(PHYChange)
  case lengthRequest(DataLength)
  case lengthResponse(DataLength)
  case featureRequest, featureResponse
  case versionRequest, versionResponse
  case encryptionRequest(LinkEncryption)
  /// The peripheral's key, or `nil`. Used only for comparison; a real link layer does not send the key.
  case encryptionAnswer(UInt128?)
  case encryptionStart

  /// Payload length in bytes, including the opcode.
  var byteCount: Int {
    switch self {
    case .vanish: 0
    case .encryptionStart: 1
    case .encryptionRequest: 23
    case .encryptionAnswer: 13
    case .terminate: 2
    case .phyRequest, .phyResponse: 3
    case .phyUpdate: 5
    case .versionRequest, .versionResponse: 6
    case .lengthRequest, .lengthResponse, .featureRequest, .featureResponse: 9
    case .connectionUpdate: 12
    }
  }

  /// Whether the change is made at a connection event that the PDU specifies. Only one such procedure runs at
  /// a time.
  fileprivate var hasInstant: Bool {
    switch self {
    case .connectionUpdate, .phyUpdate: true
    default: false
    }
  }
}

/// PHYs that one end accepts, as bits: 1 is LE 1M, 2 is LE 2M.
struct PHYWish: Hashable {
  var transmit: UInt8
  var receive: UInt8

  static let any = PHYWish(transmit: 3, receive: 3)
}

struct PHYChange: Hashable {
  fileprivate var toPeripheral: LEPHY
  fileprivate var toCentral: LEPHY

  /// Chooses the fastest PHYs that both ends accept. A direction without a common PHY is unchanged.
  init(central: PHYWish, peripheral: PHYWish, now link: AirLink) {
    func chosen(_ bits: UInt8, _ current: LEPHY) -> LEPHY {
      bits & 2 != 0 ? .le2M : bits & 1 != 0 ? .le1M : current
    }
    toPeripheral = chosen(central.transmit & peripheral.receive, link.central.phy)
    toCentral = chosen(central.receive & peripheral.transmit, link.peripheral.phy)
  }
}
