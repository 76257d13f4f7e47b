import BLELinux
import BLEStack
import BLEWire
import TestKit
import TestPeer
import Testing

@testable import BLEHost

@Suite(.timeLimit(.minutes(1))) struct ConnectionRequestTests {
  /// Responds to a read with the handle, like a server that takes one request at a time.
  private static func echo(_ pdu: String) -> [String] { pdu.hasPrefix("0a") ? ["0b" + pdu.dropFirst(2)] : [] }

  @Test func serialisesManyCallers() async throws {
    let link = try await Link.open(Self.echo)
    let answers = try await withThrowingTaskGroup(of: (UInt16, [UInt8]).self) { group in
      for handle in 1...200 as ClosedRange<UInt16> {
        group.addTask { (handle, try await link.connection.read(AttributeHandle(handle))) }
      }
      var answers: [UInt16: [UInt8]] = [:]
      for try await (handle, value) in group { answers[handle] = value }
      return answers
    }
    #expect(answers.count == 200)
    for (handle, value) in answers { #expect(value == [UInt8(handle & 0xFF), UInt8(handle >> 8)]) }
    #expect(link.peer.received.count == 200)
    await link.close()
  }

  /// Core 5.4, Vol 3, Part F, 3.3.2: no second request before the first has its response.
  @Test func sendsOneAfterTheOther() async throws {
    let link = try await Link.open()
    let requests = (0..<8).map { number in
      Task { try await link.connection.transact([0x0A, UInt8(number), 0]) }
    }
    for count in 1...8 {
      let received = await link.peer.received(atLeast: count)
      #expect(received.count == count)
      link.send("0b" + hexOf([received[count - 1][1]]))
    }
    var answers: [[UInt8]] = []
    for request in requests { answers.append(try await request.value) }
    let expected = (0..<8 as Range<UInt8>).map { [0x0B, $0] }
    #expect(answers == expected)
    await link.close()
  }

  /// Repeated once, for errors that security can resolve, and only if security was raised. Core 5.4, Vol 3,
  /// Part C, 10.3.2.
  @Test(
    arguments: [
      (0x05, true, 2), (0x0F, true, 2), (0x05, false, 1), (0x08, true, 1), (0x0C, true, 1), (0x02, true, 1),
    ] as [(UInt8, Bool, Int)])
  func repeatsARefusedRequestOnce(_ code: UInt8, _ isRaised: Bool, _ requests: Int) async throws {
    let link = try await Link.open { _ in ["010a0300" + hexOf([code])] }
    await link.connection.onRefusal { _, _ in isRaised }
    let refusal = ErrorResponse(
      request: .readRequest, handle: AttributeHandle(3), code: ATTErrorCode(rawValue: code))
    await #expect(throws: GATTError.refused(refusal)) {
      try await link.connection.read(AttributeHandle(3))
    }
    #expect(link.peer.received.count == requests)
    await link.close()
  }

  /// Whatever the peer sends between request and response, the request completes.
  @Test func goesOnThroughWhatComesBetween() async throws {
    let values = Values()
    let link = try await Link.open { pdu in
      switch pdu {
      case "120400" + "0100": ["13"]
      case "0a0900": ["1b0300aa", "1d0300bb", "021700", "520300cc", "ff00", "0b01"]
      default: []
      }
    }
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    #expect(try await link.connection.read(AttributeHandle(9)) == [1])
    #expect(values.all == ["3:aa", "3:bb"])
    let received = await link.peer.received(atLeast: 4).map { hexOf($0) }
    #expect(received == ["1204000100", "0a0900", "1e", "030502"])
    await link.close()
  }

  @Test func passesRefusalsOn() async throws {
    let link = try await Link.open { _ in ["010a030002"] }
    #expect(
      await failure { () async throws(GATTError) in try await link.connection.read(AttributeHandle(3)) }
        == .refused(
          ErrorResponse(request: .readRequest, handle: AttributeHandle(3), code: .readNotPermitted)))
    await link.close()
  }

  /// A response of another kind does not complete the request.
  @Test func goesOnAfterAWrongAnswer() async throws {
    let link = try await Link.open { $0 == "0a0300" ? ["0d01", "0b03"] : ["0b02"] }
    #expect(try await link.connection.read(AttributeHandle(3)) == [3])
    #expect(try await link.connection.read(AttributeHandle(4)) == [2])
    #expect(await link.connection.statistics.strayResponses == 1)
    await link.close()
  }

  /// bluez/bluez#2486.
  @Test func goesOnAfterAnAnswerToNothing() async throws {
    let link = try await Link.open { $0 == "020502" ? ["030002", "030002"] : ["0b02"] }
    try await link.connection.exchangeMTU(517)
    #expect(try await link.connection.read(AttributeHandle(4)) == [2])
    #expect(await link.connection.end == nil)
    #expect(await link.connection.statistics.strayResponses == 1)
    await link.close()
  }

  /// GAT BV-01: the caller gets the error, there is no retry, and nothing more is sent on the bearer.
  @Test func sendsNothingAfterATimeout() async throws {
    let link = try await Link.open()
    let first = Task {
      await failure { () async throws(GATTError) in try await link.connection.transact([0x0A, 1, 0]) }
    }
    _ = await link.peer.received(atLeast: 1)
    let others = (2..<12).map { number in
      Task {
        await failure { () async throws(GATTError) in
          try await link.connection.transact([0x0A, UInt8(number), 0])
        }
      }
    }
    // When all of these have had their turn, the other requests are in the queue.
    for _ in 0..<100 { _ = await link.connection.mtu }
    await link.connection.expire(SystemClock.monotonic().advanced(by: .seconds(31)))
    #expect(await first.value == .timedOut(.readRequest))
    for other in others { #expect(await other.value == .closed(.transactionTimeout)) }
    #expect(await link.connection.ended() == .transactionTimeout)
    await link.peer.ended()
    #expect(link.peer.received.count == 1)
    await link.close()
  }

  /// A caller may set a shorter timeout, never a longer one than the specification's.
  @Test func timesOutWhenItWasAskedTo() async throws {
    let link = try await Link.open()
    await link.connection.limitAnswers(to: .seconds(8))
    let first = Task {
      await failure { () async throws(GATTError) in try await link.connection.transact([0x0A, 1, 0]) }
    }
    _ = await link.peer.received(atLeast: 1)
    await link.connection.expire(SystemClock.monotonic().advanced(by: .seconds(7)))
    #expect(await link.connection.end == nil)
    await link.connection.expire(SystemClock.monotonic().advanced(by: .seconds(9)))
    #expect(await first.value == .timedOut(.readRequest, seconds: 8))
    #expect("\(GATTError.timedOut(.readRequest, seconds: 8))".hasSuffix(" within 8 s"))
    await link.close()
    let other = try await Link.open()
    await other.connection.limitAnswers(to: .seconds(300))
    let request = Task { try? await other.connection.read(AttributeHandle(1)) }
    _ = await other.peer.received(atLeast: 1)
    await other.connection.expire(SystemClock.monotonic().advanced(by: .seconds(31)))
    #expect(await other.connection.ended() == .transactionTimeout)
    _ = await request.value
    await other.close()
  }

  @Test func doesNotTimeOutEarly() async throws {
    let link = try await Link.open()
    let request = Task { try await link.connection.read(AttributeHandle(1)) }
    _ = await link.peer.received(atLeast: 1)
    await link.connection.expire(SystemClock.monotonic().advanced(by: .seconds(29)))
    #expect(await link.connection.end == nil)
    link.send("0b07")
    #expect(try await request.value == [7])
    await link.close()
  }

  /// A cancelled caller still waits for its response: a request that was sent cannot be withdrawn.
  @Test func survivesACancelledCaller() async throws {
    let link = try await Link.open()
    let request = Task { try await link.connection.read(AttributeHandle(1)) }
    _ = await link.peer.received(atLeast: 1)
    request.cancel()
    link.send("0b07")
    #expect(try await request.value == [7])
    let next = Task { try await link.connection.read(AttributeHandle(2)) }
    _ = await link.peer.received(atLeast: 2)
    link.send("0b08")
    #expect(try await next.value == [8])
    await link.close()
  }

  /// A queued request is withdrawn, and those behind it move up.
  @Test func takesBackAWaitingRequest() async throws {
    let link = try await Link.open()
    let first = Task { try await link.connection.read(AttributeHandle(1)) }
    _ = await link.peer.received(atLeast: 1)
    let second = Task {
      await failure { () async throws(GATTError) in try await link.connection.read(AttributeHandle(2)) }
    }
    for _ in 0..<100 { _ = await link.connection.mtu }
    let third = Task { try await link.connection.read(AttributeHandle(3)) }
    for _ in 0..<100 { _ = await link.connection.mtu }
    second.cancel()
    #expect(await second.value == .cancelled)
    link.send("0b07")
    #expect(try await first.value == [7])
    #expect(await link.peer.received(atLeast: 2).map { hexOf($0) } == ["0a0100", "0a0300"])
    link.send("0b09")
    #expect(try await third.value == [9])
    await link.close()
  }

  /// A cancelled task may still send requests to clean up.
  @Test func sendsTheRequestsOfACancelledTask() async throws {
    let link = try await Link.open { _ in ["13"] }
    let gate = Gate()
    let task = Task {
      await link.connection.hold(at: gate)
      try await link.connection.write([0, 0], to: AttributeHandle(4))
    }
    await gate.waitForSomebody()
    task.cancel()
    gate.open()
    try await task.value
    #expect(link.peer.received.map { hexOf($0) } == ["1204000000"])
    await link.close()
  }

  /// The server has one queue per client: writes of two callers must not be executed together.
  @Test func letsOneCallerFillTheQueueOfWrites() async throws {
    let link = try await Link.open { pdu in
      pdu.hasPrefix("16") ? ["17" + pdu.dropFirst(2)] : ["19"]
    }
    try await withThrowingTaskGroup { group in
      for handle in 1...8 as ClosedRange<UInt16> {
        group.addTask {
          try await link.connection.writeLong(
            [UInt8](repeating: UInt8(handle), count: 40), to: AttributeHandle(handle))
        }
      }
      try await group.waitForAll()
    }
    let received = link.peer.received
    #expect(received.count == 8 * 4)
    for start in stride(from: 0, to: received.count, by: 4) {
      let parts = received[start..<start + 3]
      #expect(parts.allSatisfy { $0[0] == 0x16 && $0[1] == received[start][1] })
      #expect(received[start + 3] == [0x18, 0x01])
    }
    await link.close()
  }
}

/// Reference `att-gatt-conformance.md`, 6: requests that the owner of the channel must respond to.
@Suite(.timeLimit(.minutes(1))) struct ConnectionServerTests {
  @Test(arguments: [
    ("02 f700", "03 0502"), ("02 1700", "03 0502"),
    ("04 0001 ffff", "01 04 0001 0a"), ("06 0001 ffff 0028 0d18", "01 06 0001 0a"),
    ("08 0001 ffff 0328", "01 08 0001 0a"), ("10 0001 ffff 0028", "01 10 0001 0a"),
    ("10 0001 ffff 0128", "01 10 0001 0a"), ("10 0100 ffff 0328", "01 10 0100 10"),
    ("04 0000 ffff", "01 04 0000 01"), ("08 0000 ffff 0328", "01 08 0000 01"),
    ("10 0000 ffff 0028", "01 10 0000 01"), ("04 0500 0400", "01 04 0500 01"),
    ("06 0500 0400 0028 0d18", "01 06 0500 01"), ("0a 0001", "01 0a 0001 01"),
    ("0c 0001 0000", "01 0c 0001 01"), ("0e 0001 0101", "01 0e 0001 01"), ("12 0001 01", "01 12 0001 01"),
    ("16 0001 0000 01", "01 16 0001 01"), ("20 0001 0101", "01 20 0001 01"), ("18 01", "19"), ("18 00", "19"),
    ("1d 0001 01", "1e"), ("1d 0001", "1e"), ("bf 00", "01 bf 0000 06"), ("1f", "01 1f 0000 06"),
    ("0a 00", "01 0a 0000 04"), ("02 f700 00", "01 02 0000 04"), ("04 0100", "01 04 0000 04"),
  ])
  func answers(_ request: String, _ answer: String) async throws {
    let link = try await Link.open()
    link.send(request)
    #expect(await link.peer.received(atLeast: 1).map { hexOf($0) } == [hexOf(octetsOf(answer))])
    #expect(await link.connection.end == nil)
    await link.close()
  }

  /// No response is sent: the next PDU from our side is the response to a later request.
  @Test(arguments: [
    "1b 0001 01", "1b 0001", "23 0001 0100 01 0101 0100 02", "52 0001 01", "d2 0001 01", "ff 00", "52",
    "1b 00",
    "23 0001 0500 01", "",
  ])
  func keepsQuiet(_ pdu: String) async throws {
    let link = try await Link.open()
    link.send(pdu)
    link.send("0a 0001")
    #expect(await link.peer.received(atLeast: 1).map { hexOf($0) } == ["010a000101"])
    #expect(await link.connection.end == nil)
    await link.close()
  }

  /// GAP and GATT exist for phones and BlueZ, which read them right after connecting.
  @Test func hasTheTwoServices() async throws {
    let link = try await Link.open()
    link.send("10 0100 ffff 0028")
    let services = try #require(await link.peer.received(atLeast: 1).first)
    #expect(services.prefix(2) == [0x11, 0x06])
    #expect(services.count == 14)
    #expect([services[6], services[7], services[12], services[13]] == [0x00, 0x18, 0x01, 0x18])
    await link.close()
  }

  /// Core 5.4, Vol 3, Part F, 3.4.2: an exchange by the peer applies to both directions, once it has its
  /// response.
  @Test func takesThePeersMTU() async throws {
    let values = Values()
    let link = try await Link.open { $0.hasPrefix("12") ? ["13"] : [] }
    _ = try await link.connection.subscribe(Link.characteristic(3)) { values.take($0, $1) }
    #expect(await link.connection.mtu == 23)
    link.send("02 f700")
    _ = await link.peer.received(atLeast: 2)
    #expect(await link.connection.mtu == 247)
    link.send("1b 0300" + String(repeating: "5a", count: 244))
    await values.count.reaches(1)
    #expect(values.all == ["3:" + String(repeating: "5a", count: 244)])
    // Longer than the MTU: dropped and counted.
    link.send("1b 0300" + String(repeating: "5a", count: 245))
    link.send("1b 0300 01")
    await values.count.reaches(2)
    #expect(await link.connection.statistics.malformed == 1)
    await link.close()
  }
}
