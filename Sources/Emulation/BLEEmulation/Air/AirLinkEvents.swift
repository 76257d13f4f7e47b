import BLEStack
import BLEWire

/// Connection events. Core 5.4, Vol 6, Part B, 4.5.1, 4.5.6 and 4.5.9.
extension AirLink {
  /// Performs the step that is due. The air calls it at each deadline, in chronological order.
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

  /// Whether the peripheral listens to this event. Without data it may skip as many events as the latency
  /// allows.
  private var isListening: Bool {
    !isApart
      && (eventCounter >= nextListening || !peripheral.isEstablished || !peripheral.queue.isEmpty
        || change?.isKnown == true || peripheral.farewell != nil)
  }

  private var wantsMore: Bool {
    hasBothEnds && (goesOn || central.farewell != nil)
  }

  /// Whether another exchange would end before the next event of this link, or of another link of the same
  /// radio.
  private func exchangeFits(now: MonotonicTime) -> Bool {
    let end = now.advanced(nanoseconds: nextExchange)
    return end <= anchor.advanced(nanoseconds: interval)
      && air.nextClaim(besides: self).map { end <= $0 } ?? true
  }

  /// Duration of the next packet of each end and the pauses after them, in nanoseconds.
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

  /// Chooses an end's next packet, unless a packet has to be retransmitted.
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
  /// - Returns: Whether the event continues: the other end has detected the packet, even if it was damaged.
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
    // The sender had received the end of the link, and its packet has acknowledged it.
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
    // Choose the next packet before a host receives the contents of this one: T_IFS is too short for a
    // response.
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
  static let connectionFailedToBeEstablished = HCIStatus(rawValue: 0x3E)
}
