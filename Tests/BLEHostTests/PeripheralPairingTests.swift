import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Foundation
import TestKit
import TestPeer
import Testing

/// Our Security Manager as the responder, google/bumble's as the initiator. bumble's controllers compare both
/// encryption keys.
@Suite(.serialized, .timeLimit(.minutes(1))) struct PeripheralPairingTests {
  static let services: [GATTServiceDescription] = {
    var encrypted = GATTCharacteristicDescription(BluetoothUUID(0xAA01), [.read, .write], value: [1])
    encrypted.demand(.needs(.encrypted))
    var authenticated = GATTCharacteristicDescription(BluetoothUUID(0xAA02), .read, value: [2])
    authenticated.demand(.needs(.authenticated))
    var notified = GATTCharacteristicDescription(BluetoothUUID(0xAA03), .notify)
    notified.demand(.needs(.encrypted))
    return [
      GATTServiceDescription(BluetoothUUID(0xAA00), characteristics: [encrypted, authenticated, notified])
    ]
  }()

  static let cases = [
    PairingCase("Just Works", .noInputNoOutput, secure: true),
    PairingCase("legacy Just Works", .noInputNoOutput, "--legacy", secure: false),
    PairingCase(
      "numeric comparison", .displayYesNo, "--capability", "yes-no", "--mitm", authenticated: true,
      secure: true),
    PairingCase(
      "passkey that we show", .displayOnly, "--capability", "keyboard", "--mitm", authenticated: true,
      secure: true),
    PairingCase(
      "passkey that bumble shows", .keyboardOnly, "--capability", "display", "--mitm", authenticated: true,
      secure: true),
    PairingCase(
      "legacy passkey that we show", .displayOnly, "--capability", "keyboard", "--mitm", "--legacy",
      authenticated: true, secure: false),
  ]

  @Test(arguments: cases) func pairsAndComesBack(_ way: PairingCase) async throws {
    let numbers = SharedNumber()
    let store = KeptBonds()
    let settings = SecuritySettings(
      agent: numbers.agent(way.own), raising: .byPairing, store: store, makeKeyPair: try P256KeyPair.maker())
    let peer = try await BumbleCentrals.start(way.arguments + ["--numbers", numbers.path])
    let advertisement = DeviceAdvertisement(name: "Secure")
    try await TestDevice.run(Self.services, advertisement, with: peer, security: settings) { device in
      let (one, two) = (
        try await device.server.require(BluetoothUUID(0xAA01)),
        try await device.server.require(BluetoothUUID(0xAA02))
      )
      let three = try await device.server.require(BluetoothUUID(0xAA03))
      try await peer.ask("connect Secure", "connected")
      let first = try await device.connected()
      // Insufficient Authentication: nothing is encrypted, and no key is known.
      try await peer.expect("refused 5", for: "read \(one.text)")
      try await peer.expect("refused 5", for: "subscribe \(three.text) notify")
      try await peer.expect("paired", for: "pair")
      try await peer.expect("read 01", for: "read \(one.text)")
      #expect(
        try await peer.ask("read \(two.text)", "read") == (way.isAuthenticated ? "read 02" : "refused 5"))
      try await peer.expect("subscribed", for: "subscribe \(three.text) notify")
      #expect(try await device.next() == .subscribed(first, three, [.notification]))
      let stored = try #require(store.bonds().first)
      #expect(store.bonds().count == 1)
      #expect(stored.device.description == peer.addresses[0])
      #expect(stored.local == device.address)
      #expect(stored.bond.isAuthenticated == way.isAuthenticated)
      #expect(stored.bond.isSecureConnections == way.isSecure)
      #expect(numbers.ours == numbers.theirs)
      try await peer.ask("disconnect", "disconnected")
      _ = try await device.next()

      try await peer.ask("connect Secure", "connected")
      let second = try await device.connected()
      // Insufficient Encryption: the key is known but not yet in use. The subscription is not active before
      // encryption.
      try await peer.expect("refused 15", for: "read \(one.text)")
      #expect(await device.server.subscribers(of: three).isEmpty)
      // An MTU negotiated before the central was identified stays in force.
      try await peer.expect("mtu 100", for: "mtu 100")
      try await peer.expect("encrypted", for: "encrypt")
      #expect(try await device.next() == .subscribed(second, three, [.notification]))
      try await device.server.notify([UInt8](repeating: 0x55, count: 90), of: three, to: second)
      let long = String(repeating: "55", count: 90)
      #expect(try await peer.next(["value"]) == "value \(three.text) \(long) notification")
      try await peer.expect("read 01", for: "read \(one.text)")
      #expect(store.bonds().count == 1)
    }
  }

  /// This side has lost the key: the central is told that it is missing, and gets no access.
  @Test func doesNotKnowAForgottenKey() async throws {
    let store = KeptBonds()
    let settings = SecuritySettings(raising: .byPairing, store: store, makeKeyPair: try P256KeyPair.maker())
    let peer = try await BumbleCentrals.start()
    try await TestDevice.run(
      Self.services, DeviceAdvertisement(name: "Secure"), with: peer, security: settings
    ) { device in
      let one = try await device.server.require(BluetoothUUID(0xAA01))
      try await peer.ask("connect Secure", "connected")
      try await peer.ask("pair", "paired")
      try await peer.ask("disconnect", "disconnected")
      store.forgetAll()
      try await peer.ask("connect Secure", "connected")
      #expect(try await peer.ask("encrypt", "encrypted").hasPrefix("failed"))
      try await peer.expect("refused 5", for: "read \(one.text)")
    }
  }

  /// bumble resolves each of our addresses with its key, and reconnects to a new one.
  @Test func hidesFromAllButThoseThatAreBonded() async throws {
    let store = KeptBonds()
    let peer = try await BumbleCentrals.start()
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let adapter = try await HostAdapter.open(.tcpClient(host: "127.0.0.1", port: peer.port), on: loop)
    try await adapter.secure(
      SecuritySettings(raising: .byPairing, store: store, makeKeyPair: try P256KeyPair.maker()))
    var advertisement = DeviceAdvertisement(name: "Hidden")
    advertisement.isPrivate = true
    let own = await adapter.address
    var seen: [String] = []
    for action in [("pair", "paired"), ("encrypt", "encrypted")] {
      try await adapter.advertise(advertisement, services: Self.services) { server in
        let found = try await peer.ask("find Hidden", "found")
        seen.append(String(try #require(found.split(separator: " ").dropFirst().first)))
        let one = try await server.require(BluetoothUUID(0xAA01))
        try await peer.expect("connected \(seen[seen.count - 1])", for: "connect Hidden")
        try await peer.ask(action.0, action.1)
        try await peer.expect("read 01", for: "read \(one.text)")
        for address in seen { try await peer.expect("resolved \(own)", for: "resolve \(address)") }
        try await peer.ask("disconnect", "disconnected")
      }
    }
    #expect(Set(seen + [own.description]).count == 3)
    #expect(store.bonds().count == 1)
    #expect(store.bonds().first?.local == own)
    // An unrelated address.
    try await peer.expect("resolved nobody", for: "resolve 40:00:00:00:00:01")
    await adapter.close()
  }
}
