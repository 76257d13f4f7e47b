import BLEStack
import BLEWire

/// A byte stream from either side. The packets must not depend on how it is split.
func fuzzH4Framer(_ input: Span<UInt8>) {
  for sender in [HCIDirection.hostToController, .controllerToHost] {
    var whole = H4Framer(from: sender)
    var pieces = H4Framer(from: sender)
    var (packets, same): ([[UInt8]], [[UInt8]]) = ([], [])
    whole.receive(input) { packets.append(array($0)) }
    let size = 1 + input.count % 7
    var offset = 0
    while offset < input.count {
      let end = min(offset + size, input.count)
      pieces.receive(input.extracting(offset..<end)) { same.append(array($0)) }
      offset = end
    }
    precondition(packets == same && whole.garbage == pieces.garbage, "pieces change the packets")
    let byteCount = packets.reduce(0) { $0 + $1.count }
    precondition(byteCount + whole.garbage <= input.count)
  }
}

/// ACL packets of one link, reassembled with and without a limit.
func fuzzL2CAPRecombiner(_ input: Span<UInt8>) {
  let limit = 64
  var unlimited = L2CAPRecombiner()
  var limited = L2CAPRecombiner(maximumPayloadByteCount: limit)
  var (fragments, octets, frames) = (0, 0, 0)
  forEachPacket(input) { _, packet in
    guard let fragment = try? ACLPacket(validating: packet) else { return }
    fragments += 1
    octets += fragment.data.count
    try? unlimited.receive(fragment) { frame in
      frames += 1
      octets -= frame.payload.count
    }
    try? limited.receive(fragment) { precondition($0.payload.count <= limit) }
  }
  precondition(octets >= 0 && frames + unlimited.droppedFrames <= 2 * fragments)
  precondition(limited.droppedFrames <= 2 * fragments)
}

/// Packets from a controller to an initialised host.
///
/// In the first byte of each packet, bit 7 lets time pass, bits 4 to 6 select the host's action before it,
/// and bits 0 to 3 an action for the link's security.
func fuzzHCIHost(_ input: Span<UInt8>) {
  var session = HostSession()
  forEachPacket(input) { kind, packet in
    session.act(kind >> 4 & 7)
    session.secure(kind & 0x0F)
    session.receive(packet)
    if kind & 0x80 != 0 { session.wait() }
    session.settle()
  }
}

private struct HostSession: ~Copyable {
  private static let link = ConnectionHandle(0x40)
  private static let peer = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)
  /// Return parameters of a controller with two LE buffers of 27 bytes, by opcode. It does not know other
  /// commands.
  private static let answers: [UInt16: [UInt8]] = [
    0x0C03: [0], 0x1001: [0, 13, 0, 0, 13, 0xF1, 5, 0, 0], 0x1002: [0] + [UInt8](repeating: 0xFF, count: 64),
    0x1003: [0, 0, 0, 0, 0, 0x60, 0, 0, 0], 0x1009: [0, 1, 0x53, 0, 0x5E, 0, 0], 0x0C01: [0], 0x2001: [0],
    0x2003: [0, 0x23, 1, 0, 0, 0, 0, 0, 0], 0x2002: [0, 27, 0, 2],
  ]

  private var host = HCIHost()
  private var now = MonotonicTime(nanoseconds: 1_000_000_000)
  private var malformed = 0
  /// Numbers of pairings that have begun and that have ended.
  private var begun = 0
  private var over = 0

  init() {
    host.start()
    host.takeSecurityRequests()
    while let packet = host.nextPacket(now: now) {
      let opcode = UInt16(packet[1]) | UInt16(packet[2]) << 8
      let returned = Self.answers[opcode] ?? [1]
      receive(([0x04, 0x0E, UInt8(3 + returned.count), 1, packet[1], packet[2]] + returned).span)
    }
    precondition(host.controller.aclPacketCount == 2 && malformed == 0)
  }

  mutating func receive(_ packet: Span<UInt8>) {
    do throws(WireError) {
      try host.receive(packet, now: now) { report in
        var octets = 0
        try? AdvertisingData(report.data).forEach { octets += 2 + $1.count }
        precondition(octets <= report.data.count)
      } attribute: { _, pdu in
        precondition(pdu.count <= 65_535)
      }
    } catch {
      malformed += 1
    }
  }

  mutating func wait() {
    now = now.advanced(by: .milliseconds(900))
    host.expire(now: now)
  }

  /// Performs an action of the host's owner.
  mutating func act(_ action: UInt8) {
    let value: [UInt8] = [0x0A, 0x03, 0x00]
    switch action {
    case 1: _ = host.submit(LECreateConnection(to: Self.peer, ownType: .public, parameters: .default))
    case 2: _ = host.submit(Disconnect(Self.link))
    case 3: _ = host.submit(ReadRSSI(Self.link))
    case 4: _ = host.send(value.span, on: Self.link)
    default: break
    }
  }

  /// Performs an action on the Security Manager, or lets time pass.
  mutating func secure(_ action: UInt8) {
    switch action {
    case 1, 2:
      let features = PairingFeatures(
        capability: action == 1 ? .keyboardDisplay : .noInputNoOutput,
        requirements: [.bonding, .authenticated], initiatorKeys: [.signing],
        responderKeys: [.encryption, .identity, .signing])
      let supplies = PairingSupplies(keyPair: nil, random: { 0x0123_4567_89AB_CDEF })
      let own = host.controller.address
      if host.pair(
        on: Self.link, PairingConfiguration(features: features), local: own, supplies, now: now)
      {
        begun += 1
      }
    case 3: host.enterPasskey(123_456, on: Self.link, now: now)
    case 4: host.enterPasskey(nil, on: Self.link, now: now)
    case 5: host.confirmNumber(true, on: Self.link, now: now)
    case 6: host.cancelPairing(on: Self.link, now: now)
    case 7: _ = host.submit(LEEnableEncryption(Self.link, key: 1))
    case 8: now = now.advanced(by: .seconds(30))
    case 9: host.expire(now: now)
    default: break
    }
    precondition(host.deadline.map { $0 > MonotonicTime(nanoseconds: 0) } ?? true)
  }

  /// Reads the results, like an owner.
  mutating func settle() {
    while host.nextPacket(now: now) != nil {}
    for event in host.takeEvents() {
      if case .security(_, .paired) = event { over += 1 }
    }
    precondition(over <= begun, "a pairing ended twice")
    precondition(host.statistics.malformed == malformed)
    precondition((0...2).contains(host.fragmentsUnderWay) && (0...4096).contains(host.linkCount))
  }
}
