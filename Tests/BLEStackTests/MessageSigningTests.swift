import BLEStack
import BLEWire
import TestKit
import Testing

/// Message signatures, with the vectors of BlueZ's unit/test-crypto.c. Core 5.4, Vol 3, Part H, 2.4.5.
@Suite struct MessageSigningTests {
  /// On air the least significant byte comes first.
  private static let key: UInt128 = 0x611b_64eb_fbcd_1fd3_72ec_9196_df42_5e50

  private var bond: Bond {
    Bond(
      isAuthenticated: false, isSecureConnections: false, keyByteCount: 16, isBonded: true,
      peerSigningKey: Self.key, localSigningKey: Self.key)
  }

  private func accepts(_ bond: inout Bond, _ pdu: String) throws -> Bool {
    let octets = octetsOf(pdu)
    let command = try SignedWriteCommand(validating: octets.span)
    return bond.accepts(command)
  }

  /// `verify-good` and `verify-bad-mac`: counter 1.
  @Test func checksSignatures() throws {
    var bond = bond
    let bad = try accepts(&bond, "d212001337 01000000 f1871e933c900ff1")
    #expect(!bad)
    #expect(bond.peerSignCounter == 0)
    let good = try accepts(&bond, "d212001337 01000000 f1871e933c900ff2")
    #expect(good)
    #expect(bond.peerSignCounter == 2)
    // The same again, as an eavesdropper would replay it.
    let again = try accepts(&bond, "d212001337 01000000 f1871e933c900ff2")
    #expect(!again)
  }

  @Test func needsAKey() throws {
    var bond = bond
    bond.peerSigningKey = nil
    let isAccepted = try accepts(&bond, "d212001337 01000000 f1871e933c900ff2")
    #expect(!isAccepted)
  }

  @Test func signs() {
    let message = octetsOf("d212001337")
    let signature = MessageSignature(of: message.span, counter: 1, key: Self.key)
    #expect(signature.octets == octetsOf("01000000 f1871e933c900ff2"))
  }

  @Test func usesNoCounterTwice() {
    var bond = bond
    #expect((0..<3).map { _ in bond.takeSignCounter() } == [0, 1, 2])
    bond.localSignCounter = .max
    #expect(bond.takeSignCounter() == nil)
    bond.localSignCounter = 0
    bond.localSigningKey = nil
    #expect(bond.takeSignCounter() == nil)
  }
}
