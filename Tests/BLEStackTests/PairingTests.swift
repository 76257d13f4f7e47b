import BLEStack
import BLEWire
import TestKit
import Testing

/// Two sides of our own: methods by IO capability, and the effect of each failure on both sides.
@Suite struct PairingTests {
  typealias Capability = IOCapability

  /// Core 5.4, Vol 3, Part H, 2.3.5.1, table 2.8: initiator down, responder across; legacy / Secure
  /// Connections if they differ. J: Just Works; N: numeric comparison; i: the initiator displays; r: the
  /// responder displays; b: both type.
  static let table: [(Capability, [String])] = [
    (.displayOnly, ["J", "J", "i", "J", "i"]), (.displayYesNo, ["J", "JN", "i", "J", "iN"]),
    (.keyboardOnly, ["r", "r", "b", "J", "r"]), (.noInputNoOutput, ["J", "J", "J", "J", "J"]),
    (.keyboardDisplay, ["r", "rN", "i", "J", "iN"]),
  ]

  static let methods = table.flatMap { initiator, row in
    row.enumerated().flatMap { index, cell in
      [false, true].map { isSecure in
        Meeting.Case(
          initiator: initiator, responder: Capability(rawValue: UInt8(index)) ?? .displayOnly,
          isSecure: isSecure, method: String(isSecure ? cell.suffix(1) : cell.prefix(1)))
      }
    }
  }

  @Test(arguments: methods) func pairsByTheTable(_ meeting: Meeting.Case) throws {
    var pair = Meeting(meeting)
    pair.run()
    let (initiator, responder) = (pair.initiatorEnd, pair.responderEnd)
    let (a, b) = (try #require(try initiator?.get()), try #require(try responder?.get()))
    #expect(pair.method == meeting.method)
    for bond in [a, b] {
      #expect(bond.isAuthenticated == (meeting.method != "J"))
      #expect(bond.isSecureConnections == meeting.isSecure)
    }
    #expect(a.peerKey == b.localKey)
    #expect(b.peerKey == a.localKey)
    #expect(a.peerKey != nil)
    #expect(a.peerSigningKey == b.localSigningKey)
    #expect(a.peerIdentity == Meeting.identity)
  }

  /// Shorter keys have zeros in the upper bytes. Core 5.4, Vol 3, Part H, 2.3.4.
  @Test(arguments: [false, true]) func shortensKeys(_ isSecure: Bool) throws {
    var pair = Meeting(Meeting.Case(isSecure: isSecure), responder: { $0.features.maximumKeyByteCount = 7 }) {
      $0.minimumKeyByteCount = 7
    }
    pair.run()
    let end = pair.initiatorEnd
    let bond = try #require(try end?.get())
    #expect(bond.keyByteCount == 7)
    let key = try #require(bond.peerKey?.key)
    #expect(key >> 56 == 0)
    #expect(key >> 48 != 0)
    #expect(try #require(pair.encryptedWith) >> 56 == 0)
  }

  @Test func refusesShortKeys() {
    var pair = Meeting(
      Meeting.Case(isSecure: true),
      responder: { ($0.features.maximumKeyByteCount, $0.minimumKeyByteCount) = (7, 7) })
    pair.run()
    pair.expectEnd(.encryptionKeySize, by: .initiator)
  }

  @Test func refusesJustWorksWhereItIsNotEnough() {
    var pair = Meeting(Meeting.Case(isSecure: true), responder: { $0.protection = .authenticated })
    pair.run()
    pair.expectEnd(.authenticationRequirements, by: .responder)
  }

  @Test(arguments: [false, true]) func noticesAWrongPasskey(_ isSecure: Bool) {
    var pair = Meeting(Meeting.Case(initiator: .keyboardOnly, responder: .displayOnly, isSecure: isSecure))
    pair.typed = { $0 ^ 4 }
    pair.run()
    // Legacy: the responder checks first. Secure Connections: the commitment for the bit that differs fails.
    pair.expectEnd(.confirmValueFailed, by: .responder)
  }

  @Test func endsWithoutAPasskey() {
    var pair = Meeting(Meeting.Case(initiator: .keyboardOnly, responder: .displayOnly, isSecure: true))
    pair.typed = { _ in nil }
    pair.run()
    pair.expectEnd(.passkeyEntryFailed, by: .initiator)
  }

  @Test func endsWhereNumbersDiffer() {
    var pair = Meeting(Meeting.Case(initiator: .displayYesNo, responder: .displayYesNo, isSecure: true))
    pair.agrees = { $0 == .initiator }
    pair.run()
    pair.expectEnd(.numericComparisonFailed, by: .responder)
  }

  @Test func noticesSomebodyInTheMiddle() {
    var pair = Meeting(Meeting.Case(isSecure: true))
    // Not the nonce that was committed to.
    pair.tamper = { role, pdu in
      guard role == .responder, case .pairingRandom(let value) = pdu else { return pdu }
      return .pairingRandom(value ^ 1)
    }
    pair.run()
    pair.expectEnd(.confirmValueFailed, by: .initiator)
  }

  @Test(arguments: [Pairing.Role.initiator, .responder]) func noticesAWrongCheck(_ role: Pairing.Role) {
    var pair = Meeting(Meeting.Case(isSecure: true))
    pair.tamper = { sender, pdu in
      guard sender != role, case .dhKeyCheck(let value) = pdu else { return pdu }
      return .dhKeyCheck(value ^ 1 << 100)
    }
    pair.run()
    pair.expectEnd(.dhKeyCheckFailed, by: role)
  }

  /// A point that is not on the curve, our own key reflected, and the debug key, whose private half is
  /// public.
  @Test(arguments: [
    P256PublicKey(x: P256Coordinate(high: 0, low: 0), y: P256Coordinate(high: 0, low: 0)), .debug,
    ToyAgreement(1).publicKey,
  ])
  func refusesBadPublicKeys(_ key: P256PublicKey) {
    var pair = Meeting(Meeting.Case(isSecure: true))
    pair.tamper = { role, pdu in
      guard role == .responder, case .publicKey = pdu else { return pdu }
      return .publicKey(key)
    }
    pair.run()
    pair.expectEnd(.invalidParameters, by: .initiator)
  }

  /// A variant of CVE-2020-10134 in legacy pairing: our own confirm value is reflected.
  @Test func refusesItsOwnConfirmValue() {
    var pair = Meeting(Meeting.Case(isSecure: false))
    var own: SecurityManagerPDU?
    pair.tamper = { role, pdu in
      guard case .pairingConfirm = pdu else { return pdu }
      if role == .initiator { own = pdu }
      return own ?? pdu
    }
    pair.run()
    pair.expectEnd(.confirmValueFailed, by: .initiator)
  }

  @Test func endsAfterThirtySilentSeconds() {
    var pair = Meeting(Meeting.Case(isSecure: true))
    pair.tamper = { role, pdu in role == .responder ? nil : pdu }
    pair.run()
    #expect(pair.initiator.deadline == MonotonicTime(nanoseconds: 30_000_000_000))
    pair.initiator.expire(now: MonotonicTime(nanoseconds: 29_999_999_999))
    #expect(!pair.initiator.isOver)
    pair.initiator.expire(now: MonotonicTime(nanoseconds: 30_000_000_000))
    let actions = pair.initiator.takeActions()
    // Nothing may be sent any more.
    #expect(actions == [.finished(.failure(.timedOut))])
    #expect(pair.initiator.deadline == nil)
  }

  /// Keypress Notification, Security Request, an unknown code: PDUs that need no response do not extend the
  /// deadline.
  @Test(arguments: ["0e00", "0b01", "2a00"]) func keepsItsDeadline(_ hex: String) {
    var pairing = Meeting(Meeting.Case(isSecure: true)).initiator
    pairing.start(now: Meeting.now)
    for second in 1...29 as ClosedRange<Int64> {
      let octets = octetsOf(hex)
      pairing.receive(octets.span, now: MonotonicTime(nanoseconds: second * 1_000_000_000))
    }
    #expect(pairing.deadline == MonotonicTime(nanoseconds: 30_000_000_000))
  }

  /// BSFuzzer: PDUs that change nothing do not postpone the deadline. Before the features are agreed on,
  /// these are all PDUs except a Pairing Request.
  @Test(arguments: ["04" + String(repeating: "00", count: 16), "08" + String(repeating: "00", count: 16)])
  func keepsItsDeadlineBeforeTheRequest(_ hex: String) {
    var pairing = Meeting(Meeting.Case(isSecure: true)).responder
    pairing.start(now: Meeting.now)
    Self.say(octetsOf(hex), each: 29, to: &pairing)
    #expect(pairing.isOver)
  }

  /// The same for keys that were already received, or not agreed on, while the last one is expected.
  @Test(arguments: [
    "06" + String(repeating: "01", count: 16), "08" + String(repeating: "01", count: 16),
    "09" + "01" + "010203040506",
  ])
  func keepsItsDeadlineAmongKeys(_ hex: String) {
    var meeting = Meeting(Meeting.Case(isSecure: true))
    meeting.tamper = { role, pdu in role == .responder && pdu.code == .signingInformation ? nil : pdu }
    meeting.run()
    #expect(meeting.initiatorEnd == nil)
    Self.say(octetsOf(hex), each: 29, to: &meeting.initiator)
    #expect(meeting.initiator.isOver)
    #expect(meeting.initiator.takeActions() == [.finished(.failure(.timedOut))])
  }

  /// Sends a PDU ten times at intervals of `seconds`, and lets the deadline pass as the host does.
  private static func say(_ octets: [UInt8], each seconds: Int64, to pairing: inout Pairing) {
    for number in 1...10 as ClosedRange<Int64> {
      let now = MonotonicTime(nanoseconds: number * seconds * 1_000_000_000)
      pairing.expire(now: now)
      pairing.receive(octets.span, now: now)
    }
  }

  @Test func endsWhereEncryptionFails() {
    var pair = Meeting(Meeting.Case(isSecure: false))
    pair.encryption = .pinOrKeyMissing
    pair.run()
    #expect(pair.initiatorEnd == .failure(.notEncrypted(.pinOrKeyMissing)))
  }

  @Test(arguments: ["01", "0203000910", "03", "0c00", "02030009100f0f0f"])
  func failsAtAMalformedPDU(_ hex: String) {
    var pairing = Meeting(Meeting.Case(isSecure: true)).initiator
    pairing.start(now: Meeting.now)
    _ = pairing.takeActions()
    let octets = octetsOf(hex)
    pairing.receive(octets.span, now: Meeting.now)
    let actions = pairing.takeActions()
    #expect(
      actions == [
        .send(.pairingFailed(.invalidParameters)), .finished(.failure(.failed(.invalidParameters))),
      ])
  }

  /// An unknown code is ignored and does not end the pairing.
  @Test func ignoresUnknownCodes() {
    var pairing = Meeting(Meeting.Case(isSecure: true)).initiator
    pairing.start(now: Meeting.now)
    _ = pairing.takeActions()
    let octets = octetsOf("2a00")
    pairing.receive(octets.span, now: Meeting.now)
    let actions = pairing.takeActions()
    #expect(actions.isEmpty)
    #expect(!pairing.isOver)
  }

  @Test func showsNoKeys() throws {
    var pair = Meeting(Meeting.Case(isSecure: true))
    pair.run()
    let end = pair.initiatorEnd
    let bond = try #require(try end?.get())
    var dumped = ""
    dump(bond, to: &dumped)
    for text in ["\(bond)", String(reflecting: bond), dumped, "\(pair.initiatorEnd as Any)"] {
      #expect(!text.contains("\(bond.peerKey?.key ?? 0)"))
      #expect(text.contains("16 bytes"))
    }
  }
}
