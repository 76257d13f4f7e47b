import BLEStack
import BLEWire

/// A followed connection, identified by its access address.
final class AirConnection {
  static let allChannels: UInt64 = (1 << 37) - 1

  /// The longest frame of the Security Manager: code and both coordinates of a public key.
  private static let securityFrameByteCount = 65

  private(set) var report: AirLinkReport
  let handle: ConnectionHandle
  let accessAddress: UInt32
  let crcStart: UInt32?
  private(set) var parameters: LinkParameters?
  private(set) var channelMap: UInt64?
  private(set) var clock: EventClock
  var central = AirSide()
  var peripheral = AirSide()
  var guess = DirectionGuess()
  var pairing = LegacyPairing()
  var encryption = LinkEncryption()
  var isTerminated = false
  /// Whether the translated log contains the loss of the link.
  var isLost = false
  private(set) var lastTime: ReceiveTime
  var procedures = LinkProcedures()
  private var centralFrames = L2CAPRecombiner(maximumPayloadByteCount: securityFrameByteCount)
  private var peripheralFrames = L2CAPRecombiner(maximumPayloadByteCount: securityFrameByteCount)

  /// Creates a followed connection.
  ///
  /// - Parameters:
  ///   - start: `nil` for a connection that was up before the log starts.
  ///   - air: metadata of the first packet received.
  init(_ handle: ConnectionHandle, accessAddress: UInt32, _ start: ConnectIndication?, at time: ReceiveTime) {
    self.handle = handle
    self.accessAddress = accessAddress
    report = AirLinkReport(handle, accessAddress, at: time)
    report.central = start?.central
    report.peripheral = start?.peripheral
    crcStart = start?.crcStart
    parameters = start?.parameters
    channelMap = start?.channelMap
    // The window starts 1.25 ms after the end of the packet, which took 352 µs. Core 5.4, Vol 6, Part B,
    // 4.5.3.
    let window = start.map { time + TimeSpan(nanoseconds: (Int64($0.windowOffset) + 1) * 1_250_000) }
    clock = EventClock(interval: start?.parameters.interval ?? 0, windowStart: window)
    lastTime = time
  }

  var link: (central: DeviceAddress, peripheral: DeviceAddress)? {
    guard let central = report.central, let peripheral = report.peripheral else { return nil }
    return (central, peripheral)
  }

  /// Time at which the supervision timeout ends; `nil` if unknown.
  var deadline: ReceiveTime? {
    guard let parameters, !isLost, !isTerminated else { return nil }
    return lastTime + TimeSpan(nanoseconds: Int64(parameters.supervisionTimeout) * 10_000_000)
  }

  // MARK: Packets

  /// Sets the event counter and the direction of a packet if they are unknown, and determines whether the
  /// packet is a retransmission.
  func take(
    _ header: UInt8, _ payload: Span<UInt8>, _ packet: inout AirPacket, at time: ReceiveTime
  ) -> AirSide.Sequence {
    lastTime = time
    clock.take(time, channel: packet.channel, counter: packet.eventCounter)
    packet.eventCounter = packet.eventCounter ?? clock.event.map { UInt16(truncatingIfNeeded: $0) }
    if packet.direction == .unknown {
      if clock.isFirst { guess.startEvent(header) }
      packet.direction = guess.isFromCentral(header) ? .fromCentral : .fromPeripheral
    }
    if let map = procedures.map, clock.isPast(map.instant) {
      channelMap = map.channels
      procedures.map = nil
    }
    if let channel = packet.channel, let channelMap, channel < 37, channelMap >> UInt64(channel) & 1 == 0 {
      report.packetsOffMap += 1
    }
    // Two packets that another program decrypted may be identical without being a retransmission.
    let isEncrypted = encryption.isOn && !encryption.isBySniffer
    let sequence: AirSide.Sequence
    if packet.direction == .fromCentral {
      peripheral.hear(header)
      sequence = central.take(header, payload, event: clock.event, isEncrypted: isEncrypted)
    } else {
      central.hear(header)
      sequence = peripheral.take(header, payload, event: clock.event, isEncrypted: isEncrypted)
    }
    packet.isRetransmission = sequence == .retransmission
    return sequence
  }

  /// Counts a packet with a bad CRC. The contents are not used, because the packet may belong to another
  /// connection.
  func takeBadCRC(_ packet: AirPacket) {
    if packet.direction == .fromPeripheral { peripheral.countBadCRC() } else { central.countBadCRC() }
  }

  /// Returns a change of timing that takes effect with this packet.
  func dueTiming() -> LinkParameters? {
    guard let timing = procedures.timing, clock.isPast(timing.instant) else { return nil }
    procedures.timing = nil
    parameters = timing.parameters
    return timing.parameters
  }

  func duePHY() -> LinkProcedures.PHYs? {
    guard let phy = procedures.phy, clock.isPast(phy.instant) else { return nil }
    procedures.phy = nil
    return phy
  }

  func changeInterval(_ interval: UInt16, at instant: UInt16) {
    clock.change(interval: interval, at: instant)
  }

  /// Returns the complete report.
  func finish() -> AirLinkReport {
    var report = report
    report.endTime = lastTime
    report.fromCentral = central.counts
    report.fromPeripheral = peripheral.counts
    report.channels = channelMap?.nonzeroBitCount
    report.encryption = encryption.outcome(pairing)
    // An encrypted PDU may have changed the interval, unless the sniffer counts events.
    if clock.event != nil, clock.isCounted || !encryption.isClosed {
      report.missedEvents = clock.missedEvents
    }
    return report
  }

  func changeSide(isCentral: Bool, _ body: (inout AirSide) -> Void) {
    if isCentral { body(&central) } else { body(&peripheral) }
  }

  /// Handles a fragment of a frame, and follows a pairing in the frame.
  func hear(
    _ fragment: Span<UInt8>, isStart: Bool, isFromCentral: Bool, keyring: inout AirKeyring,
    searches: inout Int
  ) {
    let packet = ACLPacket(
      handle: handle, boundary: isStart ? .firstFlushable : .continuation, data: fragment)
    let link = link
    // The reader of the translated log reports frames that cannot be reassembled.
    if isFromCentral {
      try? centralFrames.receive(packet) {
        guard $0.channelID == L2CAPFrame.FixedChannel.securityManager else { return }
        pairing.take($0.payload, isFromCentral: true, link: link, keyring: &keyring, searches: &searches)
      }
    } else {
      try? peripheralFrames.receive(packet) {
        guard $0.channelID == L2CAPFrame.FixedChannel.securityManager else { return }
        pairing.take($0.payload, isFromCentral: false, link: link, keyring: &keyring, searches: &searches)
      }
    }
  }
}
