package import BLEWire

/// What belongs to one link.
final class HCILink {
  /// The longest L2CAP frame that a peer has reason to send: what is longer is skipped, not kept.
  static let frameLimit = 2048
  /// Fragments that may wait for the controller before answers to the peer are dropped: a peer that asks faster than it
  /// listens shall not fill our memory.
  static let answerLimit = 64

  let description: LinkDescription
  var recombiner = L2CAPRecombiner(maximumPayloadByteCount: HCILink.frameLimit)
  /// An LE Connection Update that the peer asked for is under way. One at a time: a peer that asks without end
  /// shall not fill the command queue.
  var isUpdating = false
  /// Updates that the peer asks for are accepted and put off.
  var isTimingHeld = false
  /// The latest that was put off.
  var wantedTiming: LinkParameterRange?
  var isEncrypted = false
  /// Where the key comes from that it is encrypted with, and the one that the controller was last given; `nil` for none. As the
  /// central, what is encrypted counts as `stored`.
  var keySource: LinkKeySource?
  var givenKeySource: LinkKeySource?
  var pairing: Pairing?
  /// How this side hid when the link came up.
  var privacy: HostPrivacy?
  /// No PDU of the Security Manager may be sent any more.
  var hasPairingTimedOut = false

  init(_ description: LinkDescription) { self.description = description }
}

extension HCIHost {
  mutating func take(
    _ packet: borrowing ACLPacket, _ octets: Span<UInt8>, _ now: MonotonicTime,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    let handle = packet.handle
    guard let link = links[handle] else {
      holdBack(handle, octets)
      return
    }
    // Out of the link for as long as it lends frames: an access that lasts would be checked each time.
    var recombiner = L2CAPRecombiner()
    swap(&recombiner, &link.recombiner)
    let droppedBefore = recombiner.droppedFrames
    defer {
      counts.droppedFrames += recombiner.droppedFrames - droppedBefore
      swap(&recombiner, &link.recombiner)
    }
    var reaction = SignallingResponder.Reaction.none
    var answer: [UInt8] = []
    var channelID: UInt16 = 0
    var isStray = false
    try recombiner.receive(packet) { frame in
      channelID = frame.channelID
      switch channelID {
      case ATT.channelID:
        attribute(handle, frame.payload)
      case L2CAPFrame.FixedChannel.signalling:
        reaction = SignallingResponder.react(to: frame.payload, isUpdating: link.isUpdating)
      case L2CAPFrame.FixedChannel.securityManager: answer = takeSecurity(frame.payload, on: link, now: now)
      // Nothing is sent on a channel that is not there. Core 5.4, Vol 3, Part A, 2.1.
      default: isStray = true
      }
    }
    switch reaction {
    case .none: break
    case .answer(let octets): answer = octets
    case .update(let wanted, let octets):
      answer = octets
      if link.isTimingHeld {
        link.wantedTiming = wanted
      } else {
        link.isUpdating = submitOwn(LEConnectionUpdate(handle, wanted), for: handle)
      }
    case .stray: isStray = true
    }
    if isStray { counts.strayFrames += 1 }
    if !answer.isEmpty { reply(answer, channelID, handle) }
  }

  /// Puts off what the peer asks of the link's timing, until `releaseTiming`.
  package mutating func holdTiming(of handle: ConnectionHandle) { links[handle]?.isTimingHeld = true }

  /// - Returns: what the peer has asked for meanwhile, if anything.
  package mutating func releaseTiming(of handle: ConnectionHandle) -> LinkParameterRange? {
    links[handle]?.isTimingHeld = false
    return links[handle]?.wantedTiming.take()
  }

  mutating func holdBack(_ handle: ConnectionHandle, _ octets: Span<UInt8>) {
    guard isConnecting || isAdvertising, heldBack.count < Self.heldBackLimit else {
      counts.strayData += 1
      return
    }
    heldBack.append((handle, [UInt8](encoding: octets.count) { $0.append(octets) }))
  }

  private mutating func reply(_ answer: [UInt8], _ channelID: UInt16, _ handle: ConnectionHandle) {
    guard acl.waiting(handle) < HCILink.answerLimit,
      acl.append(answer.span, channelID: channelID, to: handle)
    else {
      counts.droppedAnswers += 1
      return
    }
  }
}
