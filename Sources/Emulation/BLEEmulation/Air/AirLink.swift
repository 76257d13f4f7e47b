import BLEWire

/// A link between a central and a peripheral in the virtual air. Core 5.4, Vol 6, Part B, 4.5.
///
/// At the pace `.air` the link has connection events: central and peripheral take turns, T_IFS apart, until
/// neither has more data or the next event is near. Lost packets are retransmitted. An event in which neither
/// end has data is skipped, because its outcome is known. At the pace `.immediate` data arrives as soon as it
/// is sent.
///
/// Simplification: when the central decides whether another exchange fits into the event, it knows the length
/// of the peripheral's next packet. Real controllers guess.
final class AirLink {
  unowned let air: VirtualAir
  let isImmediate: Bool
  let central: LinkEnd
  let peripheral: LinkEnd
  private let created: MonotonicTime

  var parameters: LinkParameters
  /// Counter of the current connection event; between events, of the next one.
  var eventCounter = 0
  var anchor: MonotonicTime
  var phase = Phase.between
  /// The next event that the peripheral listens to even if it has no data.
  var nextListening = 0
  /// Consecutive damaged packets in this event; two end it.
  var invalidInARow = 0
  /// Whether the event continues: an end has more data or sent a damaged packet.
  var goesOn = false

  /// Number of consecutive events that were skipped because a radio was busy with another link.
  var missedInARow = 0

  /// A change that both ends make at an agreed event.
  var change: Change?
  var isChanging = false
  var waitingChanges: [LinkControl] = []
  /// The PHYs that the central's host requested.
  var centralWish = PHYWish.any
  /// The encryption that the central's host requested; `nil` once the peripheral has responded.
  var wantedEncryption: LinkEncryption?
  /// Whether only one end has made a change, so that the ends can no longer receive each other's packets.
  var isApart = false

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

  /// When the link needs the radio next; `nil` during an event, and while neither end has data.
  var claim: MonotonicTime? {
    guard case .between = phase, hasBothEnds, isBusy else { return nil }
    return anchor
  }

  /// Distance from a time to the nearest anchor of this link, in nanoseconds.
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

  /// Whether too many responses are queued, so that no more may be added.
  func isOverfull(end: LinkEnd) -> Bool {
    !isImmediate
      && end.queue.dataCount >= air.configuration.queuedFrames + PeripheralLink.maximumAnswersQueued
  }

  // MARK: The end

  /// Ends the link at one end after its queued packets, and sends the reason to the other end.
  func terminate(from end: LinkEnd, _ reason: HCIStatus) {
    guard end.isOpen else { return }
    if isImmediate {
      close(central, end === central ? .localHostTerminated : reason)
      close(peripheral, end === peripheral ? .localHostTerminated : reason)
    } else {
      // Connection Timeout is never sent. The peer detects it by the missing packets.
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

  /// Whether packets can be lost. Every event must then be simulated, because missing packets end the link.
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

  var hasBothEnds: Bool { central.isOpen && peripheral.isOpen }

  /// When an end closes the link if it receives no packet until then. Core 5.4, Vol 6, Part B, 4.5.2.
  func supervisionEnd(_ end: LinkEnd) -> MonotonicTime {
    end.isEstablished
      ? end.lastHeard.advanced(nanoseconds: Int64(parameters.supervisionTimeout) * AirTiming.timeoutUnit)
      : created.advanced(nanoseconds: AirTiming.establishingEvents * interval)
  }

  /// Advances to the next event. Call it before something is sent; nothing was sent in the events that
  /// passed.
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
