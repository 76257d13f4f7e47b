import BLEStack
import BLEWire
import TestKit
import Testing

/// Sample data of Core 5.4, Vol 3, Part H, Appendix D, of 2.2, and of Part G, Appendix B, as printed: most
/// significant byte first.
@Suite struct SecurityToolboxTests {
  private let u = P256Coordinate(
    high: 0x20b003d2f297be2c5e2c83a7e9f9a5b9, low: 0xeff49111acf4fddbcc0301480e359de6)
  private let v = P256Coordinate(
    high: 0x55188b3d32f6bb9a900afcfbeed4e72a, low: 0x59cb9ac2f19d7cfb6b4fdd49f47fc5fd)
  private let n1: UInt128 = 0xd5cb8454d177733effffb2ec712baeab
  private let n2: UInt128 = 0xa6e8e7cc25a75f6e216583f7ff3dc4cf
  private let a1 = DeviceAddress(bits: 0x5612_3737_bfce, type: .public)
  private let a2 = DeviceAddress(bits: 0xa713_702d_cfc1, type: .public)
  private let irk: UInt128 = 0xec0234a357c8ad05341010a60a397d9b

  /// FIPS 197, Appendix B and C.1.
  @Test func encryptsBlocks() {
    #expect(
      AES128(key: 0x2b7e151628aed2a6abf7158809cf4f3c).encrypt(0x3243f6a8885a308d313198a2e0370734)
        == 0x3925841d02dc09fbdc118597196a0b32)
    #expect(
      AES128(key: 0x000102030405060708090a0b0c0d0e0f).encrypt(0x00112233445566778899aabbccddeeff)
        == 0x69c4e0d86a7b0430d8cdb78070b4c55a)
  }

  /// The session key of a link, as a controller computes it. Core 5.4, Vol 6, Part C, 1.
  @Test func encryptsASessionKey() {
    #expect(
      AES128(key: 0x4c68384139f574d836bcf34e9dfb01bf).encrypt(0x0213243546576879acbdcedfe0f10213)
        == 0x99ad1b5226a37e3e058e3b8e27c2c666)
  }

  /// D.1 (RFC 4493, 4): an empty message, a whole block, a partial one, four blocks.
  @Test(
    arguments: [
      ("", 0xbb1d6929e95937287fa37d129b756746),
      ("6bc1bee22e409f96e93d7e117393172a", 0x070a16b46b4d4144f79bdd9dd04a287c),
      (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411",
        0xdfa66747de9ae63030ca32611497c827
      ),
      (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
          + "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        0x51f0bebf7e3b9d92fc49741779363cfe
      ),
    ] as [(String, UInt128)])
  func authenticatesMessages(_ message: String, _ code: UInt128) {
    let octets = octetsOf(message)
    #expect(AESCMAC(key: 0x2b7e151628aed2a6abf7158809cf4f3c).code(octets.span) == code)
  }

  /// Vol 3, Part G, Appendix B: in AES-CMAC's byte order, not the air's.
  @Test func hashesADatabase() {
    let message = octetsOf(
      "010000280018020003280a0300002a04000328020500012a06000028011807000328200800052a090002290a0003280a0b00292b"
        + "0c000328020d002a2b0e00002808180f000228140016000f1810000328a21100182a12000229130000290000140001280f18"
        + "15000328021600192a")
    #expect(AESCMAC(key: 0).code(message.span) == 0xf1ca2d48ecf58bac8a8830bbb9fba990)
  }

  @Test func makesTheValuesOfSecureConnections() {
    #expect(SecurityToolbox.f4(u, v, n1, 0) == 0xf2c916f107a9bd1cf1eda1bea974872d)
    let dhKey = P256Coordinate(high: irk, low: 0x99796b13b4f866f1868d34f373bfa698)
    let keys = SecurityToolbox.f5(dhKey, n1, n2, a1, a2)
    #expect(keys.macKey == 0x2965f176a1084a02fd3f6a20ce636e20)
    #expect(keys.longTermKey == 0x6986791169d7cd23980522b594750a38)
    #expect(
      SecurityToolbox.f6(
        keys.macKey, n1, n2, 0x12a3343bb453bb5408da42d20c2d0fc8, capability: 0x010102, a1, a2)
        == 0xe3c473989cd0e8c5d26c0b09da958f61)
    #expect(SecurityToolbox.g2(u, v, n1, n2) == 0x2f9ed5ba)
  }

  @Test func makesTheValuesOfALegacyPairing() {
    let context = SecurityToolbox.LegacyContext(
      request: 0x0707_1000_0001_01, response: 0x0500_0800_0003_02,
      initiator: DeviceAddress(bits: 0xa1a2_a3a4_a5a6, type: .random),
      responder: DeviceAddress(bits: 0xb1b2_b3b4_b5b6, type: .public))
    #expect(
      SecurityToolbox.c1(0, 0x5783d52156ad6f0e6388274ec6702ee0, context) == 0x1e1e3fef878988ead2a74dc5bef13b86
    )
    #expect(
      SecurityToolbox.s1(0, 0x000f0e0d0c0b0a091122334455667788, 0x010203040506070899aabbccddeeff00)
        == 0x9a1fe1f0e8b0f49b5b4216ae796da062)
  }

  @Test func convertsKeys() {
    #expect(SecurityToolbox.h6(irk, keyID: 0x6c65_6272) == 0x2d9ae102e76dc91ce8d3a9e280b16399)
    #expect(SecurityToolbox.h7(salt: 0x746d7031, irk) == 0xfb173597c6a3c0ecd2998c2a75a57011)
    let longTermKey: UInt128 = 0x368df9bce3264b58bd066c33334fbf64
    #expect(
      SecurityToolbox.converted(longTermKey, .toLinkKey, usesH7: false) == 0xbc1ca4ef633fc1bd0d8230afee388fb0)
    #expect(
      SecurityToolbox.converted(longTermKey, .toLinkKey, usesH7: true) == 0x287ad379dca402530a39f1f43047b835)
    let linkKey: UInt128 = 0x05040302010009080706050403020100
    #expect(
      SecurityToolbox.converted(linkKey, .toLongTermKey, usesH7: false) == 0xa813fb72f1a3dfa18a2c9a43f10d0a30)
    #expect(
      SecurityToolbox.converted(linkKey, .toLongTermKey, usesH7: true) == 0xe85e09eb5eccb3e269418a133211bc79)
  }

  @Test func hashesAddresses() {
    #expect(SecurityToolbox.ah(irk, 0x708194) == 0x0dfbaa)
  }

  /// BlueZ, unit/test-crypto.c: key, message and signature as on air, least significant byte first.
  @Test(
    arguments: [
      ("3c4fcf098815f7aba6d2ae2816157e2b", "", 0, "b3a8594127ebc2c0"),
      ("3c4fcf098815f7aba6d2ae2816157e2b", "6bc1bee22e409f96e93d7e117393172a", 0, "273974f4392a232a"),
      (
        "3c4fcf098815f7aba6d2ae2816157e2b",
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411", 0,
        "b7ca94ab87c78218"
      ),
      ("505e42df9691ec72d31fcdfbeb641b61", "d212001337", 1, "f1871e933c900ff2"),
      ("d8515948451fea320dc05a2e88308188", "d20700010203", 0, "311f0acd1c3a5b0a"),
    ] as [(String, String, UInt32, String)])
  func signsPDUs(_ key: String, _ pdu: String, _ counter: UInt32, _ signature: String) {
    let octets = octetsOf(pdu)
    #expect(
      SecurityToolbox.signature(of: octets.span, counter: counter, key: littleEndian(key))
        == UInt64(truncatingIfNeeded: littleEndian(signature)))
  }

  private func littleEndian(_ hex: String) -> UInt128 {
    octetsOf(hex).reversed().reduce(0) { $0 << 8 | UInt128($1) }
  }
}
