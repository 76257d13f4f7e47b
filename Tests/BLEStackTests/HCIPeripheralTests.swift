import BLEStack
import BLEWire
import Foundation
import TestKit
import Testing

/// Links on which the host is the peripheral. Events are laid out by Core 5.4, Vol 4, Part E, 7.7.65.
@Suite struct HCIPeripheralTests {
  private let handle = ConnectionHandle(0x40)
  private let central = DeviceAddress(bits: 0xF0F1_F2F3_F4F5, type: .random)
  /// LE Connection Complete with role 1, as google/bumble's controller sends it to an advertiser.
  private let connected = "043e1301 00 4000 01 01 f5f4f3f2f1f0 2800 0000 2a00 00"

  private func advertising(_ answers: [String: String] = HCIHostBench.answers) throws -> HCIHostBench {
    let bench = HCIHostBench()
    try bench.setUp(answers)
    _ = try bench.submit(LESetAdvertisingEnable(.on))
    #expect(bench.sent() == ["010a200101"])
    try bench.receive("040e0401 0a20 00")
    _ = bench.events()
    return bench
  }

  private func linked() throws -> HCIHostBench {
    let bench = try advertising()
    try bench.receive(connected)
    _ = bench.events()
    return bench
  }

  @Test func takesALinkThatNobodyAskedFor() throws {
    let bench = try advertising()
    #expect(bench.host.isAdvertising == true)
    try bench.receive(connected)
    let events = bench.events()
    guard case .connected(let link)? = events.first, events.count == 1 else {
      Issue.record("\(events)")
      return
    }
    #expect(link.role == .peripheral)
    #expect(link.peer == central)
    #expect(bench.host.isAdvertising == false)
    try bench.receive(bench.frame("0400", "0a0300"))
    #expect(bench.attributes == ["40:0a0300"])
  }

  /// With USB, the first request may arrive before the event that announces its link.
  @Test func holdsBackWhatOvertakesItsLink() throws {
    let bench = try advertising()
    try bench.receive(bench.frame("0400", "020002"))
    #expect(bench.attributes.isEmpty)
    try bench.receive(connected)
    #expect(bench.attributes == ["40:020002"])
    #expect(bench.host.strayData == 0)
  }

  /// A connect of our own continues while a central connects.
  @Test func keepsAConnectApart() throws {
    let bench = try advertising()
    _ = try bench.submit(LECreateConnection(to: central, ownType: .public, parameters: .default))
    _ = bench.sent()
    try bench.receive("040f0400010d20")
    try bench.receive(connected)
    _ = bench.events()
    // For the link that is still to come, before its event.
    try bench.receive(bench.frame("0400", "1b0300aa", handle: "4120"))
    #expect(bench.host.strayData == 0)
    try bench.receive("043e1301 00 4100 00 01 f6f4f3f2f1f0 2800 0000 2a00 00")
    #expect(bench.attributes == ["41:1b0300aa"])
    #expect(bench.host.linkCount == 2)
  }

  /// Only a central changes a link's timing on request; a central that asks gets "command not understood". Core
  /// 5.4, Vol 3, Part A, 4.20.
  @Test func refusesTimingThatACentralAsksFor() throws {
    let bench = try linked()
    try bench.receive(bench.frame("0500", "12 01 0800 5000 6400 0400 f401"))
    #expect(bench.sent() == ["0240000a0006000500" + "010102000000"])
  }

  // MARK: Security

  /// Features, then each value, of a legacy Just Works pairing whose numbers are all zero except for the
  /// random ones.
  private func responder(_ configuration: PairingConfiguration? = nil) -> PairingResponder {
    let features = PairingFeatures(
      capability: .noInputNoOutput, requirements: [.bonding], initiatorKeys: [], responderKeys: [.encryption])
    return PairingResponder(
      configuration ?? PairingConfiguration(features: features),
      local: DeviceAddress(bits: 0x00A1_A2A3_A4A5, type: .public)
    ) { PairingSupplies(keyPair: nil, random: { 1 }) }
  }

  @Test func refusesToPairWhereNobodyWantsTo() throws {
    let bench = try linked()
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    #expect(bench.sent() == ["0240000600020006000505"])
    #expect(bench.events().isEmpty)
    // Only a peripheral may send a Security Request: a peripheral that receives one treats it as unsupported.
    bench.host.answerPairings(by: responder())
    try bench.receive(bench.frame("0600", "0b 01"))
    #expect(bench.sent() == ["0240000600020006000505"])
  }

  @Test func answersAPairingRequest() throws {
    let bench = try linked()
    bench.host.answerPairings(by: responder())
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    // Pairing Response: NoInputNoOutput, no OOB, bonding, 16 bytes, no keys from the central, our LTK.
    #expect(bench.sent() == ["0240000b000700060002 03 00 01 10 00 01".filter { $0 != " " }])
    // The central only sends a wrong confirm value: its random number does not match.
    try bench.receive(bench.frame("0600", "03" + String(repeating: "00", count: 16)))
    _ = bench.sent()
    try bench.receive("041305 01 4000 0200")
    try bench.receive(bench.frame("0600", "04" + String(repeating: "00", count: 16)))
    // Pairing Failed, Confirm Value Failed.
    #expect(bench.sent() == ["0240000600020006000504"])
    #expect(bench.events() == [.security(handle, .paired(.failure(.failed(.confirmValueFailed))))])
    try bench.receive("041305 01 4000 0100")
    // An immediate retry: Repeated Attempts. Core 5.4, Vol 3, Part H, 2.3.6.
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    #expect(bench.sent() == ["0240000600020006000509"])
    try bench.receive("041305 01 4000 0100")
    bench.wait(.seconds(3))
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    #expect(bench.sent().count == 1)
    #expect(bench.events().isEmpty)
  }

  /// Each attempt at a passkey reveals something about it, and addresses are free: all centrals must wait.
  @Test func letsNoOtherCentralGuessAtOnce() throws {
    let features = PairingFeatures(
      capability: .displayOnly, requirements: [.bonding, .authenticated], initiatorKeys: [],
      responderKeys: [.encryption])
    var configuration = PairingConfiguration(features: features)
    configuration.passkey = 271_828
    var answers = HCIHostBench.answers
    answers["0220"] = "00 1b00 20"
    let bench = try advertising(answers)
    try bench.receive(connected)
    bench.host.answerPairings(by: responder(configuration))
    // KeyboardOnly with MITM protection; a confirm value that matches no passkey.
    let (request, refused) = ("01 02 00 05 10 00 01", "0240000600020006000509")
    func guess(_ handle: String) throws {
      try bench.receive(bench.frame("0600", "03" + String(repeating: "00", count: 16), handle: handle))
      try bench.receive(bench.frame("0600", "04" + String(repeating: "00", count: 16), handle: handle))
    }
    try bench.receive(bench.frame("0600", request))
    try guess("4020")
    #expect(bench.events().contains(.security(handle, .paired(.failure(.failed(.confirmValueFailed))))))
    try bench.receive("040504 00 4000 13")
    // Another address.
    try bench.receive(connected.replacingOccurrences(of: "f5f4f3f2f1f0", with: "f6f4f3f2f1f0"))
    _ = (bench.events(), bench.sent())
    try bench.receive(bench.frame("0600", request))
    #expect(bench.sent() == [refused])
    bench.wait(.seconds(2))
    try bench.receive(bench.frame("0600", request))
    #expect(bench.sent().first?.contains("060002") == true)
    try guess("4020")
    // Doubled after the second attempt.
    bench.wait(.milliseconds(1500))
    _ = bench.sent()
    try bench.receive(bench.frame("0600", request))
    #expect(bench.sent() == [refused])
  }

  /// Core 5.4, Vol 3, Part H, 3.4: after 30 s without a PDU no more SMP PDUs are sent on this link.
  @Test func saysNothingAfterATimeOut() throws {
    let bench = try linked()
    bench.host.answerPairings(by: responder())
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    _ = bench.sent()
    bench.wait(.seconds(31))
    #expect(bench.events() == [.security(handle, .paired(.failure(.timedOut)))])
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    #expect(bench.sent().isEmpty)
  }

  @Test func asksItsOwnerForKeysOfEarlierLinks() throws {
    let bench = try linked()
    try bench.receive("043e0d05 4000 0807060504030201 3412")
    #expect(
      bench.events()
        == [.security(handle, .keyWanted(random: 0x0102_0304_0506_0708, diversifier: 0x1234))])
    #expect(bench.host.keySource(of: handle) == nil)
    _ = try bench.submit(LELongTermKeyRequestReply(handle, key: 1))
    #expect(bench.sent() == ["011a2012400001" + String(repeating: "00", count: 15)])
    try bench.receive("040e0601 1a20 00 4000")
    try bench.receive("040804 00 4000 01")
    #expect(bench.events().last == .encryption(handle, .success))
    #expect(bench.host.keySource(of: handle) == .stored)
    // For an unknown link.
    try bench.receive("043e0d05 4100 0807060504030201 3412")
    #expect(bench.host.statistics.strayEvents == 1)
  }

  /// With Secure Connections the key exists before it is checked and before a user has compared the numbers:
  /// a central that encrypts at that time must not get it.
  @Test func givesNoKeyBeforeItIsAgreedOn() throws {
    let bench = try linked()
    let features = PairingFeatures(
      capability: .displayYesNo, requirements: [.secureConnections, .authenticated], initiatorKeys: [],
      responderKeys: [])
    bench.host.answerPairings(
      by: PairingResponder(
        PairingConfiguration(features: features, protection: .authenticated),
        local: DeviceAddress(bits: 0x00A1_A2A3_A4A5, type: .public)
      ) { PairingSupplies(keyPair: NoCurve(), random: { 1 }) })
    try bench.receive(bench.frame("0600", "01 01 00 0d 10 00 00"))
    try bench.receive(bench.frame("0600", "0c" + String(repeating: "07", count: 64)))
    try bench.receive(bench.frame("0600", "04" + String(repeating: "08", count: 16)))
    let asked = bench.events()
    guard case .security(handle, .compare)? = asked.first else {
      Issue.record("\(asked)")
      return
    }
    try bench.receive("043e0d05 4000 0000000000000000 0000")
    #expect(bench.events() == [.security(handle, .keyWanted(random: 0, diversifier: 0))])
    bench.host.answerKeyRequest(of: handle, nil)
    #expect(bench.sent().filter { $0.hasPrefix("01") } == ["011b20024000"])
  }

  /// A central has paired, and then tries in vain to encrypt with an earlier key: the pairing's key stays in
  /// force.
  @Test func knowsWhichKeyIsInForce() throws {
    let bench = try linked()
    var features = PairingFeatures(
      capability: .noInputNoOutput, requirements: [.bonding], initiatorKeys: [.signing],
      responderKeys: [.encryption])
    features.maximumKeyByteCount = 16
    let configuration = PairingConfiguration(features: features)
    bench.host.answerPairings(by: responder(configuration))
    var initiator = Pairing(
      .initiator, configuration, local: central, peer: DeviceAddress(bits: 0x00A1_A2A3_A4A5, type: .public),
      keyPair: nil, random: { 2 })
    initiator.start(now: bench.now)
    var hasBegun = false
    while !hasBegun {
      let actions = initiator.takeActions()
      try #require(!actions.isEmpty)
      for action in actions {
        switch action {
        case .send(let pdu):
          let octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
          try bench.receive(bench.frame("0600", hexOf(octets)))
          for packet in bench.sent() {
            try bench.receive("041305 01 4000 0100")
            initiator.receive(octetsOf(String(packet.dropFirst(18))).span, now: bench.now)
          }
        case .encrypt:
          try bench.receive("043e0d05 4000 0000000000000000 0000")
          #expect(bench.sent().contains { $0.hasPrefix("011a20124000") })
          try bench.receive("040e0601 1a20 00 4000")
          try bench.receive("040804 00 4000 01")
          hasBegun = true
        default: Issue.record("\(action)")
        }
      }
    }
    #expect(bench.host.keySource(of: handle) == .pairing)
    try bench.receive("043e0d05 4000 0807060504030201 3412")
    bench.host.answerKeyRequest(of: handle, nil)
    _ = bench.sent()
    try bench.receive("040e0601 1b20 00 4000")
    // Encryption Key Refresh Complete, PIN or Key Missing.
    try bench.receive("043003 06 4000")
    let isEncrypted = bench.host.isEncrypted(handle)
    #expect(isEncrypted)
    #expect(bench.host.keySource(of: handle) == .pairing)
  }

  /// Any central may use the address of a bonded one: without MITM protection it does not get a new bond.
  /// Core 5.4, Vol 3, Part H, 3.5.5: Authentication Requirements.
  @Test func wantsMoreOfABondedCentral() throws {
    let bench = try linked()
    var responder = responder()
    let central = central
    let bond = Bond(isAuthenticated: false, isSecureConnections: false, keyByteCount: 16, isBonded: true)
    responder.bond = { $0 == central ? bond : nil }
    bench.host.answerPairings(by: responder)
    try bench.receive(bench.frame("0600", "01 03 00 01 10 00 01"))
    #expect(bench.sent() == ["0240000600020006000503"])
    #expect(bench.events() == [.security(handle, .paired(.failure(.failed(.authenticationRequirements))))])
  }

  // MARK: Buffers

  /// Five buffers and two links: one that does not drain its packets holds at most three, and the other
  /// continues with two.
  @Test func leavesEachLinkItsShareOfBuffers() throws {
    let bench = HCIHostBench()
    var answers = HCIHostBench.answers
    answers["0220"] = "00 1b00 05"
    try bench.setUp(answers)
    _ = try bench.submit(LESetAdvertisingEnable(.on))
    _ = bench.sent()
    try bench.receive("040e0401 0a20 00")
    try bench.receive(connected)
    try bench.receive("043e1301 00 4100 01 01 f6f4f3f2f1f0 2800 0000 2a00 00")
    let pdu: [UInt8] = [0x1B, 3, 0]
    for _ in 0..<20 { _ = bench.host.send(pdu.span, on: handle) }
    #expect(bench.sent().count == 3)
    for _ in 0..<20 { _ = bench.host.send(pdu.span, on: ConnectionHandle(0x41)) }
    #expect(bench.sent().filter { $0.hasPrefix("024100") }.count == 2)
    try bench.receive("041305 01 4100 0200")
    #expect(bench.sent().filter { $0.hasPrefix("024100") }.count == 2)
    // The only link again, the first gets all of them.
    try bench.receive("040504 00 4100 13")
    #expect(bench.sent().count == 2)
  }
}

/// A key agreement that always gives the same secret.
private final class NoCurve: P256KeyAgreement {
  let publicKey = P256PublicKey(x: P256Coordinate(high: 1, low: 2), y: P256Coordinate(high: 3, low: 4))

  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate? { P256Coordinate(high: 5, low: 6) }
}
