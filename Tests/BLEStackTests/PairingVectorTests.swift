import BLEStack
import BLEWire
import TestKit
import Testing

/// Complete pairings of another stack, in each role: each PDU that we send equals the recorded one.
@Suite struct PairingVectorTests {
  static let cases = PairingVector.all.flatMap { vector in
    [Pairing.Role.initiator, .responder].map { (vector, $0) }
  }

  @Test func allAreThere() { #expect(PairingVector.all.count == 20) }

  @Test(arguments: cases) func playsOneSide(_ vector: PairingVector, _ role: Pairing.Role) throws {
    var player = Player(vector, role, try vector.pairing(role))
    if role == .initiator { player.pairing.start(now: player.now) }
    for (index, step) in vector.dialogue.enumerated() {
      player.react()
      switch (step, role) {
      case (.central(let octets), .initiator), (.peripheral(let octets), .responder):
        #expect(player.sent.isEmpty == false, "nothing to send at step \(index)")
        if !player.sent.isEmpty {
          #expect(hexOf(player.sent.removeFirst()) == hexOf(octets), "step \(index)")
        }
      case (.central(let octets), .responder), (.peripheral(let octets), .initiator):
        player.pairing.receive(octets.span, now: player.now)
      case (.encrypt, _):
        #expect(player.pairing.key == vector.key(vector.keys["ltk"] == nil ? "stk" : "ltk"))
        #expect(player.encryptions == (role == .initiator ? 1 : 0))
        player.pairing.encryptionEnded(.success, now: player.now)
      }
    }
    player.react()
    #expect(player.sent.isEmpty)
    let end = player.end
    let bond = try #require(try end?.get())
    #expect(bond.isAuthenticated == vector.authenticated)
    #expect(bond.isSecureConnections == (vector.keys["ltk"] != nil))
    #expect(bond.isBonded)
    #expect(player.number == vector.keys["numericComparison"].flatMap { UInt32($0) })
    try expectKeys(bond, vector.pdus(of: role == .initiator ? .responder : .initiator), vector)
  }

  /// The bond contains the keys that the other side distributed.
  private func expectKeys(_ bond: Bond, _ given: [SecurityManagerPDU], _ vector: PairingVector) throws {
    if let longTermKey = vector.key("ltk") { #expect(bond.peerKey == LongTermKey(key: longTermKey)) }
    for pdu in given {
      switch pdu {
      case .encryptionInformation(let key): #expect(bond.peerKey?.key == key)
      case .centralIdentification(let diversifier, let random):
        #expect(bond.peerKey?.diversifier == diversifier)
        #expect(bond.peerKey?.random == random)
      case .identityInformation(let key): #expect(bond.peerIdentity?.resolvingKey == key)
      case .identityAddress(let address): #expect(bond.peerIdentity?.address == address)
      case .signingInformation(let key): #expect(bond.peerSigningKey == key)
      default: break
      }
    }
  }
}

/// Performs the actions of a pairing as the recorded side did.
private struct Player {
  let vector: PairingVector
  let now = MonotonicTime(nanoseconds: 0)
  var pairing: Pairing
  var sent: [[UInt8]] = []
  var encryptions = 0
  var number: UInt32?
  var end: Result<Bond, PairingError>?

  init(_ vector: PairingVector, _ role: Pairing.Role, _ pairing: Pairing) {
    self.vector = vector
    self.pairing = pairing
  }

  mutating func react() {
    // A reaction may cause the next action at once.
    var actions = pairing.takeActions()
    while !actions.isEmpty {
      for action in actions { react(to: action) }
      actions = pairing.takeActions()
    }
  }

  private mutating func react(to action: PairingAction) {
    switch action {
    case .send(let pdu): sent.append([UInt8](encoding: 65) { pdu.encode(into: &$0) })
    case .showPasskey(let shown): #expect(shown == vector.passkey.flatMap { UInt32($0) })
    case .askPasskey: pairing.enter(passkey: vector.passkey.flatMap { UInt32($0) }, now: now)
    case .compare(let value):
      number = value
      pairing.confirm(true, now: now)
    case .encrypt: encryptions += 1
    case .finished(let result): end = result
    }
  }
}
