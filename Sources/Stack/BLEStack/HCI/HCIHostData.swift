package import BLEWire

/// State of one link.
final class HCILink {
  /// Maximum size of an L2CAP frame that a peer needs to send, in bytes. Longer frames are skipped, not
  /// buffered.
  static let frameLimit = 2048
  /// Number of queued fragments above which responses to the peer are dropped, so that a peer that sends
  /// requests faster than it reads responses cannot exhaust memory.
  static let answerLimit = 64

  let description: LinkDescription
  var recombiner = L2CAPRecombiner(maximumPayloadByteCount: HCILink.frameLimit)
  /// Whether an LE Connection Update requested by the peer is in progress. Only one is allowed at a time, so
  /// that a peer that keeps sending requests cannot fill the command queue.
  var isUpdating = false
  /// Whether connection updates that the peer requests are accepted but deferred.
  var isTimingHeld = false
  /// The latest deferred update.
  var wantedTiming: LinkParameterRange?
  var isEncrypted = false
  /// Origin of the key that encrypts the link, and of the key most recently supplied to the controller. As
  /// central, any key counts as `stored`.
  var keySource: LinkKeySource?
  var givenKeySource: LinkKeySource?
  var pairing: Pairing?
  /// Private address of this side at the time the link came up.
  var privacy: HostPrivacy?
  /// Whether a pairing has timed out. No further Security Manager PDU may be sent then.
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
    // Moved out of the link while it lends frames: a long access to the class would be checked for
    // exclusivity each time.
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
        reaction = SignallingResponder.react(
          to: frame.payload, as: link.description.role, isUpdating: link.isUpdating)
      case L2CAPFrame.FixedChannel.securityManager: answer = takeSecurity(frame.payload, on: link, now: now)
      // Unknown channels get no response. Core 5.4, Vol 3, Part A, 2.1.
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

  /// Defers connection updates that the peer requests until `releaseTiming`.
  package mutating func holdTiming(of handle: ConnectionHandle) { links[handle]?.isTimingHeld = true }

  /// Ends the deferral.
  ///
  /// - Returns: The latest update that the peer requested meanwhile, if any.
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
