import BLEWire
import TestKit
import Testing

/// PDUs of pairings in apache/mynewt-nimble's tests (ble_sm_lgcy_test.c, ble_sm_sc_test.c); short ones are
/// laid out by Core 5.4, Vol 3, Part H, 3.5.
@Suite struct SecurityManagerTests {
  private static func pdu(_ name: String, _ hex: String) -> PDUCase {
    let octets = octetsOf(hex)
    return PDUCase(name, hex, minimum: octets.count) { octets throws(WireError) in
      let pdu = try SecurityManagerPDU(validating: octets.span)
      return [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
    }
  }

  static let pdus = [
    pdu("Pairing Request", "01040005100707"), pdu("Pairing Response", "02030009100f05"),
    pdu("Pairing Confirm", "03cd5b7929533156232c08ed8116558e01"),
    pdu("Pairing Random", "047f42c02f1d0737fc045b059aed67a568"), pdu("Pairing Failed", "0504"),
    pdu("Pairing Failed, unknown reason", "05ee"),
    pdu("Encryption Information", "062f9b16fff3733008a8e501b13be18700"),
    pdu("Central Identification", "07e0f8000000008b817cef"),
    pdu("Identity Information", "08ef8de2164fec430dbf5bdd34c0531eb8"),
    pdu("Identity Address Information", "090033221100450a"),
    pdu("Signing Information", "0ac617c002400d27518a77b5aed8a97a7a"), pdu("Security Request", "0b0d"),
    pdu(
      "Public Key",
      "0cbcf2d8a5dba3956c99f9110d4d2ef0bdee9b69b6cd8874be40e8e5ccdc884453"
        + "bfa9820e187a14f877fd8e922af85d39d16d921f387499dc6c2c9423f97256ab"),
    pdu("DHKey Check", "0d82651d02ed891344041a147c329a1e7d"), pdu("Keypress", "0e03"),
  ]

  @Test(arguments: pdus) func recodes(_ pdu: PDUCase) throws {
    try pdu.checkRoundTrip()
    pdu.checkTruncations(.smp)
  }

  /// One byte too many is an error, just like one too few.
  @Test(arguments: pdus) func refusesLongerOnes(_ pdu: PDUCase) {
    let longer = pdu.octets + [0]
    #expect(
      throws: WireError(.smp, offset: 0, .lengthMismatch(claimed: longer.count - 1, available: longer.count))
    ) {
      try SecurityManagerPDU(validating: longer.span)
    }
  }

  @Test func decodesFeatures() throws {
    let octets = octetsOf("02040109100f05")
    guard case .pairingResponse(let features) = try SecurityManagerPDU(validating: octets.span) else {
      Issue.record("not a response")
      return
    }
    #expect(features.capability == .keyboardDisplay)
    #expect(features.hasOutOfBandData)
    #expect(features.requirements == [.bonding, .secureConnections])
    #expect(features.maximumKeyByteCount == 16)
    #expect(features.initiatorKeys == [.encryption, .identity, .signing, .link])
    #expect(features.responderKeys == [.encryption, .signing])
  }

  @Test func decodesNumbers() throws {
    let identification = octetsOf("07e0f8000000008b817cef")
    #expect(
      try SecurityManagerPDU(validating: identification.span)
        == .centralIdentification(0xf8e0, 0xef7c_818b_0000_0000))
    let confirm = octetsOf("03cd5b7929533156232c08ed8116558e01")
    #expect(
      try SecurityManagerPDU(validating: confirm.span)
        == .pairingConfirm(0x018e551681ed082c23563153_29795bcd))
    let address = octetsOf("090133221100450a")
    #expect(
      try SecurityManagerPDU(validating: address.span)
        == .identityAddress(DeviceAddress(bits: 0x0a45_0011_2233, type: .random)))
  }

  /// Reserved values of a field that affects the pairing.
  @Test(arguments: [
    ("0f00", 0), ("0000", 0), ("01050005100707", 1), ("01040205100707", 2), ("01040005060707", 4),
    ("01040005110707", 4), ("090233221100450a", 1),
  ])
  func refusesReservedValues(_ hex: String, _ offset: Int) {
    let octets = octetsOf(hex)
    do throws(WireError) {
      _ = try SecurityManagerPDU(validating: octets.span)
      Issue.record("taken")
    } catch {
      #expect(error.offset == offset)
      #expect(
        error.reason == .invalidValue(UInt32(octets[offset]))
          || error.reason == .unexpectedOpcode(octets[offset]))
    }
  }

  @Test func refusesNothing() {
    let octets: [UInt8] = []
    #expect(throws: WireError.truncated(.smp, needed: 1, available: 0)) {
      try SecurityManagerPDU(validating: octets.span)
    }
  }
}

/// Layouts of Core 5.4, Vol 4, Part E, 7.8.24, 7.7.8 and 7.7.39; the key is that of bumble's
/// test of e().
@Suite struct LEEncryptionTests {
  private let handle = ConnectionHandle(0x40)
  private let key: UInt128 = 0x4c68384139f574d836bcf34e9dfb01bf
  private let reversedKey = "bf01fb9d4ef3bc36d874f5394138684c"

  private func packet<Command: HCICommand>(_ command: Command) -> [UInt8] {
    let parameters = [UInt8](encoding: 255) { command.encodeParameters(into: &$0) }
    return [UInt8](encoding: HCICommandPacket.maximumByteCount) {
      HCICommandPacket(opcode: Command.opcode, parameters: parameters.span).encode(into: &$0)
    }
  }

  @Test func writesCommands() {
    #expect(
      packet(LEEnableEncryption(handle, random: 0xef7c_818b_0000_0001, diversifier: 0xf8e0, key: key))
        == octetsOf("19201c 4000 010000008b817cef e0f8" + reversedKey))
  }

  static let events = [
    PDUCase("Encryption Change", "00 4000 01", minimum: 4) { octets throws(WireError) in
      let event = try EncryptionChange(validating: octets.span)
      return [UInt8](encoding: 5) { event.encode(into: &$0) }
    },
    PDUCase("Encryption Change [v2]", "06 4000 00 10", minimum: 5) { octets throws(WireError) in
      let event = try EncryptionChange(validatingV2: octets.span)
      return [UInt8](encoding: 5) { event.encode(into: &$0) }
    },
    PDUCase("Encryption Key Refresh Complete", "00 4000", minimum: 3) { octets throws(WireError) in
      let event = try EncryptionKeyRefreshComplete(validating: octets.span)
      return [UInt8](encoding: 3) { event.encode(into: &$0) }
    },
  ]

  @Test(arguments: events) func recodes(_ event: PDUCase) throws {
    try event.checkRoundTrip()
    event.checkTruncations(.hciEvent)
  }
}
