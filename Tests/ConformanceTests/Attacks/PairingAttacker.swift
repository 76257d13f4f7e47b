import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

/// One of our hosts and the peer at the other end of its links: a device if the host connects, a central if
/// it advertises.
///
/// The peer sends what a test specifies. With `pair` it runs a Security Manager whose PDUs the test can
/// replace.
struct PairingAttacker {
  /// The peer's static address.
  static let address = DeviceAddress(bits: 0xC0FF_EE00_0001, type: .random)
  static let local = DeviceAddress(bits: 0x0000_5E00_5301, type: .public)
  /// Handle of the first link.
  static let link: UInt16 = 0x40

  let host: HostAdapter
  let controller: HandController
  let bonds = KeptBonds()
  private let loop: EventLoop

  static func open(as local: DeviceAddress = local) async throws -> PairingAttacker {
    let pair = try SocketPair()
    let controller = try HandController(pair.theirs(), local)
    let loop = try EventLoop.start()
    let host = try await HostAdapter.open(
      try loop.transport(over: pair.ours(), .datagrams), name: "virtual", on: loop)
    return PairingAttacker(host: host, controller: controller, loop: loop)
  }

  func close() async {
    await host.close()
    loop.stop()
  }

  /// Makes the host pair on request, with Just Works unless the test changes that.
  func secure(_ change: (inout SecuritySettings) -> Void = { _ in }) async throws {
    var settings = SecuritySettings(raising: .byPairing, store: bonds, makeKeyPair: try P256KeyPair.maker())
    change(&settings)
    try await host.secure(settings)
  }

  // MARK: Bonds

  static let key: UInt128 = 0x0F1E_2D3C_4B5A_6978_8796_A5B4_C3D2_E1F0
  /// Numbers with which a central requests the key of a legacy bond.
  static let (random, diversifier) = (0x0102_0304_0506_0708 as UInt64, 0x1234 as UInt16)

  /// Gives the host a bond with the peer. The peer does not have the key.
  @discardableResult func keepBond(
    isAuthenticated: Bool = false, isSecure: Bool = true, with device: DeviceAddress = address,
    as local: DeviceAddress = local
  ) -> StoredBond {
    let key =
      isSecure
      ? LongTermKey(key: Self.key)
      : LongTermKey(key: Self.key, diversifier: Self.diversifier, random: Self.random)
    let stored = StoredBond(
      device: device, local: local,
      bond: Bond(
        isAuthenticated: isAuthenticated, isSecureConnections: isSecure, keyByteCount: 16, isBonded: true,
        peerKey: key, localKey: key))
    bonds.keep(stored)
    return stored
  }

  // MARK: Links

  func connect() async throws -> Connection {
    try await host.connect(to: Self.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
  }

  /// Pairs with the peer; the host is the central.
  ///
  /// - Returns: The reason if it failed.
  func hostPairs(_ connection: Connection) async -> PairingError? {
    do throws(HostError) { _ = try await host.pair(connection) } catch {
      if case .pairing(_, let reason) = error { return reason }
      Issue.record(error)
    }
    return nil
  }

  /// Makes the host a device with an open value (AA01) and one that requires encryption (AA02).
  func serve(_ body: (GATTServer) async throws -> Void) async throws {
    var protected = GATTCharacteristicDescription(BluetoothUUID(0xAA02), [.read, .write], value: [0x5E])
    protected.demand(.needs(.encrypted))
    let open = GATTCharacteristicDescription(BluetoothUUID(0xAA01), .read, value: [0x01])
    let services = [GATTServiceDescription(BluetoothUUID(0xAA00), characteristics: [open, protected])]
    try await host.advertise(DeviceAdvertisement(name: "Device"), services: services) { server in
      try await body(server)
    }
  }

  /// Connects a central to the host.
  func arrive(_ link: UInt16 = link, from address: DeviceAddress = address) async throws {
    try await eventually("advertising") { controller.isAdvertising }
    controller.connected(link, to: address, isCentral: true)
    // It has its response once the link is up.
    _ = try await controller.fence(link)
  }

  /// Reads the protected value as a central and returns the response: `0b5e`, or an error.
  func readsProtected(_ server: GATTServer, _ link: UInt16 = link) async throws -> String {
    let handle = try #require(await server.handle(of: BluetoothUUID(0xAA02))).rawValue
    return try await controller.ask("0a" + hexOf([UInt8(handle & 0xFF), UInt8(handle >> 8)]), link)
  }

  // MARK: The peer's Security Manager

  /// Returns the PDUs to send instead of the peer's PDU.
  typealias Edit = @Sendable (SecurityManagerPDU) -> [SecurityManagerPDU]

  /// Key to encrypt with: that of the pairing, that of `keepBond(isSecure: false)`, or none. Without a key,
  /// only an event reports encryption.
  enum Key: Sendable { case new, old, none }

  /// Features that the peer offers, and its answers to prompts.
  struct Manners: Sendable {
    var features = PairingFeatures(
      capability: .noInputNoOutput, requirements: [.bonding, .secureConnections],
      initiatorKeys: [.encryption, .identity, .signing], responderKeys: [.encryption, .identity, .signing])
    var keyPair: (any P256KeyAgreement)?
    var identity: DeviceIdentity?
    var passkey: UInt32?
    /// Key with which a central encrypts at the end of the pairing.
    var key = Key.new
    var edit: Edit = { [$0] }

    init() throws { keyPair = try P256KeyPair.maker()() }
  }

  /// Pairs with the host, using the peer's Security Manager.
  ///
  /// - Returns: The peer's result.
  @discardableResult func pair(
    _ role: Pairing.Role, _ manners: Manners, _ link: UInt16 = link, as own: DeviceAddress = address
  ) async throws -> Result<Bond, PairingError> {
    var configuration = PairingConfiguration(
      features: manners.features, minimumKeyByteCount: 7, identity: manners.identity)
    configuration.passkey = manners.passkey
    var pairing = Pairing(
      role, configuration, local: own, peer: Self.local, keyPair: manners.keyPair,
      random: { .random(in: 1 ... .max) })
    let now = MonotonicTime(nanoseconds: 0)
    if role == .initiator { pairing.start(now: now) }
    while true {
      var actions = pairing.takeActions()[...]
      while let action = actions.popFirst() {
        switch action {
        case .send(let pdu):
          // Set before the host can request it.
          if let key = pairing.key { controller.know(key) }
          for pdu in manners.edit(pdu) {
            controller.say(pdu, link)
            // The peer sent the failure itself: there is nothing to wait for.
            if case .pairingFailed = pdu { pairing.cancel() }
          }
        case .askPasskey: pairing.enter(passkey: manners.passkey, now: now)
        case .compare: pairing.confirm(true, now: now)
        case .showPasskey: break
        case .encrypt where manners.key != .new:
          if manners.key == .old {
            controller.know(Self.key)
            controller.requestKey(link, random: Self.random, diversifier: Self.diversifier)
            #expect(try await controller.keyAnswer(link) == Self.key)
          } else {
            controller.encryptionChanged(link)
          }
          // A host that believes it would send keys; the peer does not wait for them.
          pairing.encryptionEnded(.pinOrKeyMissing, now: now)
        case .encrypt(let key):
          let isTaken = try await controller.encrypts(link, key)
          pairing.encryptionEnded(isTaken ? .success : .pinOrKeyMissing, now: now)
        case .finished(let result): return result
        }
        actions += pairing.takeActions()
      }
      if let key = pairing.key { controller.know(key) }
      switch try await controller.next(link) {
      case .security(let hex): pairing.receive(octetsOf(hex).span, now: now)
      case .encryption(let key):
        pairing.encryptionEnded(key == pairing.key ? .success : .pinOrKeyMissing, now: now)
      case .disconnection: pairing.lose()
      case .attribute, .key: break
      }
    }
  }
}

/// A controller that a test plays. It completes each command, and encrypts a link if both ends have the same
/// key.
final class HandController: Sendable {
  /// Packets from the host on a link, or commands about the link.
  enum Heard: Hashable, Sendable {
    case security(String)
    case attribute(String)
    /// LE Enable Encryption with this key.
    case encryption(UInt128)
    /// The reply to a Long Term Key Request; `nil` if the host has no key.
    case key(UInt128?)
    case disconnection
  }

  private struct State: Sendable {
    /// Packets that the test has not read yet, and all packets.
    var news: [UInt16: [Heard]] = [:]
    var all: [UInt16: [Heard]] = [:]
    /// Keys that the peer has.
    var keys: Set<UInt128> = []
    var isAdvertising = false
    var nextLink = PairingAttacker.link
    /// Peers of the links that the host makes; the last one is used for all further links.
    var devices = [PairingAttacker.address]
    var refusal: UInt8 = 0x06
  }

  private let peer: Peer
  private let local: DeviceAddress
  private let state = Mutex(State())

  init(_ descriptor: consuming FileDescriptor, _ local: DeviceAddress) throws {
    peer = Peer(descriptor)
    self.local = local
    try peer.read { [weak self] in self?.answers(to: $0) ?? [] }
  }

  // MARK: Sending

  var isAdvertising: Bool { state.withLock(\.isAdvertising) }

  func know(_ key: UInt128) { state.withLock { _ = $0.keys.insert(key) } }

  /// Sets the peers of the links that the host makes, in order.
  func expect(_ devices: [DeviceAddress]) { state.withLock { $0.devices = devices } }

  /// Sets the status with which the controller refuses encryption.
  func refuse(by status: UInt8) { state.withLock { $0.refusal = status } }

  func say(_ pdu: SecurityManagerPDU, _ link: UInt16 = PairingAttacker.link) {
    say(hexOf([UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }), link)
  }

  /// Sends data on the Security Manager's channel.
  func say(_ hex: String, _ link: UInt16 = PairingAttacker.link) { data(0x0006, octetsOf(hex), link) }

  private func data(_ channel: UInt16, _ payload: [UInt8], _ link: UInt16) {
    let frame = Self.two(UInt16(payload.count)) + Self.two(channel) + payload
    peer.send([0x02] + Self.two(link | 0x2000) + Self.two(UInt16(frame.count)) + frame)
  }

  func event(_ code: UInt8, _ parameters: [UInt8]) { peer.send(Self.event(code, parameters)) }

  /// LE Connection Complete.
  func connected(_ link: UInt16, to device: DeviceAddress, isCentral: Bool) {
    state.withLock { if isCentral { $0.isAdvertising = false } }
    peer.send(Self.connectionComplete(link, device, isCentral: isCentral))
  }

  /// Encryption Change.
  func encryptionChanged(_ link: UInt16 = PairingAttacker.link, _ status: UInt8 = 0, isOn: Bool = true) {
    event(0x08, [status] + Self.two(link) + [isOn ? 1 : 0])
  }

  /// LE Long Term Key Request: the central starts encryption.
  func requestKey(_ link: UInt16 = PairingAttacker.link, random: UInt64 = 0, diversifier: UInt16 = 0) {
    let numbers = (0..<8).map { UInt8(truncatingIfNeeded: random >> (8 * $0)) }
    event(0x3E, [0x05] + Self.two(link) + numbers + Self.two(diversifier))
  }

  /// Encrypts as the central with a key of the pairing.
  ///
  /// - Returns: whether the host has the same key.
  func encrypts(_ link: UInt16, _ key: UInt128) async throws -> Bool {
    know(key)
    requestKey(link)
    return try await keyAnswer(link) == key
  }

  // MARK: Receiving

  /// Returns the next packet that the test has not read.
  func next(_ link: UInt16 = PairingAttacker.link) async throws -> Heard {
    try await eventually("a word of the host's") { state.withLock { $0.news[link]?.isEmpty == false } }
    return state.withLock { state in
      state.news[link]?.removeFirst() ?? .disconnection
    }
  }

  /// The next packet on the Security Manager's channel.
  func answer(_ link: UInt16 = PairingAttacker.link) async throws -> String {
    while true {
      if case .security(let hex) = try await next(link) { return hex }
    }
  }

  /// The reply to a Long Term Key Request; `nil` if the host has no key, or ends the link.
  func keyAnswer(_ link: UInt16 = PairingAttacker.link) async throws -> UInt128? {
    while true {
      switch try await next(link) {
      case .key(let key): return key
      case .disconnection: return nil
      default: break
      }
    }
  }

  /// Sends an ATT request and returns its response.
  func ask(_ hex: String, _ link: UInt16 = PairingAttacker.link) async throws -> String {
    data(0x0004, octetsOf(hex), link)
    while true {
      if case .attribute(let hex) = try await next(link) { return hex }
    }
  }

  /// Waits until the host has processed everything sent so far, and returns its responses.
  @discardableResult func fence(_ link: UInt16 = PairingAttacker.link) async throws -> [Heard] {
    // Exchange MTU Request, and its response.
    data(0x0004, [0x02, 0x17, 0x00], link)
    var heard: [Heard] = []
    while true {
      let next = try await next(link)
      if case .attribute(let hex) = next, hex.hasPrefix("03") { return heard }
      heard.append(next)
    }
  }

  /// All packets since the link came up.
  func heard(_ link: UInt16 = PairingAttacker.link) -> [Heard] { state.withLock { $0.all[link] ?? [] } }

  /// The host's ATT requests and commands, for any peer: the data that it would read or write.
  func attributesOfHost(_ link: UInt16 = PairingAttacker.link) -> [String] {
    heard(link).compactMap { if case .attribute(let hex) = $0, !hex.hasPrefix("03") { hex } else { nil } }
  }

  private func note(_ heard: Heard, _ link: UInt16) {
    state.withLock {
      $0.news[link, default: []].append(heard)
      $0.all[link, default: []].append(heard)
    }
  }

  /// Sends events before the test can read the packet, so that packets which the test sends next follow the
  /// events.
  private func note(_ heard: Heard, _ link: UInt16, after events: [UInt8]...) -> [[UInt8]] {
    for event in events { peer.send(event) }
    note(heard, link)
    return []
  }

  // MARK: Answers

  private func answers(to packet: [UInt8]) -> [[UInt8]] {
    switch packet[0] {
    case 0x01: return answers(to: Self.number(packet, 1), Array(packet[4...]))
    case 0x02:
      let link = Self.number(packet, 1) & 0x0FFF
      let payload = hexOf(packet[9...])
      switch Self.number(packet, 7) {
      case 0x0004: note(.attribute(payload), link)
      case 0x0006: note(.security(payload), link)
      default: break
      }
      return [Self.event(0x13, [0x01] + Self.two(link) + [0x01, 0x00])]
    default: return []
    }
  }

  private func answers(to opcode: UInt16, _ parameters: [UInt8]) -> [[UInt8]] {
    switch opcode {
    case 0x200A:
      state.withLock { $0.isAdvertising = parameters[0] == 1 }
      return [complete(opcode, [0])]
    case 0x200D: return [begun(opcode), made()]
    case 0x2019:
      let (link, key) = (Self.number(parameters, 0), Self.key(parameters[12...]))
      let refusal = state.withLock { $0.keys.contains(key) ? nil : $0.refusal }
      return note(
        .encryption(key), link,
        after: begun(opcode), Self.event(0x08, [refusal ?? 0] + Self.two(link) + [refusal == nil ? 1 : 0]))
    case 0x201A:
      let (link, key) = (Self.number(parameters, 0), Self.key(parameters[2...]))
      let isSame = state.withLock { $0.keys.contains(key) }
      return note(
        .key(key), link, after: complete(opcode, [0] + Self.two(link)),
        isSame
          ? Self.event(0x08, [0] + Self.two(link) + [1]) : Self.event(0x05, [0] + Self.two(link) + [0x3D]))
    case 0x201B:
      return note(
        .key(nil), Self.number(parameters, 0), after: complete(opcode, [0] + Array(parameters[..<2])))
    case 0x0406:
      return note(
        .disconnection, Self.number(parameters, 0),
        after: begun(opcode), Self.event(0x05, [0] + Array(parameters[..<2]) + [0x16]))
    default: return [complete(opcode, returned(of: opcode))]
    }
  }

  /// LE Connection Complete for a link that the host has requested.
  private func made() -> [UInt8] {
    state.withLock { state in
      let device = state.devices[0]
      if state.devices.count > 1 { state.devices.removeFirst() }
      defer { state.nextLink += 1 }
      return Self.connectionComplete(state.nextLink, device, isCentral: false)
    }
  }

  /// Return parameters of a controller with 16 LE buffers of 251 bytes; Unknown HCI Command for commands that
  /// the tests do not need.
  private func returned(of opcode: UInt16) -> [UInt8] {
    switch opcode {
    case 0x0C03, 0x0C01, 0x2001, 0x2005, 0x2006, 0x2008, 0x2009: [0]
    case 0x1001: octetsOf("000d00000df1050000")
    // Without the extended advertising commands.
    case 0x1002: [0] + [UInt8](repeating: 0xFF, count: 36) + [UInt8](repeating: 0, count: 28)
    case 0x1003: octetsOf("000000000060000000")
    case 0x1009: [0] + (0..<6).map { UInt8(truncatingIfNeeded: local.bits >> (8 * $0)) }
    case 0x2002: octetsOf("00fb0010")
    case 0x2003: octetsOf("000100000000000000")
    default: [0x01]
    }
  }

  private func complete(_ opcode: UInt16, _ returned: [UInt8]) -> [UInt8] {
    Self.event(0x0E, [0x01] + Self.two(opcode) + returned)
  }

  private func begun(_ opcode: UInt16) -> [UInt8] { Self.event(0x0F, [0x00, 0x01] + Self.two(opcode)) }

  private static func event(_ code: UInt8, _ parameters: [UInt8]) -> [UInt8] {
    [0x04, code, UInt8(parameters.count)] + parameters
  }

  private static func connectionComplete(_ link: UInt16, _ device: DeviceAddress, isCentral: Bool) -> [UInt8]
  {
    let address = (0..<6).map { UInt8(truncatingIfNeeded: device.bits >> (8 * $0)) }
    return event(
      0x3E,
      [0x01, 0x00] + two(link) + [isCentral ? 1 : 0, device.type == .public ? 0 : 1] + address
        + octetsOf("2800 0000 2a00 00"))
  }

  private static func two(_ number: UInt16) -> [UInt8] { [UInt8(number & 0xFF), UInt8(number >> 8)] }

  private static func number(_ octets: [UInt8], _ offset: Int) -> UInt16 {
    UInt16(octets[offset]) | UInt16(octets[offset + 1]) << 8
  }

  private static func key(_ octets: ArraySlice<UInt8>) -> UInt128 {
    octets.prefix(16).reversed().reduce(0) { $0 << 8 | UInt128($1) }
  }
}
