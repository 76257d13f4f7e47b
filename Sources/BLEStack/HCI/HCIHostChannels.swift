public import BLECore
public import BLEWire

/// LE credit-based channels, as client. Core 5.4, Vol 3, Part A, 3.4, 4.22–4.24 and 10.1.
extension HCIHost {
  /// The longest PDU of a channel that can be taken.
  public static let channelMPSLimit = UInt16(HCILink.frameLimit)
  /// Fragments that wait for the controller while channels still add to them: ATT stays quick beside a channel.
  private static let feedLimit = 4

  /// Asks a peer for a channel; ends with the event `opened` or `refused`.
  ///
  /// - Parameters:
  ///   - spsm: the service's number.
  ///   - parameters: what we take; MPS at most `channelMPSLimit`, at least one credit.
  ///   - handle: of the link.
  ///   - now: the deadline counts from here.
  /// - Returns: `nil` where the link is gone, or all of its 64 channel numbers are taken.
  public mutating func openChannel(
    to spsm: UInt16, _ parameters: CreditBasedParameters, on handle: ConnectionHandle, now: MonotonicTime
  ) -> ChannelID? {
    precondition(
      parameters.isValid && parameters.mps <= Self.channelMPSLimit && parameters.credits > 0,
      "parameters out of range")
    lastChannelNumber += 1
    hasChannels = true
    return links[handle]?.channels.open(
      spsm, parameters, on: handle, number: lastChannelNumber, now: now)
  }

  /// Queues an SDU.
  ///
  /// - Returns: `nil` for a channel that is not open; after `full` comes the event `writable`.
  public mutating func send(
    _ sdu: Span<UInt8>, on channel: ChannelID
  ) -> CreditBasedChannelMachine.Submission? {
    links[channel.handle]?.channels.submit(sdu, to: channel)
  }

  /// Somebody has one of the SDUs that came: the peer may send another.
  public mutating func taken(on channel: ChannelID) {
    links[channel.handle]?.channels.taken(of: channel)
  }

  /// Ends a channel, with the event `closed`. What waits to be sent is dropped.
  public mutating func close(_ channel: ChannelID, now: MonotonicTime) {
    links[channel.handle]?.channels.close(channel, now: now)
  }

  /// Moves on to the controller what channels have to send, as far as it has room.
  mutating func feedChannels() {
    guard hasChannels else { return }
    hasChannels = false
    for (handle, link) in links where !link.channels.isEmpty {
      hasChannels = true
      while acl.waiting(handle) < HCILink.answerLimit, let signal = link.channels.nextSignal() {
        _ = acl.append(signal.span, channelID: L2CAPFrame.FixedChannel.signalling, to: handle)
      }
      while acl.waiting(handle) < Self.feedLimit, let (channelID, pdu) = link.channels.nextPDU() {
        _ = acl.append(pdu.span, channelID: channelID, to: handle)
      }
      tellChannelEvents(of: link)
    }
  }

  mutating func tellChannelEvents(of link: HCILink) {
    guard link.channels.hasEvents else { return }
    for (id, event) in link.channels.takeEvents() { events.append(.channel(id, event)) }
  }
}
