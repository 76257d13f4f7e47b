import BLEStack
import BLEWire
import TestKit
import Testing

/// A machine with a clock that is advanced by hand, and the values that it delivered.
private final class Bench {
  var machine: ATTClientMachine
  var now = MonotonicTime(nanoseconds: 1_000)
  /// Handle and value in hexadecimal.
  var delivered: [String] = []

  init(receiveMTU: Int = ATT.maximumMTU, mayBeOlder: Bool = false) {
    machine = ATTClientMachine(receiveMTU: receiveMTU, mayBeOlder: mayBeOlder)
  }

  func receive(_ hex: String) throws(WireError) -> ATTClientMachine.Reaction {
    let pdu = octetsOf(hex)
    return try machine.receive(pdu.span, now: now) { notification in
      let value = notification.value.indices.map { notification.value[$0] }
      delivered.append(String(notification.handle.rawValue, radix: 16) + ":" + hexOf(value))
    }
  }

  func begin(_ request: String) { machine.begin(octetsOf(request).span, now: now) }
  /// Begins a request for handle 3.
  func begin(_ request: ATTOpcode) { begin(hexOf([request.rawValue]) + "0300 0000") }
  /// Releases the held response, and returns it with the machine's reaction.
  func release() -> (reaction: ATTClientMachine.Reaction, pdu: String)? {
    machine.release(now: now).map { ($0.reaction, hexOf($0.pdu)) }
  }
  var strays: Int { machine.strayResponses }
  func pass(_ duration: Duration) { now = now.advanced(by: duration) }
  func expire() -> ATTOpcode? { machine.expire(now: now) }
  var isIdle: Bool { machine.isIdle }
  var mtu: Int { machine.mtu }
  var deadline: MonotonicTime? { machine.deadline }
}

/// Core 5.4, Vol 3, Part F, 3.3.2 and 3.3.3; if the specification leaves it open, BlueZ's `att.c`.
@Suite struct ATTTransactionTests {
  @Test func completesARequest() throws {
    let bench = Bench()
    #expect(bench.isIdle)
    bench.begin(.readRequest)
    #expect(!bench.isIdle)
    #expect(try bench.receive("0b 010203") == .completed)
    #expect(bench.isIdle)
    #expect(bench.deadline == nil)
  }

  /// GATT/CL/GAT/BV-01-C, BV-02-C: no response within 30 s.
  @Test func timesOutAtThirtySeconds() {
    let bench = Bench()
    bench.begin(.writeRequest)
    #expect(bench.deadline == MonotonicTime(nanoseconds: 30_000_001_000))
    bench.pass(.seconds(30) - .nanoseconds(1))
    #expect(bench.expire() == nil)
    bench.pass(.nanoseconds(1))
    #expect(bench.expire() == .writeRequest)
    #expect(bench.expire() == nil)
    #expect(bench.deadline == nil)
  }

  /// "A late reply is not delivered."
  @Test func takesNoLateAnswer() throws {
    let bench = Bench()
    bench.begin(.readRequest)
    bench.pass(.seconds(31))
    #expect(bench.expire() == .readRequest)
    #expect(try bench.receive("0b01") == .stray)
  }

  /// Each part of a long value is a separate transaction.
  @Test func givesEachTransactionItsOwnTime() throws {
    let bench = Bench()
    bench.begin(.prepareWriteRequest)
    bench.pass(.seconds(29))
    #expect(try bench.receive("17 0700 0000 01") == .completed)
    bench.begin(.prepareWriteRequest)
    bench.pass(.seconds(29))
    #expect(bench.expire() == nil)
    bench.pass(.seconds(1))
    #expect(bench.expire() == .prepareWriteRequest)
  }

  /// PDUs between request and response neither end nor extend the transaction.
  @Test func goesOnThroughWhatThePeerSendsMeanwhile() throws {
    let bench = Bench()
    bench.begin(.readRequest)
    let deadline = bench.deadline
    #expect(try bench.receive("1b 0300 0102") == .none)
    #expect(try bench.receive("1d 0400 03") == .confirm)
    #expect(try bench.receive("0a 0300") == .serve)
    #expect(try bench.receive("52 0300 01") == .serve)
    #expect(bench.delivered == ["3:0102", "4:03"])
    #expect(bench.deadline == deadline)
    #expect(try bench.receive("0b 05") == .completed)
  }

  @Test(arguments: [
    "01 0a 0300 02", "03 0002", "05 01 0100 0028", "07 0100 0700", "09 03 0100 00", "0b 00", "0d 00", "0f 00",
    "11 06 0100 0400 0118", "13", "17 0300 0000 00", "19", "21 0100 00",
  ])
  func ignoresAResponseToNothing(_ pdu: String) throws {
    let bench = Bench()
    #expect(try bench.receive(pdu) == .stray)
    #expect(bench.strays == 1)
  }

  /// bluez/bluez#2486: a device that responds twice. The second response does not belong to the next request.
  @Test(arguments: ["0d 01", "03 f700", "13", "01 08 0100 0a", "05 01 0400 0229", "09 07 0200 02 0300 002a"])
  func goesOnWaitingThroughAnotherResponse(_ pdu: String) throws {
    let bench = Bench()
    bench.begin(.readRequest)
    #expect(try bench.receive(pdu) == .stray)
    #expect(!bench.isIdle)
    #expect(try bench.receive("0b 01") == .held, "of a device that responds twice it is held for a moment")
    bench.pass(.milliseconds(50))
    #expect(try #require(bench.release()) == (.completed, "0b01"))
    #expect(bench.strays == 1)
    #expect(bench.isIdle)
  }

  /// Handles outside the requested range.
  @Test(arguments: [
    ("08 0900 0d00 0328", "09 07 0200 02 0300 002a", "09 07 0a00 10 0b00 372a"),
    ("04 0c00 0d00", "05 01 0400 0229", "05 01 0c00 0229"),
    ("10 0a00 ffff 0028", "11 06 0100 0900 0018", "11 06 0a00 0d00 0d18"),
    ("06 0a00 ffff 0028 0d18", "07 0100 0900", "07 0a00 0d00"),
  ])
  func ignoresAResponseAboutOtherHandles(_ request: String, _ other: String, _ right: String) throws {
    let bench = Bench()
    bench.begin(request)
    #expect(try bench.receive(other) == .stray)
    #expect(!bench.isIdle)
    let reaction = try bench.receive(right)
    bench.pass(.milliseconds(50))
    #expect(reaction == .completed || bench.release()?.reaction == .completed)
  }

  /// The response to an earlier read is repeated after the next read is sent. The two cannot be told apart,
  /// so the second one is waited for.
  @Test func takesTheLaterOfTwoThatCannotBeToldApart() throws {
    let bench = Bench()
    bench.begin("0a 0300")
    bench.pass(.milliseconds(40))
    #expect(try bench.receive("0b 4f6464") == .completed)
    bench.begin("0a 0500")
    #expect(try bench.receive("0b 4f6464") == .held)
    #expect(bench.deadline == bench.now.advanced(by: .milliseconds(80)), "two round trips")
    #expect(try bench.receive("0b 312e30") == .completed)
    #expect(bench.strays == 1)
    #expect(bench.release() == nil)
  }

  /// Two equal values.
  @Test func takesAnEqualResponseAfterAMoment() throws {
    let bench = Bench()
    bench.begin("0a 0300")
    #expect(try bench.receive("0b 01") == .completed)
    bench.begin("0a 0300")
    #expect(try bench.receive("0b 01") == .completed, "the same request may have the same response")
    bench.begin("0a 0500")
    #expect(try bench.receive("0b 01") == .held)
    #expect(bench.release() == nil)
    bench.pass(.milliseconds(50))
    #expect(try #require(bench.release()) == (.completed, "0b01"))
    #expect(bench.strays == 0)
    #expect(bench.release() == nil)
  }

  @Test func aLogHoldsNothingBack() throws {
    let bench = Bench()
    bench.machine.holdsDoubtful = false
    bench.begin("0a 0300")
    #expect(try bench.receive("0b 01") == .completed)
    bench.begin("0a 0500")
    #expect(try bench.receive("0b 01") == .completed)
  }

  /// A response without a value, as for a read of an empty one.
  @Test func takesEmptyAnswers() throws {
    let bench = Bench()
    bench.begin(.readRequest)
    #expect(try bench.receive("0b") == .completed)
    bench.begin(.writeRequest)
    #expect(try bench.receive("13") == .completed)
  }
}

@Suite struct ATTClientErrorResponseTests {
  @Test func refuses() throws {
    let bench = Bench()
    bench.begin("08 1200 ffff 0328")
    #expect(
      try bench.receive("01 08 1200 0a")
        == .refused(
          ErrorResponse(request: .readByTypeRequest, handle: AttributeHandle(0x12), code: .attributeNotFound))
    )
    #expect(bench.isIdle)
  }

  /// An error for an earlier Read By Type, and for a search that began at another handle: the right response
  /// follows.
  @Test(arguments: ["01 08 0100 0a", "01 08 1400 0a", "01 08 0200 05"])
  func waitsForTheRightOneAfterAnErrorForAnotherHandle(_ error: String) throws {
    let bench = Bench()
    bench.begin("08 1200 ffff 0328")
    #expect(try bench.receive(error) == .held)
    #expect(try bench.receive("09 07 1300 10 1400 372a") == .completed)
    #expect(bench.strays == 1)
    #expect(bench.isIdle)
  }

  /// Servers that return a wrong handle: no other response follows.
  @Test func takesAnErrorForAnotherHandleInTheEnd() throws {
    let bench = Bench()
    bench.begin("0a 0300")
    #expect(try bench.receive("01 0a 0900 02") == .held)
    bench.pass(.seconds(2) - .nanoseconds(1))
    #expect(bench.release() == nil)
    bench.pass(.nanoseconds(1))
    #expect(
      try #require(bench.release()).reaction
        == .refused(ErrorResponse(request: .readRequest, handle: AttributeHandle(9), code: .readNotPermitted))
    )
    #expect(bench.strays == 0)
  }

  /// Handle 0 refers to no attribute.
  @Test(arguments: ["0a 0300", "12 0300 0100", "08 1200 ffff 0328", "02 0502"])
  func takesAnErrorWithoutAHandle(_ request: String) throws {
    let bench = Bench()
    bench.begin(request)
    let opcode = hexOf([octetsOf(request)[0]])
    guard case .refused = try bench.receive("01 \(opcode) 0000 06") else {
      Issue.record("it was not taken")
      return
    }
  }

  @Test func keepsUnknownCodes() throws {
    let bench = Bench()
    bench.begin(.readRequest)
    #expect(
      try bench.receive("01 0a 0300 77")
        == .refused(
          ErrorResponse(
            request: .readRequest, handle: AttributeHandle(3), code: ATTErrorCode(rawValue: 0x77))))
  }

  @Test(arguments: ["01", "01 0a", "01 0a 03", "01 0a 0300", "01 0a 0300 02 00"])
  func failsUnlessItHasFiveOctets(_ pdu: String) throws {
    let bench = Bench()
    bench.begin(.readRequest)
    let count = octetsOf(pdu).count
    #expect(
      try bench.receive(pdu)
        == .failed(WireError(.att, offset: 0, .lengthMismatch(claimed: 5, available: count))))
    #expect(bench.isIdle)
  }

  @Test func ignoresAnErrorForAnotherRequest() throws {
    let bench = Bench()
    bench.begin(.readRequest)
    #expect(try bench.receive("01 12 0300 02") == .stray)
    #expect(!bench.isIdle)
    #expect(bench.strays == 1)
  }

  /// adafruit/circuitpython#11145: servers respond with error code 0. It is not a success.
  @Test func failsForCodeZero() throws {
    let bench = Bench()
    bench.begin(.writeRequest)
    #expect(
      try bench.receive("01 12 0300 00") == .failed(WireError(.att, offset: 4, .invalidValue(0))))
  }
}

/// Core 5.4, Vol 3, Part F, 3.2.8 and 3.4.2: max(23, min(client, server)), one value for both directions.
@Suite struct ATTClientMTUTests {
  @Test(
    arguments: [
      (517, "0002", 512), (517, "f700", 247), (517, "1700", 23), (517, "1600", 23), (517, "0000", 23),
      (517, "ffff", 517), (100, "f700", 100), (23, "f700", 23),
    ] as [(Int, String, Int)])
  func agreesOnTheSmaller(_ own: Int, _ peer: String, _ agreed: Int) throws {
    let bench = Bench(receiveMTU: own)
    #expect(bench.mtu == 23)
    bench.begin("02 0502")
    #expect(try bench.receive("03" + peer) == .completed)
    #expect(bench.mtu == agreed)

    let asked = Bench(receiveMTU: own)
    #expect(try asked.receive("02" + peer) == .serve)
    #expect(asked.mtu == agreed, "the peer's exchange counts as well as ours")
  }

  /// The MTU in the request counts, not the one that could have been offered. Core 5.4, Vol 3, Part F,
  /// 3.4.2.2.
  @Test(arguments: [(100, "f700", 100), (23, "0502", 23), (517, "f700", 247)] as [(Int, String, Int)])
  func agreesOnWhatItOffered(_ offer: Int, _ peer: String, _ agreed: Int) throws {
    let bench = Bench()
    bench.begin("02" + hexOf([UInt8(offer & 0xFF), UInt8(offer >> 8)]))
    #expect(try bench.receive("03" + peer) == .completed)
    #expect(bench.mtu == agreed)
  }

  /// Another program exchanged MTUs on this bearer: the lengths of the peer's PDUs give a lower bound. PDUs
  /// longer than our own MTU are still dropped.
  @Test func learnsFromThePeerWhereTheBearerIsOlder() throws {
    let notification = "1b 1200" + String(repeating: " a1", count: 41)
    let fresh = Bench()
    #expect(throws: WireError(.att, offset: 23, .lengthMismatch(claimed: 23, available: 44))) {
      try fresh.receive(notification)
    }
    #expect(fresh.mtu == 23)

    let older = Bench(mayBeOlder: true)
    older.begin(.readRequest)
    #expect(try older.receive(notification) == .none)
    #expect(older.mtu == 44)
    #expect(try older.receive("0b" + String(repeating: " 01", count: 99)) == .completed)
    #expect(older.mtu == 100)
    older.begin("02 0502")
    #expect(try older.receive("03 f700") == .completed)
    #expect(older.mtu == 247)
    #expect(throws: WireError(.att, offset: 247, .lengthMismatch(claimed: 247, available: 248))) {
      try older.receive("1b 1200" + String(repeating: " a1", count: 245))
    }

    let narrow = Bench(receiveMTU: 40, mayBeOlder: true)
    #expect(throws: WireError(.att, offset: 40, .lengthMismatch(claimed: 40, available: 44))) {
      try narrow.receive(notification)
    }
  }

  @Test func staysAtTheMinimumWhenRefused() throws {
    let bench = Bench()
    bench.begin("02 0502")
    #expect(
      try bench.receive("01 02 0000 06")
        == .refused(ErrorResponse(request: .exchangeMTURequest, handle: .none, code: .requestNotSupported)))
    #expect(bench.mtu == 23)
  }

  @Test func failsForATruncatedResponse() throws {
    let bench = Bench()
    bench.begin("02 0502")
    #expect(
      try bench.receive("03 00")
        == .failed(WireError(.att, offset: 2, .truncated(needed: 3, available: 2))))
    #expect(bench.mtu == 23)
  }

  /// A request to which the server responds with Invalid PDU does not set an MTU.
  @Test(arguments: ["02", "02 f7", "02 f700 00"])
  func doesNotAgreeOnAMalformedRequest(_ pdu: String) throws {
    let bench = Bench()
    #expect(try bench.receive(pdu) == .serve)
    #expect(bench.mtu == 23)
  }
}

@Suite struct ATTClientPushTests {
  @Test func lendsNotifications() throws {
    let bench = Bench()
    #expect(try bench.receive("1b 0300 010203") == .none)
    #expect(try bench.receive("1b ffff") == .none)
    #expect(bench.delivered == ["3:010203", "ffff:"])
  }

  /// GATT/CL/GAI/BI-01-C: a second indication before the confirmation is also confirmed.
  @Test func confirmsEveryIndication() throws {
    let bench = Bench()
    #expect(try bench.receive("1d 0300 010203") == .confirm)
    #expect(try bench.receive("1d 0300") == .confirm)
    #expect(bench.delivered == ["3:010203", "3:"])
    #expect(HandleValueIndication.confirmation == 0x1E)
  }

  @Test(arguments: ["1b", "1b 03", "1d", "1d 03"])
  func dropsTruncatedOnes(_ pdu: String) {
    let bench = Bench()
    #expect(throws: WireError.self) { try bench.receive(pdu) }
    #expect(bench.delivered.isEmpty)
  }

  /// Core 5.4, Vol 3, Part F, 3.4.7.4. The tail is malformed as if it were truncated or had a wrong length.
  @Test(
    arguments: [
      ("23 0300 0200 0102 0400 0100 03", ["3:0102", "4:03"], nil),
      ("23 0300 0000 0400 0000", ["3:", "4:"], nil),
      (
        "23 0300 0200 0102 0400 0500 03", ["3:0102"],
        WireError(.att, offset: 9, .lengthMismatch(claimed: 5, available: 1))
      ),
      (
        "23 0300 0200 0102 0400 01", ["3:0102"],
        WireError(.att, offset: 7, .truncated(needed: 4, available: 3))
      ),
      ("23 0300 ffff 0102", [], WireError(.att, offset: 3, .lengthMismatch(claimed: 65_535, available: 2))),
    ] as [(String, [String], WireError?)])
  func deliversWholeTuples(_ pdu: String, _ delivered: [String], _ error: WireError?) {
    let bench = Bench()
    if let error {
      #expect(throws: error) { try bench.receive(pdu) }
    } else {
      #expect(throws: Never.self) { try bench.receive(pdu) }
    }
    #expect(bench.delivered == delivered)
  }

  @Test func dropsAnEmptyPDU() {
    let bench = Bench()
    #expect(throws: WireError(.att, offset: 0, .truncated(needed: 1, available: 0))) { try bench.receive("") }
  }

  @Test func dropsAPDULongerThanTheMTU() throws {
    let bench = Bench()
    let full = "1b 0300" + String(repeating: "00", count: 20)
    #expect(try bench.receive(full) == .none)
    #expect(throws: WireError(.att, offset: 23, .lengthMismatch(claimed: 23, available: 24))) {
      try bench.receive(full + "00")
    }
    #expect(bench.delivered.count == 1)
    bench.begin("02 0502")
    #expect(try bench.receive("03 1800") == .completed)
    #expect(try bench.receive(full + "00") == .none)
  }

  /// The client never indicates, so no confirmation can be due.
  @Test func ignoresAConfirmation() throws {
    let bench = Bench()
    #expect(try bench.receive("1e") == .stray)
    #expect(bench.strays == 1)
  }

  /// Reference `att-gatt-conformance.md`, 4: the server responds to unknown requests and ignores unknown
  /// commands.
  @Test(arguments: ["bf00", "ff00", "02 1700", "04 0100 ffff", "0a 0100", "d2 0100"])
  func leavesRequestsAndCommandsToTheServer(_ pdu: String) throws {
    #expect(try Bench().receive(pdu) == .serve)
  }
}
