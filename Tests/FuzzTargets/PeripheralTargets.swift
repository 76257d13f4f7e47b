import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import Dispatch
import Synchronization

/// Our device in virtual time, with a central that sends the input: ATT, Security Manager, links, keys.
///
/// In the first byte, bits 0 and 1 are the capability, bit 2 whether the device requires MITM protection, bit
/// 3 whether it has a key pair. In each packet's first byte, bits 0 to 2 select the event: an ATT PDU; a
/// Security Manager PDU; the link layer requests a key (bit 3: that of the central's bond); a link ends, or
/// comes up with the address of a bonded central, the central's own or one from the packet; a valid pairing
/// begins (configured by its next bytes); time passes; a value is notified; a PDU of that pairing is changed
/// (bit 3: dropped).
func fuzzGATTServer(_ input: Span<UInt8>) {
  guard !input.isEmpty else { return }
  let octets = array(input)
  let end = DispatchSemaphore(value: 0)
  peripheralLoop.task {
    await FuzzedPeripheral(octets[0]).run(octets)
    end.signal()
  }
  end.wait()
}

private let peripheralLoop: EventLoop = {
  do { return try EventLoop.start(clock: .virtual(from: ReceiveTime(nanoseconds: 1))) } catch {
    fatalError("\(error)")
  }
}()

private let victim = DeviceAddress(bits: 0x0000_5E00_5302, type: .public)
private let attacker = DeviceAddress(bits: 0x0000_5E00_5303, type: .public)
/// Values that require security, longer than any value that a central may write.
private let secrets: [(value: [UInt8], level: ATTSecurity.Level)] = [
  (Array("ENCRYPTED".utf8), .encrypted), (Array("AUTHENTIC".utf8), .authenticated),
  (Array("PUSHED ON".utf8), .encrypted),
]

private let protectedServices: [GATTServiceDescription] = {
  func characteristic(
    _ uuid: UInt16, _ properties: CharacteristicProperties, _ value: [UInt8], _ level: ATTSecurity.Level
  ) -> GATTCharacteristicDescription {
    var description = GATTCharacteristicDescription(BluetoothUUID(uuid), properties, value: value)
    if level > .none { description.demand(.needs(level)) }
    return description
  }
  var free = characteristic(0xAA04, [.read, .write, .writeWithoutResponse], [1], .none)
  free.maximumByteCount = 4
  return [
    GATTServiceDescription(
      BluetoothUUID(0xAA00),
      characteristics: [
        characteristic(0xAA01, .read, secrets[0].value, .encrypted),
        characteristic(0xAA02, .read, secrets[1].value, .authenticated),
        characteristic(0xAA03, [.notify, .indicate], [], .encrypted), free,
      ])
  ]
}()

private final class MemoryBonds: BondStore {
  private let kept: Mutex<[StoredBond]>

  init(_ bonds: [StoredBond]) { kept = Mutex(bonds) }
  func bonds() -> [StoredBond] { kept.withLock { $0 } }

  func keep(_ bond: StoredBond) {
    kept.withLock { kept in
      kept.removeAll { $0.device == bond.device }
      kept.append(bond)
    }
  }
}

/// The device's controller, and the central at the other end of its only link. Used only on the loop's
/// thread.
private final class FuzzedCentral: PacketTransport, @unchecked Sendable {
  private var client: TransportClient?
  private var answers: [[UInt8]] = []
  private var isDelivering = false
  private var frame: [UInt8] = []

  private(set) var isUp = false
  private var peer = attacker
  private(set) var mtu = ATT.defaultMTU
  private var requests = 0
  /// The current valid pairing, and the bond of the last one.
  private var pairing: Pairing?
  private var bond: Bond?
  /// Key that the link layer should encrypt with, and the resulting level. The central may not know the key.
  private var wanted: UInt128?
  private(set) var level = ATTSecurity.Level.none
  /// Whether a passkey was typed. From then on a bond may be replaced.
  private(set) var wasAuthenticated = false
  var fate: UInt8?

  func open(_ client: TransportClient) throws(SystemError) { self.client = client }
  func close() { client = nil }
  var kernelQueueDrops: Int { 0 }
  var garbage: Int { 0 }

  // MARK: From the host

  func send(_ packet: Span<UInt8>) throws(SystemError) {
    switch packet[0] {
    case 0x01: obey(packet)
    case 0x02: hear(packet)
    default: fatalError("no packet of a host's")
    }
  }

  private func obey(_ packet: Span<UInt8>) {
    let opcode = packet.u16(at: 1)
    var returned: [UInt8] = [0]
    switch opcode {
    case 0x0406:
      answer([0x04, 0x0F, 0x04, 0, 1, packet[1], packet[2]])
      return endLink(0x16)
    case 0x1001: returned = [0, 0x0D, 0, 0, 0x0D, 0xF1, 0x05, 0, 0]
    case 0x1002: returned += [UInt8](repeating: 0xFF, count: 64)
    case 0x1003: returned += [0, 0, 0, 0, 0x60, 0, 0, 0]
    case 0x1009: returned += [0x01, 0x53, 0x00, 0x5E, 0x00, 0x00]
    case 0x2002: returned += [0xFB, 0x00, 8]
    case 0x2003: returned += [0xFF, 0, 0, 0, 0, 0, 0, 0]
    case 0x2036: returned += [0]
    case 0x201A, 0x201B: returned += [0x40, 0x00]
    default: break
    }
    answer([0x04, 0x0E, UInt8(3 + returned.count), 1, packet[1], packet[2]] + returned)
    switch opcode {
    case 0x201A:
      let key = (0..<16).reduce(0 as UInt128) { $0 | UInt128(packet[6 + $1]) << UInt128(8 * $1) }
      encrypted(key)
    case 0x201B:
      if isUp { answer(level == .none ? [0x04, 0x08, 4, 6, 0x40, 0, 0] : [0x04, 0x30, 3, 6, 0x40, 0]) }
    default: break
    }
  }

  /// Handles a key that the device provides. The link continues if the key equals the central's.
  private func encrypted(_ key: UInt128) {
    guard isUp else { return }
    guard key == wanted else { return endLink(0x3D) }
    answer(level == .none ? [0x04, 0x08, 4, 0, 0x40, 0, 1] : [0x04, 0x30, 3, 0, 0x40, 0])
    if pairing?.key == key {
      // If the link already has a higher level, by its key, so does the pairing.
      level = max(level, .encrypted)
      pairing?.encryptionEnded(.success, now: peripheralLoop.clock.monotonic())
      goOn()
    } else {
      level = bond?.isAuthenticated ?? false ? .authenticated : .encrypted
    }
  }

  private func hear(_ packet: Span<UInt8>) {
    answer([0x04, 0x13, 5, 1, 0x40, 0, 1, 0])
    if packet[2] >> 4 & 3 != 1 { frame = [] }
    for index in 5..<packet.count { frame.append(packet[index]) }
    guard frame.count >= 4, frame.count == 4 + Int(frame[0]) + Int(frame[1]) << 8 else { return }
    let payload = Array(frame[4...])
    switch frame[2] {
    case 4: check(payload)
    case 6:
      pairing?.receive(payload.span, now: peripheralLoop.clock.monotonic())
      goOn()
    default: break
    }
  }

  private func check(_ pdu: [UInt8]) {
    precondition(pdu.count <= mtu, "longer than the MTU")
    let opcode = ATTOpcode(rawValue: pdu[0])
    if opcode.kind == .response {
      requests -= 1
      precondition(requests >= 0, "an answer to no request")
    }
    // The response echoes the bytes of the request.
    if opcode == .prepareWriteResponse { return }
    for (value, needed) in secrets where level < needed {
      let start = pdu.indices.first { pdu[$0...].starts(with: value) }
      precondition(start == nil, "a value that wants more than this link has")
    }
  }

  // MARK: To the host

  /// Delivers the packet later, because the host is sending.
  private func answer(_ packet: [UInt8]) {
    answers.append(packet)
    if isDelivering { return }
    isDelivering = true
    peripheralLoop.task { self.deliver() }
  }

  private func deliver() {
    let packets = answers
    answers = []
    isDelivering = false
    for packet in packets { client?.received(packet.span, ReceiveTime(nanoseconds: 1), false) }
    client?.settled()
  }

  /// Runs until the host has no more work.
  func settle() async {
    var idle = 0
    while idle < 12 {
      idle = isDelivering ? 0 : idle + 1
      await Task.yield()
    }
  }

  func say(_ payload: [UInt8], channel: UInt8) {
    guard isUp, payload.count <= 1024 else { return }
    if channel == 4, let first = payload.first {
      let opcode = ATTOpcode(rawValue: first)
      if opcode.kind == .request, payload.count <= mtu { requests += 1 }
      if opcode == .exchangeMTURequest, payload.count == 3 {
        mtu = max(ATT.defaultMTU, min(ATT.maximumMTU, Int(payload.span.u16(at: 1))))
      }
    }
    let (data, frame) = (payload.count + 4, payload.count)
    answer(
      [
        0x02, 0x40, 0x20, UInt8(data & 0xFF), UInt8(data >> 8), UInt8(frame & 0xFF), UInt8(frame >> 8),
        channel, 0,
      ]
        + payload)
  }

  func connect(as address: DeviceAddress) {
    (isUp, peer, mtu, requests, level, wanted, pairing) = (true, address, ATT.defaultMTU, 0, .none, nil, nil)
    answer(
      [0x04, 0x3E, 19, 0x01, 0, 0x40, 0, 1, address.type.rawValue]
        + [UInt8](encoding: 6) { $0.append(address) }
        + [0x28, 0, 0, 0, 0x2A, 0, 0])
  }

  func endLink(_ reason: UInt8) {
    guard isUp else { return }
    (isUp, level, pairing) = (false, .none, nil)
    answer([0x04, 0x05, 4, 0, 0x40, 0, reason])
  }

  func askForKey(_ random: UInt64, _ diversifier: UInt16, _ key: UInt128?) {
    guard isUp else { return }
    wanted = key
    answer(
      [0x04, 0x3E, 13, 0x05, 0x40, 0]
        + [UInt8](encoding: 10) {
          $0.append(u64: random)
          $0.append(u16: diversifier)
        })
  }

  func askForBondKey() {
    if let key = bond?.peerKey { askForKey(key.random, key.diversifier, key.key) }
  }

  func pair(_ first: UInt8, _ second: UInt8) {
    guard isUp, pairing == nil else { return }
    let configuration = pairingConfiguration(first, second)
    var pairing = Pairing(
      .initiator, configuration, local: peer, peer: DeviceAddress(bits: 0x0000_5E00_5301, type: .public),
      keyPair: configuration.features.requirements.contains(.secureConnections) ? ToyAgreement(7) : nil,
      random: makeNumbers(7))
    pairing.start(now: peripheralLoop.clock.monotonic())
    self.pairing = pairing
    goOn()
  }

  private func goOn() {
    let now = peripheralLoop.clock.monotonic()
    while true {
      let actions = pairing?.takeActions() ?? []
      if actions.isEmpty { return }
      for action in actions {
        switch action {
        case .send(let pdu):
          var octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
          if let fate {
            self.fate = nil
            if fate & 8 != 0 { continue }
            octets[Int(fate >> 4) % octets.count] ^= 0x80
          }
          say(octets, channel: 6)
        case .showPasskey, .compare: pairing?.confirm(true, now: now)
        case .askPasskey: pairing?.enter(passkey: fuzzPasskey, now: now)
        case .encrypt(let key): askForKey(0, 0, key)
        case .finished(let result):
          pairing = nil
          guard case .success(let bond) = result else { break }
          self.bond = bond
          wasAuthenticated = wasAuthenticated || bond.isAuthenticated
          if bond.isAuthenticated { level = .authenticated }
        }
      }
    }
  }

  /// Traps unless each request got a response.
  func checkEnd() { precondition(!isUp || requests == 0, "a request without an answer") }
}

private let fuzzPasskey: UInt32 = 4711

private struct FuzzedPeripheral {
  private let central = FuzzedCentral()
  private let settings: SecuritySettings
  private let store: MemoryBonds
  private let original: StoredBond

  init(_ options: UInt8) {
    var bond = Bond(isAuthenticated: true, isSecureConnections: true, keyByteCount: 16, isBonded: true)
    bond.localKey = LongTermKey(key: 0xFEED)
    bond.peerKey = bond.localKey
    original = StoredBond(
      device: victim, local: DeviceAddress(bits: 0x0000_5E00_5301, type: .public), bond: bond)
    store = MemoryBonds([original])
    let capabilities: [IOCapability] = [.noInputNoOutput, .displayYesNo, .keyboardOnly, .keyboardDisplay]
    let agent = PairingAgent(
      capabilities[Int(options & 3)], askPasskey: { fuzzPasskey }, compare: { _ in options & 16 == 0 })
    let makeKeyPair: @Sendable () -> any P256KeyAgreement = { ToyAgreement(9) }
    settings = SecuritySettings(
      agent: agent, raising: .byPairing, protection: options & 4 == 0 ? .encrypted : .authenticated,
      store: store, minimumKeyByteCount: 7, makeKeyPair: options & 8 == 0 ? nil : makeKeyPair)
  }

  func run(_ octets: [UInt8]) async {
    do {
      let adapter = try await HostAdapter.open(central, name: "fuzzed", on: peripheralLoop)
      try await adapter.secure(settings)
      let server = GATTServer(protectedServices, on: peripheralLoop)
      let advertising = peripheralLoop.task {
        try? await adapter.advertise(DeviceAdvertisement(name: "F"), serving: server)
      }
      await central.settle()
      await play(Array(octets.dropFirst()), server)
      central.checkEnd()
      advertising.cancel()
      _ = await advertising.value
      await server.close()
      await adapter.close()
    } catch { fatalError("\(error)") }
  }

  private func play(_ octets: [UInt8], _ server: GATTServer) async {
    var packets: [(kind: UInt8, payload: [UInt8])] = []
    forEachPacket(octets.span) { packets.append(($0, array($1))) }
    for (kind, payload) in packets.prefix(64) {
      switch kind & 7 {
      case 0: central.say(payload, channel: 4)
      case 1: central.say(payload, channel: 6)
      case 2:
        if kind & 8 != 0 {
          central.askForBondKey()
        } else {
          let numbers = payload + [UInt8](repeating: 0, count: 10)
          central.askForKey(numbers.span.u64(at: 0), numbers.span.u16(at: 8), nil)
        }
      case 3: changeLink(kind, payload)
      case 4: central.pair(payload.first ?? 0x08, payload.dropFirst().first ?? 0x07)
      case 5: try? await peripheralLoop.wait(for: .seconds(31))
      case 6: await push(kind, server)
      default: central.fate = kind
      }
      await central.settle()
      let kept = store.bonds().first { $0.device == victim }
      precondition(central.wasAuthenticated || kept == original, "the bond of another")
    }
  }

  private func changeLink(_ kind: UInt8, _ payload: [UInt8]) {
    if central.isUp { return central.endLink(0x13) }
    switch kind >> 3 & 3 {
    case 0: central.connect(as: victim)
    case 1: central.connect(as: attacker)
    default:
      let bits = payload.prefix(6).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
      central.connect(as: DeviceAddress(bits: bits, type: .random))
    }
  }

  private func push(_ kind: UInt8, _ server: GATTServer) async {
    guard let handle = await server.handle(of: BluetoothUUID(0xAA03)) else { fatalError("no such value") }
    for central in await server.centrals {
      peripheralLoop.task {
        if kind & 8 == 0 {
          try? await server.notify(secrets[2].value, of: handle, to: central)
        } else {
          try? await server.indicate(secrets[2].value, of: handle, to: central)
        }
      }
    }
  }
}
