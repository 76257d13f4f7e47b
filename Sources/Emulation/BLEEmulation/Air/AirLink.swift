import BLEWire

/// A link between a central and a peripheral, as the air carries it. Core 5.4, Vol 6, Part B, 4.5.
///
/// At the pace of the air it has connection events: central and peripheral take turns, T_IFS apart, until neither
/// has more or the next event is near. What is lost is sent again. An event in which nobody has anything to say is
/// passed over, since its outcome is known. At the immediate pace what is sent has arrived.
///
/// One simplification: the central knows how long the peripheral's next packet is when it decides whether the rest
/// of the event has room for another exchange. Controllers guess.
final class AirLink {
  unowned let air: VirtualAir
  let isImmediate: Bool
  let central: LinkEnd
  let peripheral: LinkEnd
  private let created: MonotonicTime

  var parameters: LinkParameters
  /// Of the connection event that is under way or comes next.
  var eventCounter = 0
  var anchor: MonotonicTime
  var phase = Phase.between
  /// The next event that the peripheral listens to although it has nothing to say.
  var nextListening = 0
  /// Packets of this event that did not arrive whole, one after the other; two end it.
  var invalidInARow = 0
  /// One of the ends has more, or was not understood.
  var goesOn = false

  /// Events that were left out because a radio was busy with another link.
  var missedInARow = 0

  /// A change that both ends are to make at one event.
  var change: Change?
  var isChanging = false
  var waitingChanges: [LinkControl] = []
  /// What the central's host wanted when it asked for another PHY.
  var centralWish = PHYWish.any
  /// What the central's host wants the link encrypted with, until the peripheral has answered.
  var wantedEncryption: LinkEncryption?
  /// The ends made a change at different times, and hear each other no more.
  var isApart = false

  enum Phase {
    /// Until the next anchor.
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

  /// When it wants the radio next; `nil` in an event, and while nobody has anything to say.
  var claim: MonotonicTime? {
    guard case .between = phase, hasBothEnds, isBusy else { return nil }
    return anchor
  }

  /// From a time to the nearest anchor of this link, in nanoseconds.
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
    // Nothing to send: the buffer is free at once.
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

  /// Answers too would grow without limit.
  func isOverfull(end: LinkEnd) -> Bool {
    !isImmediate
      && end.queue.dataCount >= air.configuration.queuedFrames + PeripheralLink.maximumAnswersQueued
  }

  // MARK: The end

  /// One end leaves after what it has sent so far, and tells the other why.
  func terminate(from end: LinkEnd, _ reason: HCIStatus) {
    guard end.isOpen else { return }
    if isImmediate {
      close(central, end === central ? .localHostTerminated : reason)
      close(peripheral, end === peripheral ? .localHostTerminated : reason)
    } else {
      // Nobody says Connection Timeout: it is what is concluded when nobody says anything.
      send(reason == .connectionTimeout ? .vanish : .terminate(reason), from: end)
    }
  }

  /// One end is gone without a word, and is not told of it either.
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

  /// Whether the next event can make a difference to anybody.
  private var isBusy: Bool {
    !central.isEstablished || !peripheral.isEstablished || !central.queue.isEmpty || !peripheral.queue.isEmpty
      || isChanging || central.farewell != nil || peripheral.farewell != nil || isTroubled
  }

  /// Packets may be lost: each event counts, because silence ends the link.
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

  /// When an end gives the link up if it hears nothing more. Core 5.4, Vol 6, Part B, 4.5.2.
  func supervisionEnd(_ end: LinkEnd) -> MonotonicTime {
    end.isEstablished
      ? end.lastHeard.advanced(nanoseconds: Int64(parameters.supervisionTimeout) * AirTiming.timeoutUnit)
      : created.advanced(nanoseconds: AirTiming.establishingEvents * interval)
  }

  /// Something has come up: passes over the events that went by in the meantime, with nothing said in them.
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

/// One packet of a link: its numbers; its payload is the front of the sender's queue.
struct LinkPDU {
  /// Octets of payload; 0 for an empty packet.
  var byteCount: Int
  var sequence: Bool
  var expected: Bool
  var hasMore: Bool
}
