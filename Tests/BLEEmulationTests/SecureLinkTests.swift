import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Our host pairs with an emulated peripheral over a virtual controller, and uses the stored key later.
///
/// Both Security Managers are ours. Other tests show that they agree with other stacks (`PairingVectorTests`,
/// `PairingPeerTests`); these tests cover the path between them.
@Suite struct SecureLinkTests {
  /// A peripheral that requires encryption for its only value.
  final class Locked: VirtualPeripheral {
    static let address = DeviceAddress(bits: 0x70CB_0D00_A1B3, type: .public)
    static let valueHandle = AttributeHandle(3)
    static let signedHandle = AttributeHandle(5)
    let advertisement: Advertisement? = Advertisement(address: address, data: [2, 1, 6])
    let services = [
      GATTServiceDescription(
        .heartRate,
        characteristics: [
          GATTCharacteristicDescription(BluetoothUUID(0x2A39), [.write]),
          GATTCharacteristicDescription(BluetoothUUID(0x2A3A), [.authenticatedSignedWrites]),
        ])
    ]
    let security: PeripheralSecurity?
    private var link: PeripheralLink?
    /// Signed values that were written.
    private(set) var written: [[UInt8]] = []

    init(_ security: PeripheralSecurity) { self.security = security }

    func connected(_ link: PeripheralLink, now: MonotonicTime) { self.link = link }

    func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? {
      if handle == Self.signedHandle {
        written.append([UInt8](encoding: value.count) { $0.append(value) })
        return nil
      }
      return link?.isEncrypted == true ? nil : .insufficientEncryption
    }
  }

  private static let central = DeviceAddress(bits: 0x0000_5E00_5301, type: .public)

  private static func configuration(_ capability: IOCapability) -> PairingConfiguration {
    PairingConfiguration(
      features: PairingFeatures(
        capability: capability, requirements: [.bonding, .authenticated], initiatorKeys: [.signing],
        responderKeys: [.encryption, .identity, .signing]))
  }

  /// Write Request and its responses. Core 5.4, Vol 3, Part F, 3.4.5.1.
  private let write: [UInt8] = [0x12, 0x03, 0x00, 0x01]
  private let refusal: [UInt8] = [0x01, 0x12, 0x03, 0x00, 0x0F]
  private let response: [UInt8] = [0x13]

  @Test(arguments: [VirtualAir.Pace.immediate, .air]) func pairsAndComesBack(_ pace: VirtualAir.Pace) throws {
    var passkey = Self.configuration(.displayOnly)
    passkey.passkey = 46128
    let security = PeripheralSecurity(passkey)
    let pair = SecurePair(Locked(security), pace)
    let first = try pair.connect(Locked.address)
    let handle = try #require(first)
    #expect(try pair.request(write, on: handle) == refusal)

    #expect(try pair.pair(on: handle, Self.configuration(.keyboardOnly), as: Self.central, typing: 46128))
    let bond = try #require(pair.bond)
    #expect(bond.isAuthenticated)
    #expect(security.bonds[Self.central]?.localKey == bond.peerKey)
    #expect(pair.isEncrypted(handle))
    #expect(try pair.request(write, on: handle) == response)

    // The same device on the next link: only the key is used.
    try pair.disconnect(handle)
    let second = try pair.connect(Locked.address)
    let again = try #require(second)
    #expect(try pair.request(write, on: again) == refusal)
    let key = try #require(bond.peerKey)
    #expect(try pair.encrypt(again, key) == .success)
    #expect(try pair.request(write, on: again) == response)
    // Once more: a different event reports it.
    #expect(try pair.encrypt(again, key) == .success)
  }

  /// A signed write changes the value without encryption, once, if it is signed with the distributed key.
  @Test func takesWhatIsSigned() throws {
    let security = PeripheralSecurity(Self.configuration(.noInputNoOutput))
    let locked = Locked(security)
    let pair = SecurePair(locked, .immediate)
    let first = try pair.connect(Locked.address)
    let handle = try #require(first)
    #expect(try pair.pair(on: handle, Self.configuration(.noInputNoOutput), as: Self.central, typing: nil))
    var bond = try #require(pair.bond)
    let key = try #require(bond.localSigningKey)
    #expect(security.bonds[Self.central]?.peerSigningKey == key)
    try pair.disconnect(handle)
    let second = try pair.connect(Locked.address)
    let again = try #require(second)
    let taken = bond.takeSignCounter()
    let counter = try #require(taken)
    let message: [UInt8] = [0xD2, 0x05, 0x00, 0x07]
    let signed = message + MessageSignature(of: message.span, counter: counter, key: key).octets
    _ = try pair.request(signed, on: again)
    #expect(locked.written == [[7]])
    #expect(security.bonds[Self.central]?.peerSignCounter == 1)
    // Replayed by an eavesdropper; signed with another key.
    _ = try pair.request(signed, on: again)
    let wrong = message + MessageSignature(of: message.span, counter: 1, key: key ^ 1).octets
    _ = try pair.request(wrong, on: again)
    #expect(locked.written == [[7]])
    let next = message + MessageSignature(of: message.span, counter: 9, key: key).octets
    _ = try pair.request(next, on: again)
    #expect(locked.written.count == 2)
    #expect(!pair.isEncrypted(again))
  }

  /// A central begins and then sends nothing: after 30 s it can pair only over another link. Core 5.4, Vol 3,
  /// Part H, 3.4.
  @Test(arguments: [VirtualAir.Pace.immediate, .air]) func givesUpASilentCentral(_ pace: VirtualAir.Pace)
    throws
  {
    let pair = SecurePair(Locked(PeripheralSecurity(Self.configuration(.noInputNoOutput))), pace)
    let first = try pair.connect(Locked.address)
    let handle = try #require(first)
    let request: [UInt8] = [0x01, 0x03, 0x00, 0x01, 0x10, 0x00, 0x01]
    let response: [UInt8] = [0x02, 0x03, 0x00, 0x05, 0x10, 0x00, 0x01]
    #expect(try pair.tell(request, on: handle) == [response])
    try pair.wait(.seconds(29))
    #expect(try pair.tell(request, on: handle) == [])
    try pair.disconnect(handle)
    let second = try pair.connect(Locked.address)
    let again = try #require(second)
    #expect(try pair.tell(request, on: again) == [response])
  }

  @Test(arguments: [VirtualAir.Pace.immediate, .air]) func missesAKey(_ pace: VirtualAir.Pace) throws {
    let security = PeripheralSecurity(Self.configuration(.noInputNoOutput))
    let pair = SecurePair(Locked(security), pace)
    let first = try pair.connect(Locked.address)
    let handle = try #require(first)
    #expect(try pair.encrypt(handle, LongTermKey(key: 1, diversifier: 2, random: 3)) == .pinOrKeyMissing)
    #expect(!pair.isEncrypted(handle))
    #expect(try pair.request(write, on: handle) == refusal)
  }

  /// A link whose ends have different keys fails with 0x3D, MIC failure.
  @Test(arguments: [VirtualAir.Pace.immediate, .air]) func losesTheLinkByAWrongKey(_ pace: VirtualAir.Pace)
    throws
  {
    let security = PeripheralSecurity(Self.configuration(.noInputNoOutput))
    let pair = SecurePair(Locked(security), pace)
    let first = try pair.connect(Locked.address)
    let handle = try #require(first)
    #expect(try pair.pair(on: handle, Self.configuration(.noInputNoOutput), as: Self.central, typing: nil))
    let known = try #require(pair.bond?.peerKey)
    try pair.disconnect(handle)
    let second = try pair.connect(Locked.address)
    let again = try #require(second)
    let wrong = LongTermKey(key: known.key ^ 1, diversifier: known.diversifier, random: known.random)
    #expect(try pair.encrypt(again, wrong) == nil)
    let events = pair.events
    #expect(events.contains(.disconnected(again, reason: HCIStatus(rawValue: 0x3D))))
  }

  @Test func doesNotPairByAWrongPasskey() throws {
    var passkey = Self.configuration(.displayOnly)
    passkey.passkey = 46128
    let security = PeripheralSecurity(passkey)
    let pair = SecurePair(Locked(security), .immediate)
    let first = try pair.connect(Locked.address)
    let handle = try #require(first)
    #expect(
      try !pair.pair(on: handle, Self.configuration(.keyboardOnly), as: Self.central, typing: 46129))
    #expect(security.bonds.isEmpty)
    let events = pair.events
    #expect(events.contains(.security(handle, .paired(.failure(.refused(.confirmValueFailed))))))
  }

  /// LE Encrypt, with the sample of Core 5.4, Vol 6, Part C, 1; LE Enable Encryption for an unknown link.
  @Test func answersCommands() {
    let bench = ControllerBench()
    #expect(
      bench.send("01172020 bf01fb9d4ef3bc36d874f5394138684c 1302f1e0dfcebdac7968574635241302")
        == ["040e1401172000" + "66c6c2278e3b8e053e7ea326521bad99"])
    #expect(
      bench.send("0119201c 4000 0000000000000000 0000 00000000000000000000000000000000") == ["040f0402011920"]
    )
  }
}

/// Our host and a virtual controller with one peripheral.
private final class SecurePair {
  private var host = HCIHost()
  private let controller: VirtualController
  private var now = MonotonicTime(nanoseconds: 1_000_000_000)
  private var pdus: [[UInt8]] = []
  private var answers: [[UInt8]] = []
  private(set) var events: [HCIHostEvent] = []

  init(_ peripheral: some VirtualPeripheral, _ pace: VirtualAir.Pace) {
    controller = VirtualController(
      peripherals: [peripheral], air: VirtualAir.Configuration(pace: pace))
    host.start()
  }

  func isEncrypted(_ handle: ConnectionHandle) -> Bool { host.isEncrypted(handle) }

  var bond: Bond? {
    for case .security(_, .paired(.success(let bond))) in events { return bond }
    return nil
  }

  /// Transfers packets in both directions until neither side has any.
  func run() throws {
    var isQuiet = false
    while !isQuiet {
      isQuiet = true
      while let packet = host.nextPacket(now: now) {
        isQuiet = false
        controller.receive(packet.span, now: now)
      }
      controller.advance(to: now)
      var packets: [[UInt8]] = []
      controller.drain { packet in packets.append([UInt8](encoding: packet.count) { $0.append(packet) }) }
      for packet in packets {
        isQuiet = false
        // H4 type, two headers, then the Security Manager's channel.
        if packet.count > 9, packet[0] == 2, packet[7] == 6 { answers.append(Array(packet[9...])) }
        try host.receive(packet.span, now: now) { _ in
        } attribute: { _, pdu in
          pdus.append([UInt8](encoding: pdu.count) { $0.append(pdu) })
        }
      }
      events += host.takeEvents()
    }
  }

  /// Lets two virtual seconds pass.
  func wait(_ time: Duration = .seconds(2)) throws {
    for _ in 0..<Int(time / .milliseconds(10)) {
      now = now.advanced(by: .milliseconds(10))
      try run()
    }
  }

  func connect(_ peer: DeviceAddress) throws -> ConnectionHandle? {
    try run()
    events = []
    _ = host.submit(LECreateConnection(to: peer, ownType: .public, parameters: .default))
    try wait()
    for case .connected(let link) in events { return link.handle }
    return nil
  }

  func disconnect(_ handle: ConnectionHandle) throws {
    _ = host.submit(Disconnect(handle))
    try wait()
  }

  /// Sends a Security Manager PDU that bypasses our host's own Security Manager.
  ///
  /// - Returns: PDUs of the other side.
  func tell(_ pdu: [UInt8], on handle: ConnectionHandle) throws -> [[UInt8]] {
    let frame = [UInt8](encoding: pdu.count + 4) {
      $0.append(u16: UInt16(pdu.count))
      $0.append(u16: 6)
      for octet in pdu { $0.append(octet) }
    }
    let packet = [UInt8](encoding: frame.count + 5) {
      $0.append(HCIPacketType.acl.rawValue)
      ACLPacket(handle: handle, boundary: .firstNonFlushable, data: frame.span).encode(into: &$0)
    }
    answers = []
    controller.receive(packet.span, now: now)
    try wait()
    return answers
  }

  func request(_ pdu: [UInt8], on handle: ConnectionHandle) throws -> [UInt8]? {
    pdus = []
    _ = host.send(pdu.span, on: handle)
    try wait()
    return pdus.first
  }

  func pair(
    on handle: ConnectionHandle, _ configuration: PairingConfiguration, as own: DeviceAddress,
    typing passkey: UInt32?
  ) throws -> Bool {
    _ = host.pair(
      on: handle, configuration, local: own, PairingSupplies(keyPair: nil), now: now)
    try wait()
    if events.contains(.security(handle, .askPasskey)) {
      host.enterPasskey(passkey, on: handle, now: now)
      try wait()
    }
    return bond != nil
  }

  func encrypt(_ handle: ConnectionHandle, _ key: LongTermKey) throws -> HCIStatus? {
    events = []
    _ = host.submit(
      LEEnableEncryption(handle, random: key.random, diversifier: key.diversifier, key: key.key))
    try wait()
    for case .encryption(handle, let status) in events { return status }
    return nil
  }
}
